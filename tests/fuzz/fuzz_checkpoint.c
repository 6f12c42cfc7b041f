/* Checkpoints of a small net and its optimizer.  Bit 0 of the first byte chooses Adam or SGD with momentum.
 * With bit 1, the rest is the file.  Without it, the rest are changes of a good file, three bytes each:
 * where, and what to change; a place beyond the end sets the length instead, up to terabytes that are only
 * promised.  With bit 2, the good file has no checksum, so that the changes are read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/io/file.h"
#include "core/io/safetensors.h"
#include "layers/net.h"
#include "optim/optim.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/bytes.h"
#include "tests/support/room.h"

enum { SIDE = 4, BATCH = 2, MOST_BYTES = 1 << 16 };

typedef struct trained {
    qg_net        *net;
    qg_optim      *optim;
    qg_state      *state;
    const char    *path;
    unsigned char *good, *plain;        /* [n] its checkpoint, at path, and the same without a checksum */
    size_t         n;
    uint64_t       digest;
} trained;

/* One step, which also moves the learned scales and the moments away from 0. */
static qg_status step(const trained *r, uint64_t index)
{
    float         x[BATCH * SIDE * SIDE];
    const uint16_t label[BATCH] = { 0, 1 };
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)(i % 7) / 7;
    qg_tape *t = qg_tape_new();
    MUST(t);
    qg_tape_begin(t, QG_TRAIN, 1, index);
    qg_var   *y = qg_net_forward(r->net, t, (qg_tensor){ { BATCH, SIDE, SIDE, 1 }, x });
    qg_status s = qg_backward(t, qg_cross_entropy(t, y, label));
    if (!s) s = qg_optim_step(r->optim);
    if (s) qg_params_clear_gradients(qg_net_params(r->net));
    qg_tape_free(t);
    return s;
}

static const char *path_of(const char *name)
{
    static char path[ROOM_BYTES];
    return strcpy(path, in_room(name));
}

/* Spoils a text that occurs in the header. */
static void spoil(unsigned char *file, size_t n, const char *text)
{
    const size_t length = strlen(text);
    size_t       at     = 0;
    while (at + length <= n && memcmp(file + at, text, length)) at++;
    MUST(at + length <= n);
    file[at] = '-';
}

static trained train(bool adam)
{
    trained r = { .net = qg_net_new(
                      (qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = 1 }) };
    qg_net_conv2d(r.net, (qg_conv2d_spec){ .out = 2, .kernel = 3, .weight = qg_ttq((qg_ttq_spec){ 0 }) });
    qg_net_batchnorm(r.net);
    qg_net_dense(r.net, (qg_dense_spec){ .out = 2,
                                         .weight = qg_lsq((qg_lsq_spec){ .bits = 4, .is_signed = true }) });
    qg_params *p = qg_net_build(r.net);
    r.optim      = adam ? qg_adam(p, (qg_adam_spec){ .lr = 0.01f })
                        : qg_sgd(p, (qg_sgd_spec){ .lr = 0.01f, .momentum = 0.9f });
    r.state      = qg_state_new();
    MUST(p && r.optim && r.state);
    qg_net_state(r.net, r.state);
    qg_optim_state(r.optim, r.state);
    qg_state_set_note(r.state, "format", "fuzz");
    for (uint64_t i = 0; i < 3; i++) MUST(!step(&r, i));
    r.path   = adam ? "adam" : "sgd";
    r.digest = qg_params_digest(p);
    MUST(!qg_state_save(r.state, path_of(r.path)));
    MUST(!qg__file_read_in(QG_BY_PATH, path_of(r.path), MOST_BYTES, &r.good, &r.n));
    MUST(!qg__file_read_in(QG_BY_PATH, path_of(r.path), MOST_BYTES, &r.plain, &r.n));
    spoil(r.plain, r.n, QG_SAFETENSORS_CHECKSUM);
    spoil(r.plain, r.n, QG_SAFETENSORS_HASH);
    return r;
}

static void write_file(const trained *r, const uint8_t *bytes, size_t n)
{
    if (bytes[0] & 2) {
        write_in_room("file", bytes + 1, n - 1);
        return;
    }
    unsigned char *file   = malloc(r->n);
    off_t          length = -1;
    MUST(file);
    memcpy(file, bytes[0] & 4 ? r->plain : r->good, r->n);
    for (size_t i = 1; i + 3 <= n; i += 3) {
        const size_t at = get_u16(bytes + i) % (r->n + r->n / 8);
        if (at < r->n) file[at] ^= bytes[i + 2];
        else
            length = bytes[i + 2] & 128 ? (off_t)1 << (bytes[i + 2] & 127) % 42
                                        : (off_t)r->n * bytes[i + 2] / 128;
    }
    write_in_room("file", file, r->n);
    if (length >= 0) (void)!truncate(path_of("file"), length);      /* a file system may have a limit */
    free(file);
}

/* The state is that of the good file, to the bit. */
static void check_unchanged(const trained *r)
{
    unsigned char *bytes;
    size_t         n;
    MUST(!qg_state_save(r->state, path_of("now")));
    MUST(!qg__file_read_in(QG_BY_PATH, path_of("now"), MOST_BYTES, &bytes, &n));
    MUST(n == r->n && !memcmp(bytes, r->good, n));
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static trained both[2];
    if (n < 1) return 0;
    trained *r = &both[bytes[0] & 1];
    if (!r->net) *r = train(bytes[0] & 1);
    write_file(r, bytes, n);
    const bool loads = fuzz_ok(qg_state_load(r->state, path_of("file")));
    /* Nothing was read, or one change was in what has no meaning, such as white space. */
    if (!loads || (!(bytes[0] & 6) && n <= 4)) check_unchanged(r);
    if (loads) {
        (void)fuzz_ok(step(r, 3));
        MUST(!qg_state_load(r->state, path_of(r->path)));
    }
    /* A file of the net alone, or with more. */
    if (fuzz_ok(qg_net_load(r->net, path_of("file")))) MUST(!qg_state_load(r->state, path_of(r->path)));
    MUST(qg_params_digest(qg_net_params(r->net)) == r->digest);
    return 0;
}
