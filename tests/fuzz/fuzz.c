#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/io/safetensors.h"
#include "core/kernels/parallel.h"
#include "tests/support/room.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    qg_set_threads(1);
    return room_enter(NULL);
}

void fuzz_failed(const char *file, int line, const char *condition)
{
    fuzz_mute(false);
    fprintf(stderr, "%s:%d: error: %s does not hold; the last message is '%s'\n", file, line, condition,
            qg_errmsg());
    abort();
}

bool fuzz_ok(qg_status s)
{
    if (s) MUST(qg_errcode() == s && *qg_errmsg());
    return s == QG_OK;
}

bool fuzz_got(const void *result)
{
    if (!result) MUST(qg_errcode() != QG_OK && *qg_errmsg());
    return result != NULL;
}

char *fuzz_text(const uint8_t *bytes, size_t n)
{
    char *text = malloc(n + 1);
    MUST(text);
    if (n) memcpy(text, bytes, n);
    text[n] = '\0';
    return text;
}

void fuzz_touch(const void *bytes, size_t n)
{
    /* memcpy checks a block at once; called in this way, it is not left out. */
    static void *(*volatile copy)(void *, const void *, size_t) = memcpy;
    static uint8_t nowhere[4096];
    const uint8_t *b = bytes;
    for (size_t i = 0; i < n; i += sizeof nowhere)
        copy(nowhere, b + i, n - i < sizeof nowhere ? n - i : sizeof nowhere);
}

void fuzz_mute(bool on)
{
    static int kept[3] = { -1, -1, -1 };
    for (int i = STDOUT_FILENO; i <= STDERR_FILENO; i++) {
        fflush(i == STDOUT_FILENO ? stdout : stderr);
        if (on && kept[i] < 0) {
            const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
            kept[i]           = dup(i);
            MUST(nowhere >= 0 && kept[i] >= 0 && dup2(nowhere, i) == i);
            close(nowhere);
        } else if (!on && kept[i] >= 0) {
            const int own = kept[i];
            kept[i]       = -1;
            MUST(dup2(own, i) == i);
            close(own);
        }
    }
}

/* --- choices ------------------------------------------------------------------------------------ */

uint8_t draw_byte(draws *d)
{
    if (d->at == d->n) d->at = 0;
    return d->n ? d->bytes[d->at++] : 0;
}

uint32_t draw_bits(draws *d)
{
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) v = v << 8 | draw_byte(d);
    return v;
}

int  draw(draws *d, int lo, int hi) { return lo + draw_byte(d) % (hi - lo + 1); }
bool draw_bool(draws *d) { return draw_byte(d) & 1; }
bool draw_rarely(draws *d) { return draw_byte(d) >= 240; }

int draw_int(draws *d)
{
    static const int odd[] = { -1, -2, INT_MIN, INT_MAX, 16,  24,  31,    32,    33,      53,
                               61, 62, 63,      64,      255, 256, 65535, 65536, 1 << 24, 1 << 30 };
    const int        k     = draw_byte(d), n = sizeof odd / sizeof *odd;
    return k < 256 - 3 * n ? k % 9 : odd[k % n];
}

float draw_float(draws *d)
{
    static const float odd[] = { 0.0f,     -0.0f,    1.0f,      -1.0f,    0.5f,      -0.5f,     0.05f,       0.7f,
                                 2.0f,     6.0f,     -6.0f,     10.0f,    127.0f,    128.0f,    255.0f,      -128.0f,
                                 1e-3f,    1e-30f,   -1e-30f,   1e30f,    -1e30f,    FLT_MIN,   0x1p-149f,   FLT_MAX,
                                 -FLT_MAX, INFINITY, -INFINITY, NAN,      0x1p-1f - 0x1p-25f,   0x1p31f,     -0x1p31f,
                                 1.0f + FLT_EPSILON };
    const int          k = draw_byte(d), n = sizeof odd / sizeof *odd;
    if (k < n) return odd[k];
    if (k >= 2 * n) return (float)(k - 160) / 32;
    const uint32_t bits = draw_bits(d);
    float          f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* --- arrays ------------------------------------------------------------------------------------- */

void fuzz_extents(draws *d, int rank, size_t *dims)
{
    enum { MOST = 300 };
    size_t n = 1;
    for (int i = 0; i < rank; i++) {
        dims[i] = (size_t)(draw_rarely(d) ? draw(d, 0, 70) : draw(d, 1, 4));
        if (n * dims[i] > MOST) dims[i] = 1;
        n *= dims[i];
    }
}

enum { MOST_ARRAYS = 64, POISON = 0xA5 };

static struct {
    void  *data;
    size_t bytes;
    bool   output;          /* not yet written by an operator that succeeded */
} arrays[MOST_ARRAYS];
static int n_arrays;

static qg_array new_array(draws *d, qg_dtype dtype, int rank, const size_t *dims, bool output)
{
    qg_array a = { .dtype = dtype, .rank = rank };
    for (int i = 0; i < rank; i++) a.dims[i] = dims[i];
    if (draw_rarely(d) && draw_rarely(d)) {
        const int what = draw(d, 0, 2);
        if (what == 0) a.dtype = (qg_dtype)draw(d, QG_F32, QG_U64);
        if (what == 1) a.dims[a.rank++] = (size_t)draw(d, 0, 2);
        if (what == 2 && rank) a.dims[draw(d, 0, rank - 1)] = (size_t)draw(d, 0, 5);
    }
    const size_t bytes = qg_array_count(&a) * qg__dtype_bytes(a.dtype);
    a.data             = malloc(bytes);         /* of no byte, too: an array may be empty */
    MUST(n_arrays < MOST_ARRAYS && (a.data || !bytes));
    arrays[n_arrays].data     = a.data;
    arrays[n_arrays].bytes    = bytes;
    arrays[n_arrays++].output = output;
    return a;
}

qg_array fuzz_input(draws *d, qg_dtype dtype, int rank, const size_t *dims)
{
    const qg_array a = new_array(d, dtype, rank, dims, false);
    const size_t   n = qg_array_count(&a);
    if (a.dtype == QG_F32) for (size_t i = 0; i < n; i++) ((float *)a.data)[i] = draw_float(d);
    else for (size_t i = 0; i < n * qg__dtype_bytes(a.dtype); i++) ((uint8_t *)a.data)[i] = draw_byte(d);
    return a;
}

qg_array fuzz_output(draws *d, qg_dtype dtype, int rank, const size_t *dims)
{
    const qg_array a     = new_array(d, dtype, rank, dims, true);
    const size_t   bytes = arrays[n_arrays - 1].bytes;
    if (bytes) memset(a.data, POISON, bytes);
    return a;
}

void fuzz_arrays_end(void)
{
    while (n_arrays) free(arrays[--n_arrays].data);
}

bool fuzz_done(qg_status s)
{
    for (int i = 0; i < n_arrays; i++) {
        const uint8_t *b = arrays[i].data;
        for (size_t k = 0; s && arrays[i].output && k < arrays[i].bytes; k++) MUST(b[k] == POISON);
        if (!s) arrays[i].output = false;
    }
    return fuzz_ok(s);
}
