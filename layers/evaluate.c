#include "layers/evaluate.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/io/number.h"
#include "core/kernels/parallel.h"
#include "infer/kernels/floats.h"
#include "infer/kernels/isa.h"

enum { MOST_CODES = 256 };

static const qg__codes no_codes = { 0 };

/* --- codes ---------------------------------------------------------------------------------- */

static qg__codes from_set(qg_code_set s)
{
    return s.count <= MOST_CODES ? (qg__codes){ s.lowest, s.step, s.count } : no_codes;
}

/* A scheme's own encode may give any code. */
static qg_status check_codes(const qg_scheme *of, qg__codes c, size_t n, const float *x, const int32_t *code)
{
    for (size_t i = 0; i < n && c.count; i++) {
        const int64_t from = (int64_t)code[i] - c.lowest;
        if (c.step < 1 || from < 0 || from / c.step >= c.count || from % c.step)
            return qg_fail(QG_EARG, "%s: the code of %g is %d, which is none of its codes, %d to %d by %d",
                           of->name, (double)x[i], (int)code[i], c.lowest, c.lowest + c.step * (c.count - 1),
                           c.step);
    }
    return QG_OK;
}

/* The codes of n <= 2 numbers. */
static qg_status encode(const qg_slot *slot, int n, const float *x, int32_t *code, qg_code_set *set, float *scale)
{
    float        copy[2] = { x[0], x[n - 1] }, negative[2];
    qg_codes     out     = { .code = code, .scale = scale, .negative = negative };
    const qg_status s = qg_slot_encode(slot, (qg_tensor){ { 1, 1, 1, n }, copy }, &out);
    *set              = out.two_sided ? (qg_code_set){ 0 } : out.set;
    return s;
}

/* QG_ESTATE: nothing has been seen, so that only the arguments say something. */
static qg_status input_codes(const qg_slot *slot, qg_code_set *set, float *scale)
{
    static const float ends[2][2] = { { 0.0f, 1.0f }, { 0.0f, 2.0f } };
    int32_t            code[2];
    float              other[2] = { 1.0f, 1.0f }, first[2];
    *scale = 1.0f;
    *set   = (qg_code_set){ 0 };
    if (!qg_has_codes(slot->q) || slot->q.per_channel) return QG_OK;
    qg_status s = encode(slot, 2, ends[0], code, set, first);
    if (!s) s = encode(slot, 2, ends[1], code, set, other);
    if (s == QG_ESTATE) *set = qg__code_set_of(slot->q);
    if (s) return s;
    *scale = first[0];
    /* A scale that depends on the numbers themselves is another one for each batch. */
    if (first[0] != other[0] || !(first[0] > 0.0f && isfinite(first[0]))) *set = (qg_code_set){ 0 };
    return QG_OK;
}

qg_status qg__slot_codes(const qg_slot *slot, uint64_t step, qg__codes *codes, float *scale)
{
    qg_code_set set;
    *codes = no_codes;
    *scale = 1.0f;
    if (!slot || !slot->q.scheme || qg__quant_is_delayed(slot->q, step)) return QG_OK;
    const qg_status s = input_codes(slot, &set, scale);
    *codes = from_set(set);
    if (!codes->count) *scale = 1.0f;
    return s;
}

/* passed: the traits of layers after which numbers are still codes. */
static const qg_slot *slot_before(const qg_product *p, unsigned passed)
{
    if (p->input_slot.q.scheme) return &p->input_slot;
    qg_layer *l = qg__layer_before(&p->layer, passed);
    return l ? qg__quantize_slot(l) : NULL;
}

static const qg_slot *read_slot(const qg_product *p) { return slot_before(p, QG_CHOOSES | QG_PASSES); }

const qg_slot *qg_layer_reads(qg_layer *l)
{
    const qg_product *p = l ? qg_layer_product(l) : NULL;
    return p ? read_slot(p) : NULL;
}

const qg_slot *qg__read_slot_in_training(const qg_product *p) { return slot_before(p, QG_CHOOSES); }

/* --- thresholds ------------------------------------------------------------------------------- */

/* Floats in ascending order are consecutive integers; -0 and 0 are the same. */
static const int32_t infinity_key = 0x7f800000;

static float float_at(int32_t key)
{
    const uint32_t bits = key < 0 ? 0x80000000u | (uint32_t)-key : (uint32_t)key;
    float          x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The code of x, which must be one of codes. */
static qg_status code_of(const qg_slot *slot, qg__codes codes, float x, int32_t *code)
{
    qg_code_set set;
    float       scale;
    const qg_status s = encode(slot, 1, &x, code, &set, &scale);
    return s ? s : check_codes(slot->q.scheme, codes, 1, &x, code);
}

/* The least x whose code is at least the given one. */
static qg_status threshold_of(const qg_slot *slot, qg__codes codes, int least, float *threshold)
{
    int32_t lo = -infinity_key, hi = infinity_key;
    while (lo < hi) {
        const int32_t middle = (int32_t)(((int64_t)lo + hi + (INT64_C(1) << 32)) / 2 - (INT64_C(1) << 31));
        int32_t         code;
        const qg_status s = code_of(slot, codes, float_at(middle), &code);
        if (s) return s;
        if (code >= least) hi = middle;
        else lo = middle + 1;
    }
    *threshold = float_at(lo);
    return QG_OK;
}

/* x quantized in QG_EVAL, as by a step of a net. */
static qg_status quantize(const qg_slot *slot, uint64_t step, qg_tensor x, float *y)
{
    qg_tape *t = qg_tape_new();
    if (!t) return QG_EMEM;
    qg_tape_begin(t, QG_EVAL, 0, step);
    const qg_var   *q = qg_slot_apply(slot, t, qg_input(t, x));
    const qg_status s = qg_tape_status(t);
    if (q) memcpy(y, q->data, qg_count(x.shape) * sizeof *y);
    qg_tape_free(t);
    return s;
}

/* Whether the thresholds, and the floats at both ends, have the codes that ascending codes have there. */
static qg_status check_ascent(const qg_slot *slot, qg__codes codes, const float *least)
{
    for (int i = 0; i <= codes.count; i++) {
        const float x = i < codes.count ? fminf(fmaxf(least[i], -FLT_MAX), FLT_MAX) : FLT_MAX;
        int32_t     code;
        int         u = 0;
        while (u + 1 < codes.count && least[u + 1] <= x) u++;
        const qg_status s = code_of(slot, codes, x, &code);
        if (s) return s;
        if (code != codes.lowest + codes.step * u)
            return qg_fail(QG_EARG, "%s: the code of %g is %d, where codes that do not decrease have %d",
                           slot->q.scheme->name, (double)x, (int)code, codes.lowest + codes.step * u);
    }
    return QG_OK;
}

qg_status qg__slot_thresholds(const qg_slot *slot, qg__codes codes, float *threshold, float *level)
{
    float least[MOST_CODES] = { -INFINITY };
    qg_status s = QG_OK;
    for (int u = 1; u < codes.count && !s; u++) {
        s = threshold_of(slot, codes, codes.lowest + codes.step * u, &least[u]);
        if (threshold) threshold[u - 1] = least[u];
    }
    if (!s) s = check_ascent(slot, codes, least);
    if (!s && level) s = qg__slot_values(slot, codes.count, least, level);
    for (int u = 0; !s && level && u < codes.count; u++) level[u] += 0.0f;        /* -0 becomes 0 */
    return s;
}

qg_status qg__slot_values(const qg_slot *slot, int n, const float *x, float *y)
{
    float copy[MOST_CODES];
    if (n > MOST_CODES) return qg_fail(QG_EARG, "%d numbers to quantize, at most %d", n, MOST_CODES);
    memcpy(copy, x, (size_t)n * sizeof *x);
    return quantize(slot, UINT64_MAX, (qg_tensor){ { 1, 1, 1, n }, copy }, y);
}

/* --- factors ---------------------------------------------------------------------------------- */

static void line_of(const qg_batchnorm *bn, size_t k, double *a, double *b)
{
    const qg_norm_spec spec = { .mean = bn->mean->value, .var = bn->var->value, .eps = bn->spec.eps };
    qg__norm_line(spec, bn->gamma ? bn->gamma->value : NULL, bn->beta ? bn->beta->value : NULL, k, a, b);
}

/* Rounds once; never -0, so that a sum with it is not -0 either. */
static float rounded(double b) { return (float)b + 0.0f; }

void qg__norm_scales(const qg_batchnorm *bn, float *a, float *b)
{
    for (size_t k = 0; k < qg_count(bn->var->shape); k++) {
        double slope, offset;
        line_of(bn, k, &slope, &offset);
        a[k] = (float)slope;
        b[k] = rounded(offset);
    }
}

bool qg__evaluation_scales(const qg_product *p)
{
    return p->input_slot.q.scheme && p->input_slot.q.scheme->scale_output;
}

bool qg__evaluation_has_norm(const qg_product *p)
{
    return p->batchnorm && !p->layer.result && !qg_product_is_folded(p) && !qg__evaluation_scales(p);
}

/* --- what is multiplied -------------------------------------------------------------------------- */

/* A product in its place.  Of a layer that runs alone, neither what precedes it nor what follows is known. */
typedef struct place {
    const qg_product *p;
    uint64_t          step;
    const qg_slot    *x;            /* whose codes it reads; NULL: floats */
    bool              norm, folded; /* the batch norm that follows is part of the factors; of the weight */
} place;

static place in_net(const qg_product *p, uint64_t step)
{
    return (place){ p, step, read_slot(p), qg__evaluation_has_norm(p), qg_product_is_folded(p) };
}

/* Sets p->w and p->zeros, the codes that a weight with codes of this set has. */
static void take_weight(qg_code_set set, qg__product *p)
{
    p->w     = set.each ? from_set((qg_code_set){ 0, 1, set.each, 0 }) : from_set(set);
    p->zeros = set.each && p->w.count;
}

/* Whether the weight has codes if it is finite. */
static bool takes_weight(const qg_product *p, uint64_t step, qg__product *shape)
{
    const qg_quant q = p->weight_slot.q;
    take_weight(q.scheme && !qg__quant_is_delayed(q, step) ? qg__code_set_of(q) : (qg_code_set){ 0 }, shape);
    return shape->w.count;
}

/* Whether they are equal just now or not. */
bool qg__is_two_sided(qg_quant q)
{
    const qg_form *form = q.scheme->form;
    return q.scheme->scales == 2 && (form == &qg_ternary_form || form == &qg_sign_form);
}

/* Padding that is not 0 must have a code. */
static bool pads_with_code(const qg_slot *slot, float scale, qg__product *p)
{
    qg_code_set set;
    int32_t     code;
    float       same;
    if (p->pad == 0.0f) return true;
    if (encode(slot, 1, &p->pad, &code, &set, &same) || (float)code * scale != p->pad) return false;
    p->pad = (float)code;
    return true;
}

/* Sets p->x, and p->pad if it is a code: floats if the weight is, if the padding has no code, or if no kernel has both. */
static void take_input(const qg_slot *slot, qg__codes codes, float *scale, qg__product *p)
{
    const float pad = p->pad;
    p->x            = codes;
    if (codes.count && p->w.count && pads_with_code(slot, *scale, p) && qg__product_fits(p) &&
        qg__product_coding(p) != QG__AS_FLOATS)
        return;
    p->x   = no_codes;
    p->pad = pad;
    *scale = 1.0f;
}

void qg__evaluation_shape(const qg_product *p, qg__product *shape)
{
    const qg_slot *slot = read_slot(p);
    qg__codes      codes;
    float          scale;
    qg__product_sizes(p, p->layer.in, shape);
    shape->two_sided = takes_weight(p, UINT64_MAX, shape) && qg__is_two_sided(p->weight_slot.q);
    (void)qg__slot_codes(slot, UINT64_MAX, &codes, &scale);
    take_input(slot, codes, &scale, shape);
}

/* --- the weight ------------------------------------------------------------------------------------ */

/* Memory of an evaluation: [oc] each, then the weight with its zero points, and the weight again if a norm is folded into it. */
typedef struct buffers {
    float *a, *an, *b, *scale, *negative, *w, *folded;
} buffers;

size_t qg__evaluation_floats(const qg_product *p)
{
    const size_t w = qg_count(p->weight->shape);
    return 6 * (size_t)p->weight->shape.n + (qg_product_is_folded(p) ? 2 : 1) * w;
}

static buffers buffers_in(const qg_product *p, float *memory)
{
    const size_t n = (size_t)p->weight->shape.n;
    float       *w = memory + 5 * n;
    return (buffers){ memory,        memory + n, memory + 2 * n, memory + 3 * n, memory + 4 * n, w,
                       w + qg_count(p->weight->shape) + n };
}

static bool is_finite(qg_tensor x)
{
    return QG_KERNELS_OF(qg__infer_isa(), qg__float_kernels)->are_finite(qg_count(x.shape), x.data);
}

size_t qg__evaluation_row(const qg__product *p) { return qg__row(&p->g) / (size_t)p->groups + (p->zeros ? 1 : 0); }

/* Codes as integers become codes as floats. */
static void as_floats(size_t n, float *w)
{
    for (size_t i = 0; i < n; i++) {
        int32_t code;
        memcpy(&code, &w[i], sizeof code);
        w[i] = (float)code;
    }
}

/* Rows of n codes become rows with their zero points, from the last one on.  Any zero point will do that makes all codes of a
 * row positive, the least one is within the codes. */
static void put_zeros(size_t rows, size_t n, float *w)
{
    for (size_t o = rows; o-- > 0;) {
        float *from = w + o * n, *to = w + o * (n + 1), zero = 0.0f;
        for (size_t i = 0; i < n; i++) zero = -from[i] > zero ? -from[i] : zero;
        for (size_t i = n; i-- > 0;) to[i + 1] = from[i] + zero;
        to[0] = zero;
    }
}

/* The codes of the weight as floats, and its scales. */
static qg_status encode_weight(const qg_product *p, qg_tensor w, buffers r, qg__evaluation *e)
{
    const qg_scheme *scheme = p->weight_slot.q.scheme;
    const size_t     n      = (size_t)w.shape.n;
    qg_codes         out    = { .code = (int32_t *)(void *)r.w, .scale = r.scale, .negative = r.negative };
    qg_status        s      = qg_slot_encode(&p->weight_slot, w, &out);
    take_weight(out.set, &e->p);
    if (!s && !scheme->form && !e->p.zeros)
        s = check_codes(scheme, e->p.w, qg_count(w.shape), w.data, out.code);
    if (s) return qg_fail(s, "%s: %s", p->layer.name, qg_errmsg());
    as_floats(qg_count(w.shape), r.w);
    for (size_t o = (size_t)out.n_scale; o < n; o++) {
        r.scale[o]    = r.scale[0];
        r.negative[o] = r.negative[0];
    }
    if (e->p.zeros) put_zeros(n, qg_row(w.shape), r.w);
    e->p.two_sided = qg__is_two_sided(p->weight_slot.q);
    e->w           = r.w;
    return QG_OK;
}

/* The weight as floats.  With a tape, its quantizer is recorded there. */
static qg_status float_weight(const qg_product *p, qg_tensor w, uint64_t step, qg_tape *t, buffers r,
                              qg__evaluation *e)
{
    qg_status s = QG_OK;
    e->p.w         = no_codes;
    e->p.two_sided = e->p.zeros = false;
    e->w           = w.data;
    for (int o = 0; o < w.shape.n; o++) r.scale[o] = 1.0f;
    if (!p->weight_slot.q.scheme) return QG_OK;
    if (t) {
        const qg_var *q = qg_slot_apply(&p->weight_slot, t, qg_input(t, w));
        if (!q) return qg_tape_status(t);
        e->w = q->data;
    } else {
        s    = quantize(&p->weight_slot, step, w, r.w);
        e->w = r.w;
    }
    return s ? qg_fail(s, "%s: %s", p->layer.name, qg_errmsg()) : QG_OK;
}

static void set_scales(place at, buffers r, qg__evaluation *e)
{
    const qg_product *p      = at.p;
    const bool        bias = p->bias && !qg__evaluation_scales(p);
    for (size_t o = 0; o < (size_t)p->weight->shape.n; o++) {
        double a = 1.0, b = bias ? (double)p->bias->value[o] : 0.0;
        if (at.norm || at.folded) line_of(p->batchnorm, o, &a, &b);
        if (at.folded) a = 1.0;
        a *= (double)e->x_scale;
        r.a[o]  = (float)((double)r.scale[o] * a);
        r.an[o] = e->p.two_sided ? (float)((double)r.negative[o] * a) : 0.0f;
        r.b[o]  = rounded(b);
    }
    e->k       = (qg__scales){ r.a, r.an, r.b };
    e->w_scale = r.scale;
}

/* e->p has the sizes already.  t NULL: no tape. */
static qg_status evaluation(place at, qg_tape *t, float *memory, qg__evaluation *e)
{
    const qg_product *p = at.p;
    const buffers     r = buffers_in(p, memory);
    const qg_tensor   own = { p->weight->shape, p->weight->value };
    const qg_tensor   w   = at.folded ? qg__product_weight(p, r.folded) : own;
    const bool        coded = takes_weight(p, at.step, &e->p) && is_finite(w);
    const qg_status   s = coded ? encode_weight(p, w, r, e) : float_weight(p, w, at.step, t, r, e);
    if (s) return s;
    qg__codes x;
    if (qg__slot_codes(at.x, at.step, &x, &e->x_scale)) x = no_codes;       /* floats until they are known */
    take_input(at.x, x, &e->x_scale, &e->p);
    set_scales(at, r, e);
    return QG_OK;
}

qg_status qg__evaluation_of(const qg_product *p, uint64_t step, float *memory, qg__evaluation *e)
{
    qg__product_sizes(p, p->layer.in, &e->p);
    return evaluation(in_net(p, step), NULL, memory, e);
}

qg_status qg__evaluation_in_training(const qg_product *p, const qg_slot *slot, uint64_t step, qg_shape x, float *memory,
                                     qg__evaluation *e)
{
    *e = (qg__evaluation){ .x_scale = 1.0f };
    qg__product_sizes(p, x, &e->p);
    return evaluation((place){ .p = p, .step = step, .x = slot }, NULL, memory, e);
}

/* --- what is evaluated ------------------------------------------------------------------------------ */

qg_status qg__evaluation_takes(qg_tensor images)
{
    const size_t row = qg_row(images.shape);
    if (is_finite(images)) return QG_OK;
    size_t i = 0;
    while (isfinite(images.data[i])) i++;
    return qg_fail(QG_ENAN, "net: value %zu of image %zu is %g, and evaluation needs finite ones", i % row, i / row,
                   qg__number_shown(images.data[i]));
}

/* --- on the tape -------------------------------------------------------------------------------------- */

/* Pieces are images, or as many as have this many results. */
enum { PIECE_RESULTS = 16 };

typedef struct job {
    const qg__evaluation *e;
    qg_isa                isa;
    qg_var               *y;
    int                   images;       /* of a piece */
    void                 *packed;
    char                 *scratch;      /* [workers]: codes, acc, and what the product needs */
    size_t                codes_bytes, acc_bytes, bytes;
} job;

/* A level is scale times an integer up to roundings, and the nearest integer is its code. */
const void *qg__evaluation_code(qg_isa isa, const qg__evaluation *e, size_t pixels, const float *x, void *codes)
{
    const qg__requantize_kernels *kernels = QG_KERNELS_OF(isa, qg__requantize_kernels);
    const qg__product            *p       = &e->p;
    const qg__coding              coding  = qg__product_coding(p);
    const qg__alphabet            a       = qg__alphabet_of(p->x);
    qg__finder f = { .search = QG__QUOTIENT, .scale = e->x_scale, .lowest = p->x.lowest,
                     .count = qg__highest(p->x) - p->x.lowest + 1, .step = 1 };
    if (coding == QG__AS_FLOATS) return x;
    if (coding == QG__AS_BYTES) {
        kernels->find(&f, pixels * (size_t)p->g.c, x, codes);
        return codes;
    }
    f.search = QG__COUNT;
    f.count  = qg__values(a);
    for (int u = 0; u + 1 < f.count; u++)
        f.few[u] = e->x_scale * ((float)(qg__lowest(a) + qg__step(a) * u) + 0.5f * (float)qg__step(a));
    kernels->find_bits(&f, a, pixels, p->g.c, x, codes);
    return codes;
}

static void piece(void *context, int piece, int worker)
{
    const job         *j     = context;
    const qg__product *p     = &j->e->p;
    const int          first = piece * j->images, left = j->y->shape.n - first, n = left < j->images ? left : j->images;
    const size_t       pixels = qg__pixels(&p->g), results = qg__results(&p->g);
    char              *codes = j->scratch + (size_t)worker * j->bytes, *acc = codes + j->codes_bytes;
    const float       *x     = j->y->in[0]->data + (size_t)first * pixels * (size_t)p->g.c;
    const void        *coded = qg__evaluation_code(j->isa, j->e, (size_t)n * pixels, x, codes);
    qg__product_run(j->isa, p, n, coded, j->packed, acc, acc + j->acc_bytes);
    qg__product_scale(j->isa, p, j->e->k, (size_t)n * results, acc, j->y->data + (size_t)first * results * (size_t)p->g.oc);
}

typedef struct packing {
    qg_isa                isa;
    const qg__evaluation *e;
    int                   unit;
    void                 *packed;
} packing;

static void pack_unit(void *context, int unit, int worker)
{
    const packing     *k   = context;
    const qg__product *p   = &k->e->p;
    const size_t       row = qg__evaluation_row(p);
    const int          end = (unit + 1) * k->unit;
    for (int o = unit * k->unit; o < end && o < p->g.oc; o++)
        qg__product_pack(k->isa, p, o, k->e->w + (size_t)o * row, k->packed);
}

void qg__evaluation_pack(qg_isa isa, const qg__evaluation *e, void *packed)
{
    const int unit = qg__product_pack_unit(&e->p);
    packing   k    = { isa, e, unit, packed };
    qg_parallel((e->p.g.oc + unit - 1) / unit, pack_unit, &k);
}

static bool take_scratch(qg_tape *t, job *j)
{
    const qg__product *p = &j->e->p;
    const qg__coding   coding = qg__product_coding(p);
    const size_t       results = qg__results(&p->g), n = (size_t)j->images;
    const size_t       image = qg__image_bytes(coding, p->x, p->g.h, p->g.w, p->g.c);
    j->codes_bytes = coding == QG__AS_FLOATS ? 0 : qg__lines_of(n * image);
    j->acc_bytes   = qg__lines_of((p->two_sided ? 2 : 1) * n * results * (size_t)p->g.oc * sizeof(float));
    j->bytes       = j->codes_bytes + j->acc_bytes + qg__lines_of(qg__product_scratch_bytes(j->isa, p, j->images));
    j->scratch     = qg_scratch(t, (size_t)qg_threads() * j->bytes);
    return j->scratch != NULL;
}

qg_var *qg__evaluate(const qg_step *s, qg_tape *t, qg_var *x, const qg_op *op, qg_shape shape)
{
    const qg_product *p = (const qg_product *)s->layer;
    const place alone    = { .p = p, .step = qg_tape_step(t), .x = p->input_slot.q.scheme ? &p->input_slot : NULL };
    const place at       = s->result ? in_net(p, qg_tape_step(t)) : alone;
    qg_var           *w = qg_parameter(t, p->weight);
    qg_var           *y = w ? qg_record(t, op, shape, x, w, NULL) : NULL;
    float            *memory = y ? qg_save(t, y, qg__evaluation_floats(p) * sizeof *memory) : NULL;
    qg__evaluation    e = { .x_scale = 1.0f };
    if (!memory) return NULL;
    qg__product_sizes(p, x->shape, &e.p);
    const qg_status failed = evaluation(at, t, memory, &e);
    if (failed) return qg_reject(t, failed, "%s", qg_errmsg());
    if (!qg__product_fits(&e.p))
        return qg_reject(t, QG_ESHAPE, "%s: x " QG_SHAPE_FMT " and w " QG_SHAPE_FMT " are too large to evaluate", p->layer.name,
                         QG_SHAPE_ARGS(x->shape), QG_SHAPE_ARGS(w->shape));
    const int results = (int)qg__results(&e.p.g);
    job       j       = { .e = &e, .isa = qg__infer_isa(), .y = y, .images = (PIECE_RESULTS + results - 1) / results };
    j.packed          = qg_scratch(t, qg__product_weight_bytes(j.isa, &e.p));
    if (!j.packed || !take_scratch(t, &j)) return NULL;
    qg__evaluation_pack(j.isa, &e, j.packed);
    y->flops = 2.0 * (double)qg_count(shape) * (double)qg_row(w->shape);
    qg_parallel((shape.n + j.images - 1) / j.images, piece, &j);
    return y;
}
