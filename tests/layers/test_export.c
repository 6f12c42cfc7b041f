/* A packed file computes what the net computes in QG_EVAL: every code of every step, and every score, bit for bit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/file.h"
#include "core/kernels/parallel.h"
#include "core/walk.h"
#include "infer/kernels/isa.h"
#include "infer/net.h"
#include "layers/export/export.h"
#include "layers/export/writer.h"
#include "layers/models/models.h"
#include "layers/models/text.h"
#include "layers/plan.h"
#include "tests/support/bits.h"
#include "tests/support/coded.h"
#include "tests/support/environment.h"
#include "tests/support/exported.h"
#include "tests/support/nets.h"
#include "tests/support/onnx.h"
#include "tests/support/packed.h"
#include "tests/support/room.h"
#include "tests/support/testing.h"

enum { N = MOST_IMAGES, LINE = 64 };

/* --- the engine ----------------------------------------------------------------------------- */

/* Bytes of packed weights in memory. */
static size_t resident(qg_isa isa, const qg__records *s)
{
    size_t bytes = 0;
    for (int i = 0; i < s->count; i++) {
        const qg__packed_step *r = &s->record[i].r;
        const qg__codes x = r->x ? qg__codes_of_value(&s->record[r->x - 1].r) : (qg__codes){ 0 };
        const qg__product      p = qg__product_of(r, x);
        if (r->kind == QG__PRODUCT) bytes += qg__product_weight_bytes(isa, &p);
    }
    return bytes;
}

typedef struct packed {
    unsigned char *file;
    size_t         bytes;
    qg__records    records;         /* what it was made from */
} packed;

static void pack(packed *p, const qg_net *net, const char *what)
{
    const qg_export_spec spec = { .step = 1, .floats_only = true };
    if (qg__records_of(net, spec.step, false, &p->records)) fail_msg("%s: %s", what, qg_errmsg());
    assert_ok(qg__write_packed(net, &p->records, spec, &p->file, &p->bytes));
    assert_int_equal(p->bytes, packed_size(net));
}

static void unpack(packed *p)
{
    free(p->file);
    qg__records_free(&p->records);
}

typedef struct engine {
    const qg_infer *net;
    void           *memory, *context;
    size_t          bytes;          /* of the context */
} engine;

static void load(engine *e, const unsigned char *file, size_t bytes, const char *what)
{
    size_t          memory;
    qg_infer_status s = qg_infer_size(file, bytes, &memory);
    if (s) fail_msg("%s: %s", what, qg_infer_message(s));
    e->memory = aligned_alloc(LINE, memory);
    assert_non_null(e->memory);
    s = qg_infer_load(file, bytes, e->memory, memory, &e->net);
    if (s) fail_msg("%s: %s", what, qg_infer_message(s));
    e->bytes   = qg_infer_context_bytes(e->net, N);
    e->context = aligned_alloc(LINE, e->bytes);
    assert_non_null(e->context);
}

static void unload(engine *e) { free(e->memory), free(e->context); }

/* --- step by step --------------------------------------------------------------------------- */

typedef struct comparison {
    rig          *r;
    engine       *e;
    const packed *p;
    qg_var *const *out;             /* of QG_EVAL, by layer */
    int           n, codes, floats; /* images; steps that were compared */
    const char   *what;
} comparison;

/* The code of number i of the step's value, from 0, as the engine stores it. */
static int code_at(const qg__record *s, qg__coding stored, const uint8_t *value, size_t i)
{
    const qg__codes q = { s->r.q_lowest, s->r.q_step, s->r.q_count };
    const size_t    oc = (size_t)s->r.oc;
    if (stored == QG__AS_BYTES) return value[i] / q.step;
    const qg__alphabet a = qg__alphabet_of(q);
    const uint64_t    *pixel = (const uint64_t *)(const void *)value + i / oc * (size_t)a.bits * qg__words((int)oc);
    return (value_of_pixel(a, (int)oc, pixel, (int)(i % oc)) - q.lowest) / q.step;
}

static int code_of(const float *threshold, int count, float x)
{
    int u = 0;
    while (u + 1 < count && x >= threshold[u]) u++;
    return u;
}

/* The step that has quantized the value: s itself, or the one whose value it pools.  .r.q_count 0: none. */
static const qg__record *quantizer_of(const qg__records *all, const qg__record *s)
{
    while (s->r.kind == QG__MAXPOOL && s->r.x > 0) s = &all->record[s->r.x - 1];
    return s;
}

static const float *thresholds(const qg__record *s)
{
    return s->floats + (s->r.kind == QG__PRODUCT ? (s->r.two_sided ? 3 : 2) * (size_t)s->r.oc : 0);
}

static const qg_step *step_with_result(const qg_net *net, const qg_layer *l)
{
    for (int i = 0; i < net->steps; i++)
        if (net->step[i].result == l) return &net->step[i];
    return NULL;
}

/* Floats as numbers, because a quantizer gives a level of 0 the sign of x, and a file has one level for each code. */
static void compare_step(void *user, int i)
{
    comparison            *c = user;
    const qg__record      *s = &c->p->records.record[i];
    const uint8_t         *value = (const uint8_t *)c->e->context + (size_t)c->n * c->e->net->value[i + 1].at;
    const qg__coding       stored = (qg__coding)c->e->net->step[i].r.coding;
    const bool             input = ends_with(s->name, ".input");
    char                   name[64];
    snprintf(name, sizeof name, "%.*s", (int)(strlen(s->name) - (input ? strlen(".input") : 0)),
             s->name);
    const qg_layer *l = qg__net_named(c->r->net, name); /* NULL: a part of a layer */
    if (input) l = l->after;
    if (!l) return;
    const qg_step *step = step_with_result(c->r->net, l);
    const qg_var  *y    = c->out[l->index];
    if (!step || !y) return;
    const qg__record      *by = quantizer_of(&c->p->records, s);
    const int              count = by->r.q_count;
    const bool             clips = input && !count;     /* or rectifies */
    if (clips || (!count && step->slot)) return;        /* one of both has quantized for a reader already */
    *(s->r.coding == QG__AS_FLOATS ? &c->floats : &c->codes) += 1;
    for (size_t k = 0; k < (size_t)c->n * qg_row(y->shape); k++) {
        const int   u = count ? code_of(thresholds(by), count, y->data[k]) : 0;
        const float z = ((const float *)(const void *)value)[s->r.coding == QG__AS_FLOATS ? k : 0];
        const float expected = count && s->r.coding == QG__AS_FLOATS ? thresholds(by)[count - 1 + u] : y->data[k];
        if (s->r.coding == QG__AS_FLOATS ? z != expected : code_at(s, stored, value, k) != u)
            fail_msg("%s: %s: number %zu is %.9g or code %d, in evaluation %.9g or code %d", c->what, s->name, k, (double)z,
                     s->r.coding == QG__AS_FLOATS ? 0 : code_at(s, stored, value, k), (double)expected, u);
    }
}

/* A pixel that is not finite would have other codes in the engine than in evaluation, so both refuse it. */
static void check_refusals(rig *r, const engine *e)
{
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    const size_t       row = qg_row(r->image), all = qg_count(r->image);
    float             *scores = malloc((size_t)r->image.n * (size_t)qg_infer_scores(e->net) * sizeof *scores);
    assert_non_null(scores);
    for (size_t i = 0; i < 3; i++) {
        char         part[128];
        const size_t at   = i * (all - 1) / 2;
        const float  kept = r->x[at];
        r->x[at]          = bad[i];
        snprintf(part, sizeof part, "net: value %zu of image %zu is %g, and evaluation needs", at % row, at / row, (double)bad[i]);
        assert_int_equal(qg_infer_run(e->net, r->image.n, r->x, scores, e->context, e->bytes), QG_INFER_ENAN);
        qg_tape_begin(r->t, QG_EVAL, 1, 1);
        assert_null(qg_net_forward(r->net, r->t, (qg_tensor){ r->image, r->x }));
        assert_failed(qg_tape_status(r->t), QG_ENAN, part);
        r->x[at] = kept;
    }
    free(scores);
}

/* --- all of it ------------------------------------------------------------------------------ */

typedef struct found {
    int codes, floats;
} found;

/* What evaluation computes for all images. */
typedef struct expected {
    const float   *score;       /* [images][row] */
    qg_var *const *out;         /* by layer */
    size_t         row;
} expected;

/* Every step for as many images as run together, and the scores of all images and of some. */
static found check_choice(rig *r, const packed *p, const char *told, expected y, int some, const char *what)
{
    static float scores[N * 4096];
    engine       e;
    set_variable("QGRAD_PRODUCTS", told);
    load(&e, p->file, p->bytes, what);
    assert_int_equal(p->records.count, qg_infer_steps(e.net));
    if (told && !strcmp(told, "bits"))
        assert_int_equal(resident(qg__infer_isa(), &p->records), qg_infer_weight_bytes(e.net));
    const size_t together = (size_t)qg_infer_images_at_once(e.net);
    const int    all = r->image.n;
    const int    most = together < (size_t)all ? (int)together : all;
    comparison   c = { .r = r, .e = &e, .p = p, .out = y.out, .n = most, .what = what };
    assert_int_equal(y.row, qg_infer_scores(e.net));
    const int fewer[] = { c.n, some, c.n < all ? all : 0 };
    for (int i = 0; i < COUNT(fewer); i++) {
        const int n = fewer[i];
        memset(scores, 0, (size_t)n * y.row * sizeof *scores);
        if (i == 0) assert_int_equal(qg_infer_run_observed(e.net, n, r->x, scores, e.context, e.bytes, compare_step, &c), QG_INFER_OK);
        else assert_int_equal(qg_infer_run(e.net, n, r->x, scores, e.context, e.bytes), QG_INFER_OK);
        for (size_t k = 0; k < (size_t)n * y.row; k++)
            if (memcmp(&scores[k], &y.score[k], sizeof *scores))
                fail_msg("%s: %d images: score %zu is %.9g, in evaluation %.9g", what, n, k, (double)scores[k],
                         (double)y.score[k]);
    }
    unload(&e);
    return (found){ c.codes, c.floats };
}

/* --- ONNX ----------------------------------------------------------------------------------- */

/* The scores of the first image, from an ONNX file that is read again. */
static void check_onnx(rig *r, const qg__records *s, expected y, const char *what)
{
    float          scores[4096], *x = malloc(qg_row(r->image) * sizeof *x);
    unsigned char *file;
    size_t         bytes;
    onnx_model     m;
    const size_t   c = (size_t)r->image.c, pixels = qg_row(r->image) / c;
    if (qg__write_onnx(r->net, s, (qg_export_spec){ .floats_only = true }, &file, &bytes))
        fail_msg("%s: %s", what, qg_errmsg());
    const bool exact = onnx_is_exact(s);
    const char *fault = onnx_read(&m, file, bytes);
    free(file);
    assert_non_null(x);
    for (size_t i = 0; i < c * pixels; i++) x[i] = r->x[i % pixels * c + i / pixels];
    if (!fault) fault = onnx_run(&m, 1, x, scores);
    if (fault) fail_msg("%s: ONNX: %s", what, fault);
    assert_int_equal(m.out.dim[1], y.row);
    for (size_t i = 0; i < y.row; i++) {
        const float z = y.score[i], most = exact ? 0 : 1e-4f * (1 + fabsf(z)); /* a hundred roundings */
        if (!(fabsf(scores[i] - z) <= most))
            fail_msg("%s: ONNX: score %zu is %.9g, not %.9g", what, i, (double)scores[i], (double)z);
    }
    onnx_free(&m);
    free(x);
}

/* What products read: what the loader chooses, bytes or bits, or is told. */
static const char *const choices[] = { NULL, "bytes", "bits" };
enum { CHOICES = COUNT(choices), TOLD = 6, ONNX = 1 << CHOICES, ALL = 2 * ONNX - 1 };

/* With a set of choices, and as ONNX.  Of many nets, each number of images and of threads has its turn. */
static found check(rig *r, int set, const char *what)
{
    static int   turn;
    static float scores[N * 4096];
    packed       p;
    engine       e;
    found        f = { 0 };
    pack(&p, r->net, what);
    qg_set_threads(1 + turn / 16 % 3);
    const qg_var  *y = rig_scores(r, r->image.n);
    const expected of_net = { scores, qg__tape_attached(r->t, r->net), qg_row(y->shape) };
    assert_true(of_net.row <= 4096);
    memcpy(scores, y->data, (size_t)r->image.n * of_net.row * sizeof *scores);
    if (set & ONNX) check_onnx(r, &p.records, of_net, what);
    for (int i = 0; i < CHOICES; i++)
        if (set >> i & 1) f = check_choice(r, &p, choices[i], of_net, 1 + (turn + i) % (r->image.n - 1), what);
    if (turn++ % 8 == 0 || every_combination()) {
        load(&e, p.file, p.bytes, what);
        check_refusals(r, &e);
        unload(&e);
    }
    set_variable("QGRAD_PRODUCTS", NULL);
    unpack(&p);
    return f;
}

/* --- schemes and shapes --------------------------------------------------------------------- */

static void every_scheme_in_every_role_is_exact(void **state)
{
    found all = { 0 };
    for (int i = 0; i < exported_count(EXPORTED_PAIRS); i++) {
        const int      k = i / TESTED_INPUTS, j = i % TESTED_INPUTS;
        const qg_quant x = tested_quant(&tested_inputs[j], QG_INPUT);
        char           what[WHAT_BYTES];
        rig            r;
        if (!every_combination() && (k + j) % 2) continue;
        use_path((k / 2 + j / 2) % PATHS);              /* every scheme on every path */
        if (!rig_begin(&r, exported_declare(EXPORTED_PAIRS, i, what), N)) fail_msg("%s: %s", what, qg_errmsg());
        if (x.per_channel || x.bits == 10) {
            unsigned char *file;
            size_t         bytes;
            assert_failed(qg_export_bytes(r.net, (qg_export_spec){ .floats_only = true }, &file, &bytes), QG_EARG,
                          x.per_channel ? "fc1: its input has a scale per channel" : "fc1: its input has 1024 codes");
            assert_int_equal(packed_size(r.net), 0);
        } else {
            const found f = check(&r, every_combination() || i % 3 == 0 ? ALL : TOLD | ONNX, what);
            all.codes += f.codes, all.floats += f.floats;
        }
        rig_end(&r);
    }
    assert_true(all.codes > 500 && all.floats > 500);
}

/* --- layers --------------------------------------------------------------------------------- */

static void every_layer_is_exact(void **state)
{
    for (int i = 0; i < exported_count(EXPORTED_LAYERS); i++) {
        rig  r;
        char what[WHAT_BYTES];
        use_path((i / 9 + i) % PATHS);
        if (rig_begin(&r, exported_declare(EXPORTED_LAYERS, i, what), N)) check(&r, ALL, what);
        else if (!exported_may_fail(EXPORTED_LAYERS, i) || !strstr(qg_errmsg(), "xnor")) fail_msg("%s: %s", what, qg_errmsg());
        rig_end(&r);
    }
}

static void branches_are_exact(void **state)
{
    for (int i = 0; i < exported_count(EXPORTED_BRANCHES); i++) {
        rig  r;
        char what[WHAT_BYTES];
        if (!rig_begin(&r, exported_declare(EXPORTED_BRANCHES, i, what), N)) fail_msg("%s", qg_errmsg());
        check(&r, ALL, what);
        rig_end(&r);
    }
}

/* --- models --------------------------------------------------------------------------------- */

static void every_model_is_exact(void **state)
{
    const int schemes = 5;
    int       K = 0;
    for (int i = 0; i < exported_count(EXPORTED_MODELS); i++) {
        const int   turn = i / schemes + i % schemes;
        const char *name = qg_models[i / schemes]->name;
        char        what[WHAT_BYTES];
        rig         r;
        const bool  deep = strstr("resnet32 resnet44 resnet56", name) || strstr(name, "net18");
        if (deep && i % schemes != i % 2) continue;
        use_path(turn % schemes ? 1 + turn % 2 : 0);        /* the baseline is slow */
        if (rig_begin(&r, exported_declare(EXPORTED_MODELS, i, what), 3)) {
            const int some = 1 << turn % CHOICES | (turn % 3 ? 0 : ONNX);   /* each for every model */
            check(&r, every_combination() ? ALL : some, what);
            K += exported_may_fail(EXPORTED_MODELS, i);
        } else if (!exported_may_fail(EXPORTED_MODELS, i) || !strstr(qg_errmsg(), "xnor scales")) {     /* not every model can have K */
            fail_msg("%s: %s", what, qg_errmsg());
        }
        rig_end(&r);
    }
    assert_true(K > 4);
}

/* Weights in memory take at most 1.2 times the bytes of the file, for all widths that kernels keep packed: 5 and 6 bits take a byte.
 * Where both operands have at most 4 bits, kernels fill up the channels of a pixel to a word of 64.  A few nets have so many layers of
 * 16, 20 or 32 channels that their weights take up to 1.31 times the file. */
static void weights_stay_packed_in_memory(void **state)
{
    static const char few[] = "lenet5-xnor resnet20 resnet32 resnet44 resnet56";
    const qg_quant    sign = qg_sign((qg_sign_spec){ 0 }), none = { 0 };
    const struct { qg_quant w, x; } schemes[] = {
        { qg_binary((qg_binary_spec){ 0 }), none },
        { qg_binary((qg_binary_spec){ 0 }), sign },
        { qg_twn((qg_twn_spec){ 0 }), sign },
        { qg_ttq((qg_ttq_spec){ 0 }), none },
        { qg_dorefa_weight((qg_dorefa_weight_spec){ .bits = 2 }),
          qg_dorefa_activation((qg_dorefa_activation_spec){ .bits = 2 }) },
        { qg_lsq((qg_lsq_spec){ .bits = 4, .is_signed = true }), qg_lsq((qg_lsq_spec){ .bits = 4 }) },
        { qg_lsq((qg_lsq_spec){ .bits = 8, .is_signed = true }), qg_lsq((qg_lsq_spec){ .bits = 8 }) },
        { qg_lsq((qg_lsq_spec){ .bits = 8, .is_signed = true }), none },
    };
    for (const qg_model *const *m = qg_models; *m; m++)
        for (int k = 0; k < COUNT(schemes); k++) {
            if (!every_combination() && (m - qg_models + k) % 2) continue;
            const qg_model_spec spec = { .height = (*m)->image.h > 32 ? 32 : (*m)->image.h,
                                         .width = (*m)->image.w > 32 ? 32 : (*m)->image.w, .channels = (*m)->image.c, .classes = 10, .seed = 5, .weight = schemes[k].w,
                                         .input = schemes[k].x, .first_last = k % 2 ? QG_FIRST_LAST_FLOAT : QG_FIRST_LAST_QUANTIZED };
            qg_net              *net = qg_model_declare(*m, spec);
            qg__records          s;
            assert_true(qg_net_build(net));
            assert_ok(qg__records_of(net, 1, true, &s));
            const double most = schemes[k].x.scheme && strstr(few, (*m)->name) ? 1.31 : 1.2;
            const double file = (double)packed_size(net);
            for (int path = 0; path <= (int)widest_path(); path++) {
                use_path(path);
                const double bytes = (double)resident(qg__infer_isa(), &s);
                if (!(bytes <= most * file))
                    fail_msg("%s, %d: weights of %.0f bytes in memory, the file has %.0f", (*m)->name, k, bytes, file);
            }
            qg__records_free(&s);
            qg_net_free(net);
        }
}

/* --- the file ------------------------------------------------------------------------------- */

static qg_net *small(qg_quant w, qg_quant x)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = 6, .width = 5, .channels = 3, .seed = 3 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 8, .kernel = 3 });
    qg_net_batchnorm(net);
    qg_net_dense(net, (qg_dense_spec){ .out = 4, .weight = w, .input = x });
    return net;
}

/* Bytes are normalised as by a loader, and notes are found. */
static void normalisation_and_notes_are_inside(void **state)
{
    static const qg_note notes[] = { { "data", "cats" }, { "class-names", "a/\303\244/\360\237\220\210/d" } };
    rig            r;
    unsigned char *file, byte[N * 90];
    size_t         bytes;
    float          mean[90], deviation[90], scores[N * 4];
    engine         e;
    assert_true(rig_begin(&r, small(qg_twn((qg_twn_spec){ 0 }), qg_pact((qg_pact_spec){ 0 })), N));
    for (size_t i = 0; i < sizeof byte; i++) byte[i] = (unsigned char)(i * 37 % 256);
    fill_uniform(mean, 90, 0, 1, 1);
    fill_uniform(deviation, 90, 0.1f, 1, 2);
    static const int numbers[] = { 1, 3, 90 };
    for (int k = 0; k < 3; k++) {
        const int            m    = numbers[k];
        const qg_export_spec spec = { .numbers = m, .mean = mean, .deviation = deviation, .notes = 2, .note = notes };
        for (int i = 0; i < N * 90; i++) r.x[i] = ((float)byte[i] / 255.0f - mean[i % m]) / deviation[i % m];
        assert_ok(qg_export_bytes(r.net, spec, &file, &bytes));
        assert_int_equal(bytes, packed_size(r.net) + 8 * (size_t)(m == 1 ? 3 : m) + sizeof "data cats class-names a/\303\244/\360\237\220\210/d");
        load(&e, file, bytes, "notes");
        assert_int_equal(qg_infer_run_bytes(e.net, N, byte, scores, e.context, e.bytes), QG_INFER_OK);
        assert_memory_equal(scores, rig_scores(&r, N)->data, sizeof scores);
        assert_string_equal(qg_infer_note(e.net, "data"), "cats");
        assert_string_equal(qg_infer_note(e.net, "class-names"), notes[1].value);
        assert_null(qg_infer_note(e.net, "digest"));
        unload(&e);
        free(file);
    }
    rig_end(&r);
}

/* Rows of zero points, which a range of each channel needs, came with version 2. */
static void a_file_has_the_lowest_version(void **state)
{
    const qg_quant weights[] = { qg_twn((qg_twn_spec){ 0 }),
                                 qg_fake_quant((qg_fake_quant_spec){ .per_channel = true }) };
    for (int k = 0; k < 2; k++) {
        rig            r;
        unsigned char *file;
        size_t         bytes, memory;
        assert_true(rig_begin(&r, small(weights[k], qg_lsq((qg_lsq_spec){ .bits = 8 })), N));
        assert_ok(qg_export_bytes(r.net, (qg_export_spec){ .step = 1, .floats_only = true }, &file, &bytes));
        assert_int_equal(file[8], 1 + k);
        file[8] = (unsigned char)(2 - k);       /* as if it were of the other version */
        packed_seal(file, bytes);
        assert_int_equal(qg_infer_size(file, bytes, &memory), k ? QG_INFER_EFORMAT : QG_INFER_OK);
        free(file);
        rig_end(&r);
    }
}

/* Layers that only the program reads are not in the file. */
static void a_file_has_one_result(void **state)
{
    unsigned char *file;
    size_t         bytes[2];
    for (int heads = 1; heads <= 2; heads++) {
        rig       r;
        engine    e;
        float     scores[N * 4];
        qg_net   *net = qg_net_new((qg_net_spec){ .height = 6, .width = 5, .channels = 3, .seed = 3 });
        qg_layer *x   = qg_net_conv2d(net, (qg_conv2d_spec){ .out = 8, .kernel = 3 });
        if (heads == 2)
            qg_net_mark_output(qg_net_dense(net, (qg_dense_spec){ .name = "other", .out = 7, .after = x }));
        qg_net_dense(net, (qg_dense_spec){ .name = "last", .out = 4, .after = x });
        assert_true(rig_begin(&r, net, N));
        assert_ok(qg_export_bytes(net, (qg_export_spec){ .floats_only = true }, &file, &bytes[heads - 1]));
        load(&e, file, bytes[heads - 1], "one result");
        assert_int_equal(qg_infer_scores(e.net), 4);
        assert_int_equal(qg_infer_run(e.net, N, r.x, scores, e.context, e.bytes), QG_INFER_OK);
        assert_memory_equal(scores, rig_scores(&r, N)->data, sizeof scores);
        unload(&e);
        free(file);
        rig_end(&r);
    }
    assert_int_equal(bytes[0], bytes[1]);
}

/* Where codes meet codes, neither the file nor a score depends on the instruction set. */
static void codes_are_the_same_on_every_path(void **state)
{
    static const int w[] = { 1, 4, 8, 15, 22, 27 }, x[] = { 1, 5, 7, 17, 18 };
    for (int i = 0; i < COUNT(w) * COUNT(x); i++) {
        const qg_quant weight = tested_quant(&tested_weights[w[i % COUNT(w)]], QG_WEIGHT);
        const qg_quant input  = tested_quant(&tested_inputs[x[i / COUNT(w)]], QG_INPUT);
        packed         p[PATHS];
        float          scores[PATHS][N * 10];
        rig            r;
        qg_net        *net = qg_net_new((qg_net_spec){ .height = 9, .width = 8, .channels = 3, .seed = 4 });
        qg_net_conv2d(net, (qg_conv2d_spec){ .out = 33, .kernel = 3, .weight = weight, .input = input });
        qg_net_batchnorm(net);
        qg_net_maxpool(net, 2);
        qg_net_conv2d(net, (qg_conv2d_spec){ .out = 65, .kernel = 3, .pad = 1, .weight = weight, .input = input });
        qg_net_batchnorm(net);
        qg_net_dense(net, (qg_dense_spec){ .out = 10, .weight = weight, .input = input });
        use_path(0);
        assert_true(rig_begin(&r, net, N));
        for (int path = 0; path < PATHS; path++) {
            engine e;
            use_path(path);
            pack(&p[path], net, "paths");
            assert_true(p[path].bytes == p[0].bytes && !memcmp(p[path].file, p[0].file, p[0].bytes));
            load(&e, p[path].file, p[path].bytes, "paths");
            assert_int_equal(qg_infer_run(e.net, N, r.x, scores[path], e.context, e.bytes), QG_INFER_OK);
            assert_memory_equal(scores[path], scores[0], sizeof scores[0]);
            unload(&e);
        }
        for (int path = 0; path < PATHS; path++) unpack(&p[path]);
        rig_end(&r);
    }
}

/* Quantizers that wait are left out until their step. */
static void a_step_of_training_decides_what_has_started(void **state)
{
    for (int k = 0; k < 3; k++) {
        qg_quant w = qg_twn((qg_twn_spec){ 0 });
        qg_quant x = k == 0 ? qg_pact((qg_pact_spec){ 0 }) : k == 1 ? qg_xnor_activation((qg_xnor_activation_spec){ 0 })
                                                                     : qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_OBSERVED });
        w.after = 5, x.after = 9;
        rig r;
        assert_true(rig_begin(&r, small(w, x), N));
        for (uint64_t step = 4; step <= 10; step += 3) {
            unsigned char *file;
            size_t         bytes;
            float          scores[N * 4];
            engine         e;
            assert_ok(qg_export_bytes(r.net, (qg_export_spec){ .step = step, .floats_only = true }, &file, &bytes));
            load(&e, file, bytes, "a step of training");
            assert_int_equal(qg_infer_run(e.net, N, r.x, scores, e.context, e.bytes), QG_INFER_OK);
            qg_tape_begin(r.t, QG_EVAL, 1, step);
            const qg_var *y = qg_net_forward(r.net, r.t, (qg_tensor){ r.image, r.x });
            assert_non_null(y);
            assert_memory_equal(scores, y->data, sizeof scores);
            unload(&e);
            free(file);
        }
        rig_end(&r);
    }
}

static qg_var *forward_own(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    (void)l, (void)z;
    return qg_scale(t, x, 2);
}

static const qg_layer_type own_type = { .name = "doubled", .size = sizeof(qg_layer), .forward = forward_own };

static void what_no_file_can_express_is_refused(void **state)
{
    const qg_quant w = qg_twn((qg_twn_spec){ 0 });
    const struct {
        qg_quant x;
        const char *says;
    } rows[] = {
        { qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_OBSERVED }), "fc1: its input: fake_quant: no batch has been seen" },
        { qg_dorefa_activation((qg_dorefa_activation_spec){ .bits = 9 }),
          "fc1: its input has 512 codes (dorefa), but an exported net at most 256" },
        { qg_fake_quant((qg_fake_quant_spec){ .per_channel = true }),
          "fc1: its input has a scale per channel (fake_quant), which an exported net cannot express" },
        { qg_qdq((qg_qdq_spec){ 0 }),
          "fc1: the scale of its input (qdq) depends on the images of a batch, which an exported net cannot express; use "
          "fake_quant:range=observed, whose scale does not" },
    };
    unsigned char *file;
    size_t         bytes;
    for (int i = 0; i < COUNT(rows); i++) {
        qg_net *net = small(w, rows[i].x);
        assert_non_null(qg_net_build(net));
        assert_failed(qg_export_bytes(net, (qg_export_spec){ .floats_only = true }, &file, &bytes), i == 0 ? QG_ESTATE : QG_EARG, rows[i].says);
        assert_true((packed_size(net) > 0) == (i == 0));        /* a range that is not known yet has a size */
        qg_net_free(net);
    }
    qg_net *net = small(w, rows[0].x);
    assert_non_null(qg_net_build(net));
    qg_params_find(qg_net_params(net), "fc1.input.seen")->value[0] = 1;        /* zeros */
    assert_failed(qg_export_bytes(net, (qg_export_spec){ .floats_only = true }, &file, &bytes), QG_EARG,
                  "fc1: the range of its input (fake_quant:range=observed) is empty: the images that set it had");
    qg_net_free(net);
    net = small(w, (qg_quant){ 0 });
    qg_net_append(net, &own_type, NULL, "own", NULL);
    assert_failed(qg_export_bytes(net, (qg_export_spec){ .floats_only = true }, &file, &bytes), QG_ESTATE, "before qg_net_build");
    assert_non_null(qg_net_build(net));
    assert_failed(qg_export_bytes(net, (qg_export_spec){ .floats_only = true }, &file, &bytes), QG_EARG,
                  "own1: an exported net cannot express layers of the type 'doubled'");
    qg_net_free(net);
    assert_failed(qg_export_bytes(NULL, (qg_export_spec){ .floats_only = true }, &file, &bytes), QG_EARG, "net");
}

/* --- codes of a scheme of one's own ---------------------------------------------------------- */

/* -1, 0 or 1, except for what is wrong with it. */
typedef enum fault { NO_FAULT, ZERO_AT_THE_ENDS, FALLING, BEYOND_ITS_CODES, BETWEEN_ITS_CODES } fault;

static int32_t own_code(qg_quant q, float x)
{
    const fault f    = (fault)q.arg[0];
    const int   sign = (x > 0.5f) - (x < -0.5f);
    if (f == ZERO_AT_THE_ENDS && fabsf(x) > 0x1p24f) return 0;        /* x - 1 is x */
    if (f == BETWEEN_ITS_CODES) return 2 * sign + (x > 1.0f && x < 2.0f);
    return f == FALLING ? -sign : f == BEYOND_ITS_CODES && sign > 0 ? 100 : sign;
}

static qg_code_set own_codes(qg_quant q)
{
    const int step = (fault)q.arg[0] == BETWEEN_ITS_CODES ? 2 : 1;
    return (qg_code_set){ .lowest = -step, .step = step, .count = 3 };
}

static qg_status own_encode(qg_quant q, qg_tensor x, const float *const *learned, qg_codes *out)
{
    for (size_t i = 0; i < qg_count(x.shape); i++) out->code[i] = own_code(q, x.data[i]);
    out->scale[0] = 1, out->n_scale = 1, out->bits = 2;
    return QG_OK;
}

static const qg_op own_op = { .name = "own", .backward = qg_surrogate_backward };

static qg_var *own_apply(qg_tape *t, const qg_binding *b, qg_var *x, qg_var *const *learned)
{
    qg_var *y = qg_record_surrogate(t, &own_op, x, (qg_surrogate){ 0 });
    for (size_t i = 0; y && i < qg_count(x->shape); i++) y->data[i] = (float)own_code(b->q, x->data[i]);
    return y;
}

static const qg_scheme own_scheme = { .name = "own", .bits = 2, .roles = QG_WEIGHT | QG_INPUT,
                                      .apply = own_apply, .codes = own_codes, .encode = own_encode };

static qg_quant own(fault f) { return (qg_quant){ .scheme = &own_scheme, .bits = 2, .arg = { f } }; }

static void codes_must_ascend_and_be_in_their_set(void **state)
{
    static const char *const inputs[] = {
        [ZERO_AT_THE_ENDS]  = "fc1: own: the code of -3.40282e+38 is 0, where codes that do not decrease",
        [FALLING]           = "fc1: own: the code of -3.40282e+38 is 1, where codes that do not decrease",
        [BEYOND_ITS_CODES]  = "is 100, which is none of its codes, -1 to 1 by 1",
        [BETWEEN_ITS_CODES] = "is 3, which is none of its codes, -2 to 2 by 2"
    };
    const qg_export_spec spec = { .floats_only = true };
    const qg_quant       twn  = qg_twn((qg_twn_spec){ 0 });
    unsigned char       *file;
    size_t               bytes;
    for (fault f = NO_FAULT; f <= BETWEEN_ITS_CODES; f++) {
        qg_net *net = small(twn, own(f));
        assert_non_null(qg_net_build(net));
        if (f) assert_failed(qg_export_bytes(net, spec, &file, &bytes), QG_EARG, inputs[f]);
        else assert_ok(qg_export_bytes(net, spec, &file, &bytes)), free(file);
        qg_net_free(net);
    }
    qg_net *net = small(own(BEYOND_ITS_CODES), (qg_quant){ 0 });
    assert_non_null(qg_net_build(net));
    qg_param *w = qg_params_find(qg_net_params(net), "fc1.weight");
    for (size_t i = 0; i < qg_count(w->shape); i++) w->value[i] = 0;
    w->value[3] = 1;
    assert_failed(qg_export_bytes(net, spec, &file, &bytes), QG_EARG, "fc1: own: the code of 1 is 100, which");
    qg_net_free(net);
}

/* Numbers of layers without a product. */
static void other_numbers_must_be_finite_too(void **state)
{
    unsigned char *file;
    size_t         bytes;
    qg_net        *net = qg_net_new((qg_net_spec){ .height = 2, .width = 2, .channels = 1, .seed = 3 });
    qg_net_prelu(net, (qg_prelu_spec){ 0 });
    qg_net_quantize(net, qg_pact((qg_pact_spec){ .bits = 32 }));
    assert_non_null(qg_net_build(net));
    qg_net_params(net)->item[0]->value[0] = NAN;
    assert_failed(qg_export_bytes(net, (qg_export_spec){ .floats_only = true }, &file, &bytes), QG_ENAN, "prelu1: one of its numbers is nan");
    qg_net_params(net)->item[0]->value[0] = 1;
    assert_string_equal(qg_net_params(net)->item[1]->name, "quant1.input.alpha");
    assert_ok(qg_export_bytes(net, (qg_export_spec){ .floats_only = true }, &file, &bytes));
    free(file);
    qg_net_params(net)->item[1]->value[0] = NAN;
    assert_failed(qg_export_bytes(net, (qg_export_spec){ .floats_only = true }, &file, &bytes), QG_ENAN, "quant1: ");
    qg_net_free(net);
}

static void numbers_must_be_finite(void **state)
{
    static const struct { const char *parameter, *says; } rows[] = {
        { "conv1.weight", "conv1: a weight is inf" }, { "bn1.gamma", "conv1: the factor of a channel is inf" },
        { "bn1.beta", "conv1: the offset of a channel is inf" }, { "fc1.bias", "fc1: the offset of a channel is inf" },
    };
    static const float bad[] = { 1, INFINITY, 1 }, none[] = { 1, 0, 1 }, good[] = { 0, 0, 0 };
    unsigned char *file;
    size_t         bytes;
    rig            r;
    assert_true(rig_begin(&r, small(qg_twn((qg_twn_spec){ 0 }), (qg_quant){ 0 }), N));
    for (int i = 0; i < COUNT(rows); i++) {
        const qg_params *p = qg_net_params(r.net);
        for (int k = 0; k < p->count; k++) {
            if (strcmp(p->item[k]->name, rows[i].parameter)) continue;
            const float was = p->item[k]->value[0];
            p->item[k]->value[0] = INFINITY;
            assert_failed(qg_export_bytes(r.net, (qg_export_spec){ .floats_only = true }, &file, &bytes), QG_ENAN, rows[i].says);
            p->item[k]->value[0] = was;
        }
    }
    const struct { qg_export_spec spec; const char *says; } specs[] = {
        { { .numbers = 2, .mean = good, .deviation = good }, "2 means and deviations, must be 1, 3 or 90" },
        { { .numbers = 0 }, "does not say how images of bytes are normalised: set .numbers, .mean and .deviation" },
        { { .numbers = 3, .mean = good, .deviation = good, .floats_only = true }, "a net of floats_only normalises nothing" },
        { { .numbers = 3, .mean = good }, "deviation" },
        { { .numbers = 3, .deviation = good }, "mean" },
        { { .numbers = 3, .mean = good, .deviation = bad }, "deviation inf of number 1" },
        { { .numbers = 3, .mean = good, .deviation = none }, "the deviation positive" },
        { { .floats_only = true, .notes = 1, .note = &(qg_note){ "\377", "x" } }, "note 0 is empty or not UTF-8" },
        { { .floats_only = true, .notes = 1, .note = &(qg_note){ "x", NULL } }, "note 0 is empty or not UTF-8" },
    };
    for (int i = 0; i < COUNT(specs); i++)
        assert_failed(qg_export_bytes(r.net, specs[i].spec, &file, &bytes), QG_EARG, specs[i].says);
    rig_end(&r);
}

static void a_file_is_replaced_as_a_whole(void **state)
{
    const char    *path = scratch_file();
    unsigned char *there, *file;
    size_t         n, bytes;
    rig            r;
    assert_true(rig_begin(&r, small(qg_twn((qg_twn_spec){ 0 }), (qg_quant){ 0 }), N));
    assert_ok(qg_export(r.net, path, (qg_export_spec){ .floats_only = true }));
    assert_ok(qg_export_bytes(r.net, (qg_export_spec){ .floats_only = true }, &file, &bytes));
    qg_net_params(r.net)->item[0]->value[0] = NAN;
    assert_failed(qg_export(r.net, path, (qg_export_spec){ .floats_only = true }), QG_ENAN, "conv1: a weight is nan");
    assert_ok(qg__file_read_in(QG_BY_PATH, path, 1 << 20, &there, &n));
    assert_int_equal(n, bytes);
    assert_memory_equal(there, file, n);
    free(there), free(file);
    qg_net_params(r.net)->item[0]->value[0] = 0;
    assert_failed(qg_export(r.net, "no/such/net.qg", (qg_export_spec){ .floats_only = true }), QG_EIO, "no/such/net.qg");
    rig_end(&r);
}

static int leave(void **state)
{
    qg_set_threads(0);
    return restore_variables(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_scheme_in_every_role_is_exact, leave),
        cmocka_unit_test_teardown(every_layer_is_exact, leave),
        cmocka_unit_test_teardown(branches_are_exact, leave),
        cmocka_unit_test_teardown(every_model_is_exact, leave),
        cmocka_unit_test_teardown(codes_are_the_same_on_every_path, leave),
        cmocka_unit_test_teardown(weights_stay_packed_in_memory, leave),
        cmocka_unit_test(normalisation_and_notes_are_inside),
        cmocka_unit_test(a_file_has_the_lowest_version),
        cmocka_unit_test(a_file_has_one_result),
        cmocka_unit_test(a_step_of_training_decides_what_has_started),
        cmocka_unit_test(what_no_file_can_express_is_refused),
        cmocka_unit_test(codes_must_ascend_and_be_in_their_set),
        cmocka_unit_test(numbers_must_be_finite),
        cmocka_unit_test(other_numbers_must_be_finite_too),
        cmocka_unit_test(a_file_is_replaced_as_a_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
