#include "layers/export/steps.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "layers/evaluate.h"

/* What a quantizer does with what it reads. */
typedef enum use { PASSES, RECTIFIES, CLIPS, ENCODES } use;

enum { FORMS = QG__AS_BYTES + 1, NONE = -1 };

/* What is known of a layer.  The forms in which its result may be needed, and the values of the file that have them,
 * are numbered by qg__coding. */
typedef struct node {
    bool           needed[FORMS];
    int            value[FORMS];        /* NONE: none yet */
    bool           covered;             /* the step of the layer before it computes it, too */
    const qg_slot *slot;                /* a step at or before it has applied this quantizer already */
    qg__coding     form;                /* of that */
    /* Of a product. */
    bool           relu;
    qg__evaluation e;
} node;

typedef struct builder {
    const qg_net     *net;
    uint64_t          step;
    bool              sizes_only;
    node             *node;             /* by index of the layer */
    qg__export_steps *out;
    qg_status         status;
} builder;

static qg_status fail_memory(builder *b)
{
    b->status = qg_fail(QG_EMEM, "out of memory: a net to export");
    return b->status;
}

static void *take(builder *b, size_t bytes)
{
    void *memory = qg_arena_take(&b->out->arena, bytes);
    if (!memory) fail_memory(b);
    return memory;
}

static node *node_of(const builder *b, const qg_layer *l) { return &b->node[l->index]; }

/* Reads the image if l is NULL. */
static int value_of(const builder *b, const qg_layer *l, qg__coding form) { return l ? node_of(b, l)->value[form] : 0; }

static void need(builder *b, const qg_layer *l, qg__coding form)
{
    if (l) node_of(b, l)->needed[form] = true;
}

/* --- quantizers ----------------------------------------------------------------------------- */

static const char *spelling(const qg_slot *slot, char text[QG_SPELLING_BYTES])
{
    return qg_scheme_spelling(slot->q.scheme, QG_INPUT, text, QG_SPELLING_BYTES);
}

static qg_status refuse_quantizer(const qg_layer *l, const qg_slot *slot)
{
    char              name[QG_SPELLING_BYTES];
    const qg_code_set set = qg_code_set_of(slot->q);
    spelling(slot, name);
    if (slot->q.per_channel)
        return qg_fail(QG_EARG, "%s: its input has a scale per channel (%s), which a packed file cannot express",
                       l->name, name);
    if (set.count > QG__MOST_CODES)
        return qg_fail(QG_EARG, "%s: its input has %d codes (%s), but a packed file at most %d", l->name, set.count,
                       name, QG__MOST_CODES);
    if (!qg_has_codes(slot->q))
        return qg_fail(QG_EARG, "%s: the quantizer of its input (%s) has no codes, which a packed file needs",
                       l->name, name);
    return qg_fail(QG_EARG,
                   "%s: the scale of its input (%s) depends on the images of a batch, which a packed file cannot express",
                   l->name, name);
}

/* Whether the slot, which has codes, can quantize now. */
static qg_status check_ready(const qg_layer *l, const qg_slot *slot)
{
    const float *learned[QG_MAX_LEARNED];
    const float  x = 0.0f;
    int32_t      code;
    float        scale, negative;
    qg_codes     codes = { .code = &code, .scale = &scale, .negative = &negative };
    for (int i = 0; i < QG_MAX_LEARNED; i++) learned[i] = slot->param[i] ? slot->param[i]->value : NULL;
    const qg_status s = qg_encode(slot->q, (qg_tensor){ { 1, 1, 1, 1 }, (float[]){ x } }, learned, &codes);
    return s ? qg_fail(s, "%s: its input: %s", l->name, qg_errmsg()) : QG_OK;
}

/* l: the layer that reads it, for messages. */
static qg_status use_of(const builder *b, const qg_layer *l, const qg_slot *slot, use *as, qg__codes *codes,
                        float *scale)
{
    *codes = (qg__codes){ 0 };
    *scale = 1.0f;
    *as    = PASSES;
    if (!slot->q.scheme) return QG_OK;
    if (!b->sizes_only && b->step < slot->q.after) {
        *as = slot->q.scheme->rectifies ? RECTIFIES : PASSES;
        return QG_OK;
    }
    *as = CLIPS;
    if (slot->q.bits == QG_FLOAT_BITS) return QG_OK;
    *as    = ENCODES;
    *codes = b->sizes_only ? qg__slot_codes_declared(slot, scale) : qg__slot_codes(slot, b->step, scale);
    if (codes->count) return QG_OK;
    if (!qg__slot_codes_declared(slot, scale).count) return refuse_quantizer(l, slot);
    const qg_status s = check_ready(l, slot);
    return s ? s : qg_fail(QG_EARG, "%s: the scale of its input is not a positive number", l->name);
}

/* Thresholds, and for floats the values of the codes, to floats. */
static void put_thresholds(builder *b, const qg_layer *l, const qg_slot *slot, const qg__packed_step *r, float *floats)
{
    const qg__codes codes = { r->q_lowest, r->q_step, r->q_count };
    float          *level = r->coding == QG__AS_FLOATS ? floats + codes.count - 1 : NULL;
    if (b->sizes_only || b->status) return;
    const qg_status s = qg__slot_thresholds(slot, codes, floats, level);
    if (s) b->status = qg_fail(s, "%s: %s", l->name, qg_errmsg());
}

static void set_codes(qg__packed_step *r, qg__codes codes, float scale)
{
    r->q_lowest = codes.lowest, r->q_step = codes.step, r->q_count = codes.count, r->q_scale = scale;
}

/* --- steps ---------------------------------------------------------------------------------- */

static bool grow(builder *b)
{
    qg__export_steps *s = b->out;
    if (s->count < s->capacity) return true;
    const int        capacity = s->capacity ? 2 * s->capacity : 64;
    qg__export_step *step     = take(b, (size_t)capacity * sizeof *step);
    if (!step) return false;
    if (s->count) memcpy(step, s->step, (size_t)s->count * sizeof *step);
    s->step     = step;
    s->capacity = capacity;
    return true;
}

/* "conv2", or "conv2.input". */
static const char *name_of(builder *b, const qg_layer *l, const char *part)
{
    char text[192];
    if (!part) return l->name;
    snprintf(text, sizeof text, "%s.%s", l->name, part);
    const char *name = qg_arena_text(&b->out->arena, text);
    if (!name) fail_memory(b);
    return name;
}

/* Appends a step; floats receives the list of its numbers, to be filled.  Returns its value. */
static int append(builder *b, const qg_layer *l, const char *part, qg__packed_step r, float **floats)
{
    const size_t n    = qg__step_floats(&r);
    float       *list = n ? take(b, n * sizeof *list) : NULL;
    const char  *name = name_of(b, l, part);
    if (floats) *floats = list;
    if (b->status || !grow(b)) return NONE;
    b->out->step[b->out->count] = (qg__export_step){ .r = r, .layer = l, .name = name, .floats = list };
    return ++b->out->count;
}

/* A step that reads the value x of this shape and has as many numbers. */
static qg__packed_step same_shape(qg__kind kind, int x, qg_shape s)
{
    return (qg__packed_step){ .kind = (int32_t)kind, .x = x, .z = NONE, .h = s.h, .w = s.w, .c = s.c,
                              .oh = s.h, .ow = s.w, .oc = s.c };
}

/* What the quantizer makes of the value x.  coding: of its codes; floats are their values. */
static int quantized(builder *b, const qg_layer *l, const char *part, const qg_slot *slot, qg_shape shape, int x,
                     qg__coding coding)
{
    qg__codes codes;
    use       as;
    float     scale, *floats;
    if (!b->status) b->status = use_of(b, l, slot, &as, &codes, &scale);
    if (b->status || as == PASSES) return x;
    qg__packed_step r = same_shape(as == RECTIFIES ? QG__RELU : as == CLIPS ? QG__CLIP : QG__QUANTIZE, x, shape);
    r.coding          = (int32_t)coding;
    if (as == ENCODES) set_codes(&r, codes, scale);
    const int value = append(b, l, part, r, &floats);
    if (b->status) return NONE;
    if (as == ENCODES) put_thresholds(b, l, slot, &r, floats);
    if (as == CLIPS && !b->sizes_only) {
        const float ends[2] = { -INFINITY, INFINITY };
        b->status           = qg__slot_values(slot, 2, ends, floats);
    }
    return value;
}

/* --- what a product reads ------------------------------------------------------------------- */

static bool scales_output(const qg_product *p)
{
    return p->input_slot.q.scheme && p->input_slot.q.scheme->scale_output;
}

/* Its result, without bias and norm, is multiplied by K, unless the quantizer still waits. */
static bool has_K(const builder *b, const qg_product *p)
{
    return scales_output(p) && (b->sizes_only || b->step >= p->input_slot.q.after);
}

static qg_status check_finite(const qg_layer *l, const char *what, size_t n, const float *x)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return qg_fail(QG_ENAN, "%s: %s is %g", l->name, what, (double)x[i]);
    return QG_OK;
}

static qg_status evaluate(builder *b, const qg_product *p, qg__evaluation *e)
{
    const qg_layer *l = &p->layer;
    *e                = (qg__evaluation){ .x_scale = 1.0f };
    if (b->sizes_only) {
        qg__evaluation_shape(p, &e->p);
        return QG_OK;
    }
    float *memory = take(b, qg__evaluation_floats(p) * sizeof *memory);
    if (!memory) return b->status;
    qg_status s = qg__evaluation_of(p, b->step, memory, e);
    if (s) return s;
    const size_t oc = (size_t)e->p.g.oc;
    s               = check_finite(l, "a weight", oc * qg__evaluation_row(&e->p), e->w);
    if (!s) s = check_finite(l, "the factor of a channel", oc, e->k.a);
    if (!s && e->p.two_sided) s = check_finite(l, "the factor of a channel", oc, e->k.an);
    if (!s) s = check_finite(l, "the offset of a channel", oc, e->k.b);
    if (s) return s;
    return qg__product_fits(&e->p) ? QG_OK : qg_fail(QG_ESHAPE, "%s: is too large to evaluate", l->name);
}

/* The batch norm whose factors are those of the product before it. */
static bool is_in_product(qg_layer *l)
{
    const qg_product *p = qg__batchnorm(l) && l->after ? qg_layer_product(l->after) : NULL;
    return p && p->batchnorm && &p->batchnorm->layer == l && (qg__evaluation_has_norm(p) || qg_product_is_folded(p));
}

static bool only_read_once(const qg_layer *l) { return l->readers == 1 && !l->result; }

/* The product that can apply a quantizer that reads l, because nothing else sees what is in between; NULL: none. */
static qg_product *source_of(qg_layer *l)
{
    for (; l && only_read_once(l); l = l->after) {
        qg_product *p = qg_layer_product(l);
        if (p) return scales_output(p) ? NULL : p;
        if (!qg__is_relu(l) && !qg__is_maxpool(l) && !qg__is_dropout(l) && !is_in_product(l)) return NULL;
    }
    return NULL;
}

/* Lets the product apply it.  false: it must be a step of its own. */
static bool lift(builder *b, qg_layer *l, const qg_slot *slot, qg__coding form)
{
    qg_product *p    = source_of(l);
    bool        relu = false;
    if (!p) return false;
    for (qg_layer *at = l; at; at = at->after) {
        node *n = node_of(b, at);
        n->slot = slot;
        n->form = form;
        relu    = relu || qg__is_relu(at);
        n->covered = !qg__is_maxpool(at) && at != &p->layer;
        if (at == &p->layer) break;
    }
    node_of(b, &p->layer)->relu = relu;
    need(b, l, form);
    return true;
}

/* A quantizer of what l computes, whose codes or values reader needs. */
static void need_quantized(builder *b, const qg_layer *reader, qg_layer *l, const qg_slot *slot, qg__coding form)
{
    use       as;
    qg__codes codes;
    float     scale;
    b->status = use_of(b, reader, slot, &as, &codes, &scale);
    if (b->status || (as == ENCODES && lift(b, l, slot, form))) return;
    need(b, l, QG__AS_FLOATS);
}

static void need_of_product(builder *b, qg_product *p)
{
    qg_layer       *l    = &p->layer;
    qg__evaluation *e    = &node_of(b, l)->e;
    const bool      own  = p->input_slot.q.scheme;
    b->status            = evaluate(b, p, e);
    if (b->status) return;
    const qg__coding form = e->p.x.count ? qg__product_coding(&e->p) : QG__AS_FLOATS;
    if (own && has_K(b, p)) need(b, l->after, QG__AS_FLOATS);
    else if (own) need_quantized(b, l, l->after, &p->input_slot, form);
    else need(b, l->after, form);
}

static void need_of_quantize(builder *b, qg_layer *l, const qg_slot *slot)
{
    const node *n     = node_of(b, l);
    int         forms = 0;
    qg__coding  form  = QG__AS_FLOATS;
    for (int f = 0; f < FORMS; f++)
        if (n->needed[f]) forms++, form = (qg__coding)f;
    if (forms == 1) need_quantized(b, l, l->after, slot, form);
    else need(b, l->after, QG__AS_FLOATS);
}

/* relu after a product is part of its step. */
static void take_relu(builder *b, qg_layer *l)
{
    qg_layer *at = l->after;
    while (at && only_read_once(at) && (is_in_product(at) || qg__is_dropout(at))) at = at->after;
    const qg_product *p = at && only_read_once(at) ? qg_layer_product(at) : NULL;
    if (!p || scales_output(p)) return;
    node_of(b, at)->relu   = true;
    node_of(b, l)->covered = true;
}

/* From the last layer to the first: what each must give its readers, and what becomes one step. */
static void find_needs(builder *b, qg_layer *l)
{
    node          *n    = node_of(b, l);
    const qg_slot *slot = qg__quantize_slot(l);
    qg_product    *p    = qg_layer_product(l);
    if (!n->needed[QG__AS_FLOATS] && !n->needed[QG__AS_BITS] && !n->needed[QG__AS_BYTES]) return;
    if (p) {
        need_of_product(b, p);
        return;
    }
    if (slot) {
        need_of_quantize(b, l, slot);
        return;
    }
    if (is_in_product(l) || qg__is_dropout(l)) n->covered = true;
    if (qg__is_relu(l) && !n->slot) take_relu(b, l);
    for (int f = 0; f < FORMS; f++)
        if (n->needed[f]) need(b, l->after, (qg__coding)f);
    if (l->with) need(b, l->with, QG__AS_FLOATS);
}

/* --- emitting ------------------------------------------------------------------------------- */

/* The last layer that the step of this product computes. */
static const qg_layer *last_of(const builder *b, const qg_layer *product)
{
    const qg_layer *last = product;
    for (int i = product->index + 1; i < b->net->layers; i++) {
        const qg_layer *l = b->net->layer[i];
        if (l->after == last && b->node[i].covered) last = l;
    }
    return last;
}

static qg__packed_step record_of(const qg__evaluation *e, int x)
{
    const qg__geometry g    = e->p.g;
    const qg__codes    w    = e->p.w;
    int                bits = 0;
    while (w.count && 1 << bits < w.count) bits++;
    return (qg__packed_step){ .kind = QG__PRODUCT, .x = x, .z = NONE, .h = g.h, .w = g.w, .c = g.c, .oh = g.oh,
                              .ow = g.ow,
                              .oc = g.oc, .kh = g.kh, .kw = g.kw, .stride = g.stride, .top = g.top, .left = g.left,
                              .groups = e->p.groups, .w_lowest = w.lowest, .w_step = w.step, .w_count = w.count,
                              .w_bits = w.count ? bits ? bits : 1 : QG__FLOAT_BITS, .two_sided = e->p.two_sided,
                              .pad = e->p.pad, .w_zeros = e->p.zeros };
}

static int product_step(builder *b, const qg_product *p, const char *part, int x)
{
    const node           *n = node_of(b, &p->layer);
    const qg__evaluation *e = &n->e;
    const size_t          oc = (size_t)e->p.g.oc;
    qg__packed_step       r  = record_of(e, x);
    const qg_layer       *last = part ? &p->layer : last_of(b, &p->layer);
    float                *floats, scale;
    use                   as;
    qg__codes             codes;
    r.relu = n->relu;
    if (n->slot) {
        b->status = use_of(b, &p->layer, n->slot, &as, &codes, &scale);
        set_codes(&r, codes, scale);
        r.coding = (int32_t)n->form;
    }
    const int value = append(b, last, part, r, &floats);
    if (b->status || b->sizes_only) return value;
    b->out->step[b->out->count - 1].w = e->w;
    memcpy(floats, e->k.a, oc * sizeof *floats);
    floats += oc;
    if (r.two_sided) {
        memcpy(floats, e->k.an, oc * sizeof *floats);
        floats += oc;
    }
    memcpy(floats, e->k.b, oc * sizeof *floats);
    if (n->slot) put_thresholds(b, &p->layer, n->slot, &r, floats + oc);
    return value;
}

/* Multiplies the value z of a product by the mean |x| of its windows. */
static int times_K(builder *b, const qg_product *p, int x, int z)
{
    const qg_layer *l = &p->layer;
    qg__packed_step k = record_of(&node_of(b, l)->e, x), m = same_shape(QG__MULTIPLY, z, l->out);
    k = (qg__packed_step){ .kind = QG__MEAN_ABS, .x = x, .z = NONE, .h = k.h, .w = k.w, .c = k.c,
                           .oh = k.oh, .ow = k.ow, .oc = 1, .kh = k.kh, .kw = k.kw, .stride = k.stride,
                           .top = k.top, .left = k.left };
    m.z = append(b, l, "mean", k, NULL);
    return append(b, l, p->bias ? "scaled" : NULL, m, NULL);
}

static int plus_bias(builder *b, const qg_product *p, int x)
{
    const qg_layer *l = &p->layer;
    float          *floats;
    const int       value = append(b, l, NULL, same_shape(QG__AFFINE, x, l->out), &floats);
    for (int k = 0; k < l->out.c && !b->status; k++) {
        floats[k]            = 1.0f;
        floats[l->out.c + k] = p->bias->value[k];
    }
    if (!b->sizes_only && !b->status) b->status = check_finite(l, "a bias", (size_t)l->out.c, p->bias->value);
    return value;
}

static int product(builder *b, qg_product *p)
{
    const qg_layer *l    = &p->layer;
    const node     *n    = node_of(b, l), *before = l->after ? node_of(b, l->after) : NULL;
    const qg__coding form = n->e.p.x.count ? qg__product_coding(&n->e.p) : QG__AS_FLOATS;
    const bool      done  = before && before->slot == &p->input_slot;     /* by a product before it */
    const int       floats = value_of(b, l->after, QG__AS_FLOATS);
    int             x = p->input_slot.q.scheme && !done ? floats : value_of(b, l->after, form);
    if (p->input_slot.q.scheme && !done) x = quantized(b, l, "input", &p->input_slot, l->in, x, form);
    if (!scales_output(p)) return product_step(b, p, NULL, x);
    int y = product_step(b, p, has_K(b, p) || p->bias ? "product" : NULL, x);
    if (has_K(b, p)) y = times_K(b, p, floats, y);
    return p->bias ? plus_bias(b, p, y) : y;
}

static int norm(builder *b, const qg_batchnorm *bn, int x)
{
    const qg_layer *l = &bn->layer;
    const size_t    c = (size_t)l->out.c;
    float          *floats;
    const int       value = append(b, l, NULL, same_shape(QG__AFFINE, x, l->out), &floats);
    if (b->status) return NONE;
    qg__norm_scales(bn, floats, floats + c);
    for (size_t k = 1; k < c && bn->spec.whole; k++) floats[k] = floats[0], floats[c + k] = floats[c];
    if (!b->sizes_only) b->status = check_finite(l, "the factor or offset of a channel", 2 * c, floats);
    return value;
}

static int pool(builder *b, const qg_layer *l, qg__pooling p, int x, qg__coding form)
{
    qg__packed_step r = same_shape(p.max ? QG__MAXPOOL : QG__AVGPOOL, x, l->in);
    r.oh = l->out.h, r.ow = l->out.w;
    r.kh = p.h, r.kw = p.w, r.stride = p.stride, r.top = r.left = p.pad;
    r.flag   = !p.max && p.exclude_pad;
    r.coding = (int32_t)form;
    if (form != QG__AS_FLOATS) {
        const qg__packed_step *from = &b->out->step[x - 1].r;
        set_codes(&r, (qg__codes){ from->q_lowest, from->q_step, from->q_count }, from->q_scale);
    }
    return append(b, l, NULL, r, NULL);
}

static int prelu(builder *b, const qg_layer *l, const qg_param *const of[3], int x)
{
    const size_t c = (size_t)l->out.c;
    float       *floats;
    const int    value = append(b, l, NULL, same_shape(of[0] ? QG__RPRELU : QG__PRELU, x, l->out), &floats);
    for (int i = 0; i < 3 && !b->status; i++)
        if (of[i])
            for (size_t k = 0; k < c; k++) *floats++ = of[i]->value[of[i]->shape.c == 1 ? 0 : k];
    return value;
}

static int with_numbers(builder *b, const qg_layer *l, qg__kind kind, int x, float first, float second)
{
    float    *floats;
    const int value = append(b, l, NULL, same_shape(kind, x, l->out), &floats);
    const size_t n  = kind == QG__CLIP ? 1 : (size_t)l->out.c;
    for (size_t k = 0; k < n && !b->status; k++) floats[k] = first, floats[n + k] = second;
    return value;
}

static int pair(builder *b, const qg_layer *l, qg__kind kind, int x)
{
    qg__packed_step r = same_shape(kind, x, l->in);
    r.z  = value_of(b, l->with, QG__AS_FLOATS);
    r.oc = l->out.c;
    return append(b, l, NULL, r, NULL);
}

static int shortcut(builder *b, const qg_layer *l, int stride, int x)
{
    qg__packed_step r = same_shape(QG__SHORTCUT, x, l->in);
    r.oh = l->out.h, r.ow = l->out.w, r.oc = l->out.c;
    r.stride = stride;
    return append(b, l, NULL, r, NULL);
}

static int refuse(builder *b, const qg_layer *l)
{
    b->status = qg_fail(QG_EARG, "%s: a packed file cannot express layers of the type '%s'", l->name, l->type->name);
    return NONE;
}

/* The value of l in a form, by a step of its own unless another has computed it. */
static int emit(builder *b, qg_layer *l, qg__coding form)
{
    const node     *n = node_of(b, l);
    qg_product     *p = qg_layer_product(l);
    const qg_slot  *slot = qg__quantize_slot(l);
    qg_batchnorm   *bn = qg__batchnorm(l);
    const qg_param *slopes[3];
    qg__pooling     pooling;
    float           first, second;
    if (p) return product(b, p);
    const int x = value_of(b, l->after, slot ? QG__AS_FLOATS : form);
    if (n->covered) return x;
    if (slot && l->after && node_of(b, l->after)->slot == slot) return value_of(b, l->after, form);
    if (slot) return quantized(b, l, NULL, slot, l->in, x, form);
    if (bn) return norm(b, bn, x);
    if (qg__pooling_of(l, &pooling)) return pool(b, l, pooling, x, form);
    if (qg__prelu_of(l, slopes)) return prelu(b, l, slopes, x);
    if (qg__affine_of(l, &first, &second)) return with_numbers(b, l, QG__AFFINE, x, first, second);
    if (qg__is_hardtanh(l)) return with_numbers(b, l, QG__CLIP, x, -1.0f, 1.0f);
    if (qg__shortcut_stride(l)) return shortcut(b, l, qg__shortcut_stride(l), x);
    if (qg__is_add(l)) return pair(b, l, QG__ADD, x);
    if (qg__is_concat(l)) return pair(b, l, QG__CONCAT, x);
    if (qg__is_relu(l)) return append(b, l, NULL, same_shape(QG__RELU, x, l->out), NULL);
    if (qg__is_sigmoid(l)) return append(b, l, NULL, same_shape(QG__SIGMOID, x, l->out), NULL);
    if (qg__is_tanh(l)) return append(b, l, NULL, same_shape(QG__TANH, x, l->out), NULL);
    return refuse(b, l);
}

/* What an engine would refuse: thresholds may be infinite, all other numbers are finite, and a range is not empty. */
static qg_status check_numbers(const qg__export_step *s)
{
    const qg__packed_step *r = &s->r;
    const bool   quantizes = r->q_count && r->kind != QG__MAXPOOL;
    const size_t all = qg__step_floats(r), thresholds = quantizes ? (size_t)r->q_count - 1 : 0;
    const size_t own = all - thresholds - (quantizes && r->coding == QG__AS_FLOATS ? (size_t)r->q_count : 0);
    for (size_t i = 0; i < all; i++) {
        const bool threshold = i >= own && i < own + thresholds;
        if (threshold ? isnan(s->floats[i]) : !isfinite(s->floats[i]))
            return qg_fail(QG_ENAN, "%s: one of its numbers is %g", s->name, (double)s->floats[i]);
    }
    if (r->kind == QG__CLIP && !(s->floats[0] < s->floats[1]))
        return qg_fail(QG_EARG, "%s: clips to the empty range %g .. %g", s->name, (double)s->floats[0],
                       (double)s->floats[1]);
    return QG_OK;
}

static qg_status build(builder *b)
{
    const qg_net *net = b->net;
    b->node           = take(b, (size_t)net->layers * sizeof *b->node);
    if (!b->node) return b->status;
    memset(b->node, 0, (size_t)net->layers * sizeof *b->node);
    need(b, net->layer[net->layers - 1], QG__AS_FLOATS);
    for (int i = net->layers - 1; i >= 0 && !b->status; i--) find_needs(b, net->layer[i]);
    for (int i = 0; i < net->layers; i++)
        for (int f = 0; f < FORMS && !b->status; f++)
            b->node[i].value[f] = b->node[i].needed[f] ? emit(b, net->layer[i], (qg__coding)f) : NONE;
    for (int i = 0; i < b->out->count && !b->sizes_only && !b->status; i++) b->status = check_numbers(&b->out->step[i]);
    if (!b->status && !b->out->count)
        b->status = qg_fail(QG_EARG, "net: none of its layers computes anything");
    return b->status;
}

qg_status qg__export_steps_of(const qg_net *net, uint64_t step, bool sizes_only, qg__export_steps *steps)
{
    *steps = (qg__export_steps){ 0 };
    if (!qg_net_params(net)) return net ? qg_errcode() : qg_fail_null(QG_EARG, "net");
    builder b = { .net = net, .step = step, .sizes_only = sizes_only, .out = steps };
    return build(&b);
}

size_t qg__export_product_bytes(const qg_product *p)
{
    qg__evaluation e = { .x_scale = 1.0f };
    qg__evaluation_shape(p, &e.p);
    const qg__packed_step r = record_of(&e, 0);
    return qg__row_bytes(&r) * (size_t)r.oc + qg__step_floats(&r) * sizeof(float);
}

void qg__export_steps_free(qg__export_steps *steps) { qg_arena_release(&steps->arena); }
