/* Small nets whose layers, quantizers and optimizer the bytes choose, legal or not: declare, build, train,
 * evaluate, save and load.  What was saved and loaded into a second net of the same declaration continues
 * to the same digest.  What is exported as a packed file has the scores of evaluation, and as an ONNX file
 * where its sums do not depend on their order; and it can be written in C. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/config/schemes.h"
#include "infer/infer.h"
#include "layers/export/graph.h"
#include "layers/export/export.h"
#include "layers/layer.h"
#include "optim/optim.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/onnx.h"
#include "tests/support/room.h"

enum { MOST_LAYERS = 6, MOST_BATCH = 4, STEPS = 2, MOST_WEIGHTS = 1 << 16 };

/* --- quantizers ---------------------------------------------------------------------------------- */

static const qg_scheme *draw_scheme(draws *d, qg_role role)
{
    const qg_scheme *own[64], *s;
    int              n = 0;
    unsigned         r;
    for (int i = 0; scheme_in_role(i, &s, &r); i++)
        if (r == (unsigned)role && n < 64) own[n++] = s;
    return own[draw(d, 0, n - 1)];
}

/* Some of the keys, mostly with legal values. */
static void draw_arguments(draws *d, const qg_key *keys, char *text, size_t bytes)
{
    size_t used = 0;
    *text       = '\0';
    for (int i = 0; i < qg_keys_count(keys); i++) {
        const qg_key *key   = &keys[i];
        const double  part  = draw(d, 0, 255) / 255.0;
        double        value = key->words ? draw(d, 0, qg_key_words(key) - 1)
                                         : key->min + (key->max - key->min) * part;
        char          spelt[QG_KEY_BYTES];
        if (draw(d, 0, 2) || key->most || key->is & QG_KEY_FLAG || !isfinite(value)) continue;
        if (key->is & QG_KEY_WHOLE) value = floor(value);
        used += (size_t)snprintf(text + used, bytes - used, "%s%s=%s", used ? "," : "", key->name,
                                 qg_key_value(key, value, spelt));
    }
}

static qg_quant draw_quant(draws *d, qg_role role)
{
    char     text[512];
    qg_quant q = { 0 };
    if (draw_bool(d)) return q;
    if (draw_rarely(d)) role = qg_roles[draw(d, 0, QG_ROLES - 1)];
    const qg_scheme *s = draw_scheme(d, role);
    draw_arguments(d, qg_scheme_keys(s, role), text, sizeof text);
    if (!fuzz_ok(qg_scheme_parse(s, role, text, &q)) && !fuzz_ok(qg_scheme_parse(s, role, NULL, &q)))
        return (qg_quant){ 0 };
    if (draw_rarely(d)) q.after = (uint64_t)draw(d, 0, 2);
    if (draw_rarely(d)) q.surrogate = qg_surrogate_tanh(draw_float(d));
    if (draw_rarely(d)) q.arg[draw(d, 0, 7)] = (double)draw_float(d);
    if (draw_rarely(d)) q.bits = draw_int(d);
    if (draw_rarely(d)) q.per_channel = !q.per_channel;
    return q;
}

/* --- nets ----------------------------------------------------------------------------------------- */

static int draw_size(draws *d, int most) { return draw_rarely(d) ? draw_int(d) : draw(d, 1, most); }

static qg_layer *draw_layer(draws *d, qg_net *net, qg_layer *before, qg_layer *earlier)
{
    switch (draw(d, 0, 13)) {
    case 0:
    case 1: {
        const int groups = draw_rarely(d)   ? draw_int(d)
                           : draw_rarely(d) ? QG_DEPTHWISE
                           : draw_rarely(d) ? 2
                                            : 0;
        return qg_net_conv2d(net, (qg_conv2d_spec){ .out       = groups == QG_DEPTHWISE ? 0 : draw(d, 1, 5),
                                                    .groups    = groups,
                                                    .same      = draw_rarely(d),
                                                    .kernel    = draw_size(d, 3),
                                                    .kernel_w  = draw_rarely(d) ? draw_int(d) : 0,
                                                    .stride    = draw_rarely(d) ? draw_int(d) : draw(d, 0, 2),
                                                    .pad       = draw_rarely(d) ? draw_int(d) % 64 : draw(d, 0, 1),
                                                    .pad_value = draw_rarely(d) ? draw_float(d) : 0,
                                                    .no_bias   = draw_bool(d),
                                                    .weight    = draw_quant(d, QG_WEIGHT),
                                                    .input     = draw_quant(d, QG_INPUT),
                                                    .gradient  = draw_quant(d, QG_GRADIENT) });
    }
    case 2:
        return qg_net_dense(net, (qg_dense_spec){ .out      = draw(d, 1, 20),
                                                  .no_bias  = draw_bool(d),
                                                  .weight   = draw_quant(d, QG_WEIGHT),
                                                  .input    = draw_quant(d, QG_INPUT),
                                                  .gradient = draw_quant(d, QG_GRADIENT) });
    case 3: return qg_net_batchnorm(net);
    case 4:
        return qg_net_batchnorm_with(net, (qg_batchnorm_spec){ .eps = draw_rarely(d) ? draw_float(d) : 0,
                                                               .momentum = draw_rarely(d) ? draw_float(d) : 0,
                                                               .no_scale = draw_bool(d),
                                                               .no_shift = draw_bool(d),
                                                               .whole = draw_bool(d),
                                                               .freeze_after = (uint64_t)draw(d, 0, 2) });
    case 5: return qg_net_relu(net);
    case 6:
        return draw_bool(d) ? qg_net_hardtanh(net) : draw_bool(d) ? qg_net_sigmoid(net) : qg_net_tanh(net);
    case 7: return qg_net_affine(net, draw_float(d), draw_float(d));
    case 8: {
        const qg_pool2d_spec spec = { .size = draw_size(d, 3),
                                      .stride = draw_rarely(d) ? draw_int(d) : draw(d, 0, 3),
                                      .pad = draw_rarely(d) ? draw_int(d) % 64 : draw(d, 0, 1),
                                      .exclude_pad = draw_bool(d) };
        return draw_bool(d) ? qg_net_maxpool_with(net, spec) : qg_net_avgpool_with(net, spec);
    }
    case 9:
        return draw_bool(d) ? qg_net_global_avgpool(net)
                            : qg_net_dropout(net, draw_rarely(d) ? draw_float(d) : 0.25f);
    case 10: return qg_net_quantize(net, draw_quant(d, QG_INPUT));
    case 11: return draw_bool(d) ? qg_net_add(net, before, earlier) : qg_net_concat(net, before, earlier);
    case 12: {
        const qg_prelu_spec spec = { .start = draw_rarely(d) ? draw_float(d) : 0, .shared = draw_bool(d) };
        return draw_bool(d) ? qg_net_prelu(net, spec) : qg_net_rprelu(net, spec);
    }
    default: return qg_net_add(net, before, qg_net_shortcut(net, earlier, draw_size(d, 2), draw_size(d, 5)));
    }
}

typedef struct drawn {
    qg_net *net;
    int     h, w, c, classes;
} drawn;

static drawn declare(draws *d)
{
    drawn n = { .h = draw(d, 1, 8), .w = draw(d, 1, 8), .c = draw(d, 1, 3), .classes = draw(d, 1, 10) };
    qg_layer *before = NULL, *earlier = NULL;
    n.net = qg_net_new((qg_net_spec){ .height                 = draw_rarely(d) ? draw_int(d) : n.h,
                                      .width                  = n.w,
                                      .channels               = n.c,
                                      .seed                   = draw_byte(d),
                                      .fold_batchnorm         = draw_rarely(d),
                                      .freeze_batchnorm_after = draw_rarely(d) });
    const int layers = draw(d, 0, MOST_LAYERS);
    for (int i = 0; i < layers; i++) {
        qg_layer *l = draw_layer(d, n.net, before, earlier);
        if (draw_bool(d)) earlier = before;
        before = l;
    }
    qg_net_dense(n.net, (qg_dense_spec){ .out = n.classes,
                                         .weight = draw_quant(d, QG_WEIGHT),
                                         .input = draw_quant(d, QG_INPUT) });
    return n;
}

static qg_optim *draw_optim(draws *d, qg_params *p)
{
    const float        lr   = draw_rarely(d) ? draw_float(d) : 0.01f * (float)draw(d, 1, 50);
    const qg_adam_spec adam = { .lr = lr,
                                .weight_decay = draw_rarely(d) ? draw_float(d) : 0,
                                .beta1 = draw_rarely(d) ? draw_float(d) : 0,
                                .eps = draw_rarely(d) ? draw_float(d) : 0 };
    const float        momentum = draw_bool(d) ? 0.9f : 0;
    bool               flips    = false;
    for (int i = 0; i < p->count; i++) flips |= p->item[i]->flips;
    if (draw_rarely(d)) flips = !flips;
    if (flips) return qg_bop(p, (qg_bop_spec){ .rest = adam, .threshold = draw_float(d) });
    if (draw_bool(d)) return qg_adam(p, adam);
    return qg_sgd(p, (qg_sgd_spec){ .lr = lr,
                                    .momentum = momentum,
                                    .nesterov = draw_bool(d),
                                    .weight_decay = adam.weight_decay });
}

/* --- training -------------------------------------------------------------------------------------- */

typedef struct job {
    drawn     net;
    qg_optim *optim;
    qg_tape  *tape;
    qg_state *state;
} job;

/* From the same place in the bytes, so two jobs are alike. */
static bool begin(job *j, draws d)
{
    *j           = (job){ .net = declare(&d), .tape = qg_tape_new(), .state = qg_state_new() };
    qg_params *p = qg_net_build(j->net.net);
    if (!fuzz_got(p)) return false;
    j->optim = draw_optim(&d, p);
    qg_net_state(j->net.net, j->state);
    if (!fuzz_got(j->optim)) return false;
    qg_optim_state(j->optim, j->state);
    return true;
}

static void end(job *j)
{
    qg_tape_free(j->tape);
    qg_optim_free(j->optim);
    qg_state_free(j->state);
    qg_net_free(j->net.net);
}

typedef struct batch {
    qg_tensor x;
    uint16_t  label[MOST_BATCH];
    bool      hinge;
} batch;

static batch draw_batch(draws *d, const drawn *net)
{
    batch b = { .x = { .shape = { draw(d, 1, MOST_BATCH), net->h, net->w, net->c } }, .hinge = draw_bool(d) };
    const size_t n   = qg_count(b.x.shape);
    float       *x   = malloc(n * sizeof *x);
    const bool   odd = draw_rarely(d);
    MUST(x);
    for (size_t i = 0; i < n; i++) x[i] = odd ? draw_float(d) : (float)draw_byte(d) / 255;
    for (int i = 0; i < b.x.shape.n; i++) b.label[i] = (uint8_t)draw(d, 0, net->classes - !draw_rarely(d));
    b.x.data = x;
    return b;
}

static qg_status step(const job *j, const batch *b, uint64_t index)
{
    qg_tape_begin(j->tape, QG_TRAIN, 5, index);
    qg_var   *scores = qg_net_forward(j->net.net, j->tape, b->x);
    qg_var   *loss   = b->hinge ? qg_squared_hinge(j->tape, scores, b->label)
                                : qg_cross_entropy(j->tape, scores, b->label);
    qg_status s      = qg_backward(j->tape, loss);
    if (!s) s = qg_optim_step(j->optim);
    if (s) qg_params_clear_gradients(qg_net_params(j->net.net));
    (void)fuzz_ok(s);
    return s;
}

static uint64_t digest(const job *j) { return qg_params_digest(qg_net_params(j->net.net)); }

static uint64_t hash_of(const float *x, size_t n)
{
    uint64_t h = 1;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        if (isnan(x[i])) bits = 0x7fc00000;
        h = (h ^ bits) * 0x100000001B3u;
    }
    return h;
}

/* A hash of the scores, 0 if there are none.  Evaluation changes nothing. */
static uint64_t evaluate(const job *j, const batch *b)
{
    const uint64_t before = digest(j);
    qg_tape_begin(j->tape, QG_EVAL, 5, STEPS);
    qg_var *y = qg_net_forward(j->net.net, j->tape, b->x);
    MUST(digest(j) == before);
    if (!fuzz_got(y)) return 0;
    return hash_of(y->data, qg_count(y->shape));
}

static void describe(const job *j)
{
    char  *text = NULL;
    size_t n    = 0;
    FILE  *out  = open_memstream(&text, &n);
    MUST(out && !qg_net_summary(j->net.net, out));
    MUST(!fclose(out) && n > 0);
    free(text);
    MUST(!qg_net_packed_bytes(j->net.net, &n) && (n > 0 || *qg_errmsg()));
}

/* The hash of the scores of the packed net; 0 if there is none. */
static uint64_t run_packed(const job *j, const batch *b)
{
    unsigned char  *file = NULL;
    size_t          bytes, memory;
    const qg_infer *net;
    if (!fuzz_ok(qg_export_bytes(j->net.net, (qg_export_spec){ .step = STEPS, .floats_only = true },
                                        &file, &bytes)))
        return 0;
    MUST(!qg_net_packed_bytes(j->net.net, &memory) && memory == bytes);
    MUST(qg_infer_size(file, bytes, &memory) == QG_INFER_OK);
    void *at = aligned_alloc(64, memory);
    MUST(at && qg_infer_load(file, bytes, at, memory, &net) == QG_INFER_OK);
    const size_t scores = (size_t)b->x.shape.n * (size_t)qg_infer_scores(net);
    const size_t work   = qg_infer_context_bytes(net, b->x.shape.n);
    void        *context = aligned_alloc(64, work);
    float       *y       = malloc(scores * sizeof *y);
    MUST(context && y && qg_infer_run(net, b->x.shape.n, b->x.data, y, context, work) == QG_INFER_OK);
    const uint64_t h = hash_of(y, scores);
    free(file), free(at), free(context), free(y);
    return h;
}

/* Nothing that has a packed form is refused in C, whether images are floats or bytes. */
static void write_c(const job *j)
{
    static const float   zero[1], one[1] = { 1 };
    const qg_export_spec specs[] = {
        { .format = QG_EXPORT_C, .step = STEPS, .floats_only = true },
        { .format = QG_EXPORT_C, .step = STEPS, .numbers = 1, .mean = zero, .deviation = one },
    };
    for (int i = 0; i < 2; i++) {
        unsigned char *text = NULL;
        size_t         bytes;
        MUST(!qg_export_bytes(j->net.net, specs[i], &text, &bytes) && strlen((char *)text) == bytes);
        free(text);
    }
}

static bool is_finite(qg_tensor x)
{
    for (size_t i = 0; i < qg_count(x.shape); i++)
        if (!isfinite(x.data[i])) return false;
    return true;
}

/* An ONNX file can be read, and computes the same where sums do not depend on their order. */
static void compare_onnx(const job *j, const batch *b)
{
    const qg_export_spec spec = { .format = QG_EXPORT_ONNX, .step = STEPS, .floats_only = true };
    const size_t         n = qg_count(b->x.shape), c = (size_t)b->x.shape.c, pixels = qg_row(b->x.shape) / c;
    unsigned char       *file = NULL;
    size_t               bytes;
    onnx_model           m;
    qg__records          s;
    if (!fuzz_ok(qg_export_bytes(j->net.net, spec, &file, &bytes))) return;
    MUST(!onnx_read(&m, file, bytes) && !qg__records_of(j->net.net, STEPS, false, &s));
    float *x = malloc(n * sizeof *x);
    float *scores = malloc((size_t)b->x.shape.n * (size_t)m.out.dim[1] * sizeof *scores);
    MUST(x && scores);
    for (size_t i = 0; i < n; i++)
        x[i] = b->x.data[i / (c * pixels) * c * pixels + i % pixels * c + i / pixels % c];
    MUST(!onnx_run(&m, b->x.shape.n, x, scores));
    qg_tape_begin(j->tape, QG_EVAL, 5, STEPS);
    const qg_var *y = qg_net_forward(j->net.net, j->tape, b->x);
    for (size_t i = 0; m.finite && onnx_is_exact(&s) && i < qg_count(y->shape); i++)
        MUST(scores[i] == y->data[i]);
    onnx_free(&m);
    qg__records_free(&s);
    free(file), free(x), free(scores);
}

/* A packed net computes what the net computes.  The engine is told nothing of the size of images, so it
 * runs only those that the net takes. */
static void compare_packed(const job *j, const batch *b)
{
    const uint64_t here   = evaluate(j, b);
    const uint64_t packed = here ? run_packed(j, b) : 0;
    MUST(!packed || packed == here || !is_finite(b->x));
    if (packed && is_finite(b->x)) compare_onnx(j, b);
    if (packed) write_c(j);
}

/* What was saved continues in another net as in the first. */
static void resume(const job *j, job *other, const batch *b)
{
    char path[ROOM_BYTES];
    strcpy(path, in_room("net"));
    if (!fuzz_ok(qg_state_save(j->state, path))) {
        MUST(qg_errcode() == QG_ENAN);
        return;
    }
    MUST(!qg_state_load(other->state, path));
    MUST(digest(j) == digest(other));
    MUST(evaluate(j, b) == evaluate(other, b));
    const qg_status s = step(j, b, STEPS);
    MUST(s == step(other, b, STEPS));
    MUST(digest(j) == digest(other));
    if (!fuzz_ok(qg_net_save(j->net.net, path))) return;
    MUST(!qg_net_load(other->net.net, path));
    MUST(digest(j) == digest(other));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    draws       d     = { bytes, n, 0 };
    const draws net_d = { bytes, n, 16 % (n + 1) };
    job         j, other;
    if (begin(&j, net_d) && qg_params_trained(qg_net_params(j.net.net)) <= MOST_WEIGHTS) {
        batch b = draw_batch(&d, &j.net);
        describe(&j);
        for (uint64_t i = 0; i < STEPS; i++) (void)step(&j, &b, i);
        compare_packed(&j, &b);
        if (begin(&other, net_d)) resume(&j, &other, &b);
        end(&other);
        free(b.x.data);
    }
    end(&j);
    return 0;
}
