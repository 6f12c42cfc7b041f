#include "layers/export/graph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/io/number.h"
#include "layers/evaluate.h"

/* What a quantizer does with what it reads. */
typedef enum use { PASSES, RECTIFIES, CLIPS, ENCODES } use;

enum { FORMS = QG__AS_BYTES + 1 };

/* The quantizer of what a layer reads. */
typedef struct quantizer {
    const qg_slot *slot;
    use            as;
    qg__codes      codes;        /* of ENCODES */
    float          scale;
} quantizer;

/* What is known of a layer.  The forms in which its result may be needed, and the values of the
 * file that have them, are numbered by qg__coding. */
typedef struct node {
    bool             needed[FORMS];
    int              value[FORMS]; /* QG_NO_VALUE: none yet */
    bool             covered;      /* the step of the layer before it computes it, too */
    quantizer        own;          /* of its input: of a product or a quantize layer */
    const quantizer *applied;      /* a step at or before it has applied this one already */
    qg__coding       form;         /* of its codes */
    /* Of a product. */
    bool             relu;
    qg__evaluation   e;
} node;

struct qg_graph {
    const qg_net *net;
    uint64_t      step;
    bool          sizes_only;
    node         *node; /* by index of the layer */
    qg__records  *out;
    qg_status     status;
};

static void *take(qg_graph *g, size_t bytes)
{
    void *memory = qg__arena_take(&g->out->arena, bytes);
    if (!memory) g->status = qg_fail(QG_EMEM, "out of memory: a net to export");
    return memory;
}

static node *node_of(const qg_graph *g, const qg_layer *l)
{
    return &g->node[l->index];
}

/* Reads the image if l is NULL. */
static int value_of(const qg_graph *g, const qg_layer *l, qg__coding form)
{
    return l ? node_of(g, l)->value[form] : 0;
}

static void need(qg_graph *g, const qg_layer *l, qg__coding form)
{
    if (l) node_of(g, l)->needed[form] = true;
}

/* --- quantizers ----------------------------------------------------------------------------- */

/* Whether its range is, since the images that set it had only zeros there. */
static bool is_empty(const qg_slot *slot)
{
    float    x[] = { 1 }, scale = 1, negative;
    int32_t  code;
    qg_codes out = { .code = &code, .scale = &scale, .negative = &negative };
    return !qg_slot_encode(slot, (qg_tensor){ { 1, 1, 1, 1 }, x }, &out) && scale == 0;
}

static qg_status refuse_quantizer(const qg_layer *l, const qg_slot *slot)
{
    char              name[QG_SPELLING_BYTES];
    const qg_code_set set = qg__code_set_of(slot->q);
    const char       *what = "the scale of its input";
    const char       *why  = " depends on the images of a batch, which an exported net cannot express; use "
                             "fake_quant:range=observed, whose scale does not";
    qg_scheme_spelling(slot->q.scheme, QG_INPUT, name, sizeof name);
    if (slot->q.per_channel)
        what = "its input has a scale per channel", why = ", which an exported net cannot express";
    else if (set.count > QG__MOST_CODES)
        return qg_fail(QG_EARG, "%s: its input has %d codes (%s), but an exported net at most %d, those of 8 bits", l->name,
                       set.count, name, QG__MOST_CODES);
    else if (!qg_has_codes(slot->q))
        what = "the quantizer of its input", why = " has no codes, which an exported net needs";
    else if (is_empty(slot))
        what = "the range of its input", why = " is empty: the images that set it had only zeros there";
    return qg_fail(QG_EARG, "%s: %s (%s)%s", l->name, what, name, why);
}

/* l: the layer that reads it. */
static qg_status find_use(const qg_graph *g, const qg_layer *l, quantizer *q)
{
    const qg_slot *slot = q->slot;
    if (!slot->q.scheme) return QG_OK;
    if (!g->sizes_only && qg__quant_is_delayed(slot->q, g->step)) {
        q->as = slot->q.scheme->rectifies ? RECTIFIES : PASSES;
        return QG_OK;
    }
    q->as = slot->q.bits == QG_FLOAT_BITS ? CLIPS : ENCODES;
    /* Forms without rounding clip; what a scheme of its own computes is not known. */
    if (q->as == CLIPS) return slot->q.scheme->form ? QG_OK : refuse_quantizer(l, slot);
    const qg_status s = qg__slot_codes(slot, g->sizes_only ? UINT64_MAX : g->step, &q->codes, &q->scale);
    if (!q->codes.count && qg__is_two_sided(slot->q)) {
        /* Its levels are not those of codes, so q_scale is 0. */
        const qg_code_set set = qg__code_set_of(slot->q);
        q->codes = (qg__codes){ set.lowest, set.step, set.count };
        q->scale = 0;
    }
    if (!q->codes.count) return refuse_quantizer(l, slot);
    return s && !g->sizes_only ? qg_fail(s, "%s: its input: %s", l->name, qg_errmsg()) : QG_OK;
}

static quantizer *take_quantizer(qg_graph *g, const qg_layer *l, const qg_slot *slot)
{
    quantizer *q = &node_of(g, l)->own;
    *q = (quantizer){ .slot = slot, .scale = 1.0f };
    g->status = find_use(g, l, q);
    return q;
}

/* The layer that declares the quantizer, whichever has the record. */
static const char *owner_of(const qg_graph *g, const qg_slot *slot)
{
    int i = 0;
    while (i + 1 < g->net->layers && qg_layer_slot(g->net->layer[i], QG_INPUT) != slot) i++;
    return g->net->layer[i]->name;
}

/* Thresholds, and for floats the values of the codes, to floats. */
static void put_thresholds(qg_graph *g, const quantizer *q, qg__coding coding, float *floats)
{
    float *level = coding == QG__AS_FLOATS ? floats + q->codes.count - 1 : NULL;
    if (g->sizes_only || g->status) return;
    const qg_status s = qg__slot_thresholds(q->slot, q->codes, floats, level);
    if (s) g->status = qg_fail(s, "%s: %s", owner_of(g, q->slot), qg_errmsg());
}

/* --- records -------------------------------------------------------------------------------- */

static void set_codes(qg__packed_step *r, qg__codes codes, float scale)
{
    r->q_lowest = codes.lowest, r->q_step = codes.step, r->q_count = codes.count,
    r->q_scale = scale;
}

static bool grow(qg_graph *g)
{
    qg__records *s = g->out;
    if (s->count < s->capacity) return true;
    const int   capacity = s->capacity ? 2 * s->capacity : 64;
    qg__record *record = take(g, (size_t)capacity * sizeof *record);
    if (!record) return false;
    if (s->count) memcpy(record, s->record, (size_t)s->count * sizeof *record);
    s->record = record;
    s->capacity = capacity;
    return true;
}

/* "conv2", or "conv2.input". */
static const char *name_of(qg_graph *g, const qg_layer *l, const char *part)
{
    if (!part) return l->name;
    const size_t n = strlen(l->name) + strlen(part) + 2;
    char        *name = take(g, n);
    if (name) snprintf(name, n, "%s.%s", l->name, part);
    return name;
}

/* Appends a record; floats receives the list of its numbers, to be filled.  Returns its value. */
static int append(qg_graph *g, const qg_layer *l, const char *part, qg__packed_step r,
                  float **floats)
{
    const size_t n = qg__step_floats(&r);
    float       *list = n ? take(g, n * sizeof *list) : NULL;
    const char  *name = name_of(g, l, part);
    if (floats) *floats = NULL;
    if (g->status || !grow(g)) return QG_NO_VALUE;
    if (floats) *floats = list;
    g->out->record[g->out->count] = (qg__record){ .r = r, .name = name, .floats = list };
    return ++g->out->count;
}

static qg__packed_step with_geometry(qg__kind kind, int x, qg__geometry g)
{
    return (qg__packed_step){ .kind = (int32_t)kind, .x = x, .z = QG_NO_VALUE,
                              .h = g.h, .w = g.w, .c = g.c, .oh = g.oh, .ow = g.ow, .oc = g.oc,
                              .kh = g.kh, .kw = g.kw, .stride = g.stride, .top = g.top, .left = g.left };
}

/* Reads the value x of this shape and has as many numbers. */
static qg__packed_step same_shape(qg__kind kind, int x, qg_shape s)
{
    return with_geometry(kind, x, (qg__geometry){ .h = s.h, .w = s.w, .c = s.c, .oh = s.h, .ow = s.w, .oc = s.c });
}

static qg_shape shape_of(const qg_graph *g, int x)
{
    if (x == 0)
        return (qg_shape){ 1, g->net->spec.height, g->net->spec.width, g->net->spec.channels };
    const qg__packed_step *r = &g->out->record[x - 1].r;
    return (qg_shape){ 1, r->oh, r->ow, r->oc };
}

static void set_windows(qg__packed_step *r, qg_node n)
{
    r->oh = (r->h + 2 * n.pad - n.kernel_h) / n.stride + 1;
    r->ow = (r->w + 2 * n.pad - n.kernel_w) / n.stride + 1;
    r->kh = n.kernel_h, r->kw = n.kernel_w, r->stride = n.stride, r->top = r->left = n.pad;
    r->flag = n.kind == QG_NODE_AVGPOOL && n.exclude_pad;
}

/* The maximum of codes is a code. */
static void keep_codes(const qg_graph *g, qg__packed_step *r)
{
    const qg__packed_step *from = r->x ? &g->out->record[r->x - 1].r : r;
    if (from->coding == QG__AS_FLOATS) return;
    r->coding = from->coding;
    set_codes(r, (qg__codes){ from->q_lowest, from->q_step, from->q_count }, from->q_scale);
}

/* What is wrong with a node; NULL: nothing. */
static const char *fault_of(const qg_graph *g, qg_node n, bool pair)
{
    const int most = g->out->count;
    if ((unsigned)n.kind >= QG_NODE_KINDS) return "has no known kind";
    if (n.x < 0 || n.x > most || (pair && (n.z < 0 || n.z > most)))
        return "reads a value that no node before it has";
    const qg_shape x = shape_of(g, n.x), z = shape_of(g, pair ? n.z : n.x);
    const bool     windows = n.kind == QG_NODE_MAXPOOL || n.kind == QG_NODE_AVGPOOL;
    if (n.kind == QG_NODE_ADD && !qg_shape_equal(x, z)) return "adds values of different shapes";
    if (x.h != z.h || x.w != z.w) return "joins values of different sizes";
    if (windows && (n.stride < 1 || n.pad < 0 || n.pad >= n.kernel_h || n.pad >= n.kernel_w ||
                    x.h + 2 * n.pad < n.kernel_h || x.w + 2 * n.pad < n.kernel_w))
        return "has windows that do not fit into its input";
    return n.kind == QG_NODE_SHORTCUT && (n.stride < 1 || n.channels < x.c)
               ? "has no stride or too few channels"
               : NULL;
}

int qg_graph_add(qg_graph *g, const qg_layer *l, qg_node n, float **numbers)
{
    static const qg__kind kinds[QG_NODE_KINDS] = {
        [QG_NODE_AFFINE] = QG__AFFINE,   [QG_NODE_RELU] = QG__RELU,
        [QG_NODE_CLIP] = QG__CLIP,       [QG_NODE_SIGMOID] = QG__SIGMOID,
        [QG_NODE_TANH] = QG__TANH,       [QG_NODE_PRELU] = QG__PRELU,
        [QG_NODE_RPRELU] = QG__RPRELU,   [QG_NODE_MAXPOOL] = QG__MAXPOOL,
        [QG_NODE_AVGPOOL] = QG__AVGPOOL, [QG_NODE_ADD] = QG__ADD,
        [QG_NODE_CONCAT] = QG__CONCAT,   [QG_NODE_SHORTCUT] = QG__SHORTCUT,
    };
    const bool  pair = n.kind == QG_NODE_ADD || n.kind == QG_NODE_CONCAT;
    const char *fault = g->status ? NULL : fault_of(g, n, pair);
    if (numbers) *numbers = NULL;
    if (fault) g->status = qg_fail(QG_EARG, "%s: a node of its graph %s", l->name, fault);
    if (g->status) return QG_NO_VALUE;
    qg__packed_step r = same_shape(kinds[n.kind], n.x, shape_of(g, n.x));
    if (pair) r.z = n.z;
    if (n.kind == QG_NODE_CONCAT) r.oc += shape_of(g, n.z).c;
    if (n.kind == QG_NODE_MAXPOOL || n.kind == QG_NODE_AVGPOOL) set_windows(&r, n);
    if (n.kind == QG_NODE_MAXPOOL) keep_codes(g, &r);
    if (n.kind == QG_NODE_SHORTCUT)
        r.oh = (r.h - 1) / n.stride + 1, r.ow = (r.w - 1) / n.stride + 1, r.oc = n.channels,
        r.stride = n.stride;
    return append(g, l, n.part, r, numbers);
}

/* What the quantizer of l's input makes of the value x.  coding: of its codes; floats are their
 * values. */
static int quantized(qg_graph *g, const qg_layer *l, const char *part, int x, qg__coding coding)
{
    static const qg__kind kinds[] = { [RECTIFIES] = QG__RELU, [CLIPS] = QG__CLIP, [ENCODES] = QG__QUANTIZE };
    const quantizer      *q = &node_of(g, l)->own;
    float                *floats;
    if (q->as == PASSES) return x;
    qg__packed_step r = same_shape(kinds[q->as], x, l->in);
    r.coding = (int32_t)coding;
    if (q->as == ENCODES) set_codes(&r, q->codes, q->scale);
    const int value = append(g, l, part, r, &floats);
    if (g->status) return QG_NO_VALUE;
    if (q->as == ENCODES) put_thresholds(g, q, coding, floats);
    if (q->as == CLIPS && !g->sizes_only)
        g->status = qg__slot_values(q->slot, 2, (const float[]){ -INFINITY, INFINITY }, floats);
    return value;
}

/* --- what a product reads ------------------------------------------------------------------- */

/* Its result, without bias and norm, is multiplied by K, unless the quantizer still waits. */
static bool has_K(const qg_graph *g, const qg_product *p)
{
    return qg__evaluation_scales(p) && (g->sizes_only || !qg__quant_is_delayed(p->input_slot.q, g->step));
}

static qg_status check_finite(const qg_layer *l, const char *what, size_t n, const float *x)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return qg_fail(QG_ENAN, "%s: %s is %g", l->name, what, qg__number_shown(x[i]));
    return QG_OK;
}

static qg_status evaluate(qg_graph *g, const qg_product *p, qg__evaluation *e)
{
    const qg_layer *l = &p->layer;
    *e = (qg__evaluation){ .x_scale = 1.0f };
    if (g->sizes_only) {
        qg__evaluation_shape(p, &e->p);
        return QG_OK;
    }
    float *memory = take(g, qg__evaluation_floats(p) * sizeof *memory);
    if (!memory) return g->status;
    qg_status s = qg__evaluation_of(p, g->step, memory, e);
    if (s) return s;
    const size_t oc = (size_t)e->p.g.oc;
    s = check_finite(l, "a weight", oc * qg__evaluation_row(&e->p), e->w);
    if (!s) s = check_finite(l, "the factor of a channel", oc, e->k.a);
    if (!s && e->p.two_sided) s = check_finite(l, "the factor of a channel", oc, e->k.an);
    if (!s) s = check_finite(l, "the offset of a channel", oc, e->k.b);
    if (s) return s;
    return qg__product_fits(&e->p) ? QG_OK
                                   : qg_fail(QG_ESHAPE, "%s: is too large to evaluate", l->name);
}

/* The batch norm whose factors are those of the product before it. */
static bool is_in_product(qg_layer *l)
{
    const qg_product *p = qg__batchnorm(l) && l->after ? qg_layer_product(l->after) : NULL;
    return p && p->batchnorm && &p->batchnorm->layer == l &&
           (qg__evaluation_has_norm(p) || qg_product_is_folded(p));
}

static bool only_read_once(const qg_layer *l)
{
    return l->readers == 1 && !l->result;
}

/* The product that can apply a quantizer that reads l, because nothing else sees what is in
 * between; NULL: none. */
static qg_product *source_of(qg_layer *l)
{
    for (; l && only_read_once(l); l = l->after) {
        qg_product *p = qg_layer_product(l);
        if (p) return qg__evaluation_scales(p) ? NULL : p;
        if (!qg__has_trait(l, QG_RECTIFIES | QG_CHOOSES | QG_PASSES) && !is_in_product(l))
            return NULL;
    }
    return NULL;
}

/* Lets the product before l apply it.  false: it must be a step of its own. */
static bool apply_in_product(qg_graph *g, qg_layer *l, const quantizer *q, qg__coding form)
{
    qg_product *p = source_of(l);
    bool        relu = false;
    if (!p) return false;
    for (qg_layer *at = l; at; at = at->after) {
        node *n = node_of(g, at);
        n->applied = q;
        n->form = form;
        relu = relu || qg__has_trait(at, QG_RECTIFIES);
        n->covered = !qg__has_trait(at, QG_CHOOSES) && at != &p->layer;
        if (at == &p->layer) break;
    }
    node_of(g, &p->layer)->relu = relu;
    need(g, l, form);
    return true;
}

/* A quantizer of what l computes, whose codes or values are needed. */
static void need_quantized(qg_graph *g, qg_layer *l, const quantizer *q, qg__coding form)
{
    if (q->as != ENCODES || !apply_in_product(g, l, q, form)) need(g, l, QG__AS_FLOATS);
}

static void need_of_product(qg_graph *g, qg_product *p)
{
    qg_layer       *l = &p->layer;
    qg__evaluation *e = &node_of(g, l)->e;
    g->status = evaluate(g, p, e);
    if (g->status) return;
    const qg__coding form = qg__product_coding(&e->p);
    if (!p->input_slot.q.scheme) {
        need(g, l->after, form);
        return;
    }
    const quantizer *q = take_quantizer(g, l, &p->input_slot);
    if (has_K(g, p)) need(g, l->after, QG__AS_FLOATS);
    else if (!g->status) need_quantized(g, l->after, q, form);
}

static void need_of_quantize(qg_graph *g, qg_layer *l, const qg_slot *slot)
{
    const node *n = node_of(g, l);
    int         forms = 0;
    qg__coding  form = QG__AS_FLOATS;
    for (int f = 0; f < FORMS; f++)
        if (n->needed[f]) forms++, form = (qg__coding)f;
    const quantizer *q = take_quantizer(g, l, slot);
    if (forms > 1) need(g, l->after, QG__AS_FLOATS);
    else if (!g->status) need_quantized(g, l->after, q, form);
}

/* relu after a product is part of its step. */
static void take_relu(qg_graph *g, qg_layer *l)
{
    qg_layer *at = l->after;
    while (at && only_read_once(at) && (is_in_product(at) || qg__has_trait(at, QG_PASSES)))
        at = at->after;
    const qg_product *p = at && only_read_once(at) ? qg_layer_product(at) : NULL;
    if (!p || qg__evaluation_scales(p)) return;
    node_of(g, at)->relu = true;
    node_of(g, l)->covered = true;
}

/* From the last layer to the first: what each must give its readers, and what becomes one step. */
static void find_needs(qg_graph *g, qg_layer *l)
{
    node          *n = node_of(g, l);
    const qg_slot *slot = qg__quantize_slot(l);
    qg_product    *p = qg_layer_product(l);
    if (!n->needed[QG__AS_FLOATS] && !n->needed[QG__AS_BITS] && !n->needed[QG__AS_BYTES]) return;
    if (p) {
        need_of_product(g, p);
        return;
    }
    if (slot) {
        need_of_quantize(g, l, slot);
        return;
    }
    if (is_in_product(l) || qg__has_trait(l, QG_PASSES)) n->covered = true;
    if (qg__has_trait(l, QG_RECTIFIES) && !n->applied) take_relu(g, l);
    for (int f = 0; f < FORMS; f++)
        if (n->needed[f]) need(g, l->after, (qg__coding)f);
    if (l->with) need(g, l->with, QG__AS_FLOATS);
}

/* --- emitting ------------------------------------------------------------------------------- */

/* The last layer that the step of this product computes. */
static const qg_layer *last_of(const qg_graph *g, const qg_layer *product)
{
    const qg_layer *last = product;
    for (int i = product->index + 1; i < g->net->layers; i++) {
        const qg_layer *l = g->net->layer[i];
        if (l->after == last && g->node[i].covered) last = l;
    }
    return last;
}

static qg__packed_step record_of(const qg__evaluation *e, int x)
{
    const qg__codes w = e->p.w;
    qg__packed_step r = with_geometry(QG__PRODUCT, x, e->p.g);
    r.groups = e->p.groups;
    r.w_lowest = w.lowest, r.w_step = w.step, r.w_count = w.count;
    r.w_bits = w.count ? qg__code_bits(w.count) : QG__FLOAT_BITS;
    r.two_sided = e->p.two_sided;
    r.pad = e->p.pad;
    r.w_zeros = e->p.zeros;
    return r;
}

static int product_step(qg_graph *g, const qg_product *p, const char *part, int x)
{
    const node           *n = node_of(g, &p->layer);
    const qg__evaluation *e = &n->e;
    const size_t          oc = (size_t)e->p.g.oc;
    qg__packed_step       r = record_of(e, x);
    const qg_layer       *last = part ? &p->layer : last_of(g, &p->layer);
    float                *floats;
    r.relu = n->relu;
    if (n->applied) {
        set_codes(&r, n->applied->codes, n->applied->scale);
        r.coding = (int32_t)n->form;
    }
    const int value = append(g, last, part, r, &floats);
    if (g->status || g->sizes_only) return value;
    g->out->record[g->out->count - 1].w = e->w;
    memcpy(floats, e->k.a, oc * sizeof *floats);
    floats += oc;
    if (r.two_sided) {
        memcpy(floats, e->k.an, oc * sizeof *floats);
        floats += oc;
    }
    memcpy(floats, e->k.b, oc * sizeof *floats);
    if (n->applied) put_thresholds(g, n->applied, n->form, floats + oc);
    return value;
}

/* Multiplies the value z of a product by the mean |x| of its windows. */
static int times_K(qg_graph *g, const qg_product *p, int x, int z)
{
    const qg_layer *l = &p->layer;
    qg__packed_step mean = with_geometry(QG__MEAN_ABS, x, node_of(g, l)->e.p.g);
    qg__packed_step m = same_shape(QG__MULTIPLY, z, l->out);
    mean.oc = 1;
    m.z = append(g, l, "mean", mean, NULL);
    return append(g, l, p->bias ? "scaled" : NULL, m, NULL);
}

static int plus_bias(qg_graph *g, const qg_product *p, int x)
{
    const qg_layer *l = &p->layer;
    float          *floats;
    const int       value = append(g, l, NULL, same_shape(QG__AFFINE, x, l->out), &floats);
    for (int k = 0; k < l->out.c && !g->status; k++) {
        floats[k] = 1.0f;
        floats[l->out.c + k] = p->bias->value[k];
    }
    if (!g->sizes_only && !g->status)
        g->status = check_finite(l, "a bias", (size_t)l->out.c, p->bias->value);
    return value;
}

static int product(qg_graph *g, qg_product *p)
{
    const qg_layer  *l = &p->layer;
    const node      *n = node_of(g, l), *before = l->after ? node_of(g, l->after) : NULL;
    const qg__coding form = qg__product_coding(&n->e.p);
    const bool       done = before && before->applied == &n->own; /* by a product before it */
    const bool       quantizes = p->input_slot.q.scheme && !done;
    const int        floats = value_of(g, l->after, QG__AS_FLOATS);
    const int        x = quantizes ? quantized(g, l, "input", floats, form) : value_of(g, l->after, form);
    if (!qg__evaluation_scales(p)) return product_step(g, p, NULL, x);
    int y = product_step(g, p, has_K(g, p) || p->bias ? "product" : NULL, x);
    if (has_K(g, p)) y = times_K(g, p, floats, y);
    return p->bias ? plus_bias(g, p, y) : y;
}

/* The value that l itself computes. */
static int packed(qg_graph *g, const qg_layer *l, int x)
{
    const int z = l->with ? value_of(g, l->with, QG__AS_FLOATS) : QG_NO_VALUE;
    const int y = l->type->pack ? l->type->pack(l, g, x, z) : QG_NO_VALUE;
    if (!l->type->pack)
        g->status = qg_fail(QG_EARG, "%s: an exported net cannot express layers of the type '%s'",
                            l->name, l->type->name);
    if (g->status) return QG_NO_VALUE;
    if (y < 0 || y > g->out->count)
        g->status = qg_fail(QG_EARG, "%s: its graph gives a value that no node has", l->name);
    else if (!qg_shape_equal(shape_of(g, y), l->out))
        g->status =
            qg_fail(QG_EARG, "%s: its graph gives " QG_SHAPE_FMT ", the layer " QG_SHAPE_FMT,
                    l->name, QG_SHAPE_ARGS(shape_of(g, y)), QG_SHAPE_ARGS(l->out));
    return y;
}

/* The value of l in a form, by nodes of its own unless another layer's compute it. */
static int emit(qg_graph *g, qg_layer *l, qg__coding form)
{
    const node    *n = node_of(g, l);
    const qg_slot *slot = qg__quantize_slot(l);
    qg_product    *p = qg_layer_product(l);
    if (p) return product(g, p);
    const int x = value_of(g, l->after, slot ? QG__AS_FLOATS : form);
    if (n->covered) return x;
    if (slot && l->after && node_of(g, l->after)->applied == &n->own) return value_of(g, l->after, form);
    if (slot) return quantized(g, l, NULL, x, form);
    return packed(g, l, x);
}

/* What an engine would refuse: thresholds may be infinite, all other numbers are finite, and a
 * range is not empty. */
static qg_status check_numbers(const qg__record *s)
{
    const qg__packed_step *r = &s->r;
    const size_t all = qg__step_floats(r), own = qg__step_own_floats(r);
    const size_t thresholds = all > own ? (size_t)r->q_count - 1 : 0;
    for (size_t i = 0; i < all; i++) {
        const bool threshold = i >= own && i < own + thresholds;
        if (threshold ? isnan(s->floats[i]) : !isfinite(s->floats[i]))
            return qg_fail(QG_ENAN, "%s: one of its numbers is %g", s->name, qg__number_shown(s->floats[i]));
    }
    if (r->kind == QG__CLIP && !(s->floats[0] < s->floats[1]))
        return qg_fail(QG_EARG, "%s: clips to the empty range %g .. %g", s->name,
                       (double)s->floats[0], (double)s->floats[1]);
    return QG_OK;
}

static qg_status build(qg_graph *g)
{
    const qg_net *net = g->net;
    g->node = take(g, (size_t)net->layers * sizeof *g->node);
    if (!g->node) return g->status;
    memset(g->node, 0, (size_t)net->layers * sizeof *g->node);
    need(g, net->layer[net->layers - 1], QG__AS_FLOATS);
    for (int i = net->layers - 1; i >= 0 && !g->status; i--) find_needs(g, net->layer[i]);
    for (int i = 0; i < net->layers; i++)
        for (int f = 0; f < FORMS && !g->status; f++)
            g->node[i].value[f] =
                g->node[i].needed[f] ? emit(g, net->layer[i], (qg__coding)f) : QG_NO_VALUE;
    for (int i = 0; i < g->out->count && !g->sizes_only && !g->status; i++)
        g->status = check_numbers(&g->out->record[i]);
    if (!g->status && !g->out->count)
        g->status = qg_fail(QG_EARG, "net: none of its layers computes anything");
    return g->status;
}

qg_status qg__records_of(const qg_net *net, uint64_t step, bool sizes_only, qg__records *records)
{
    *records = (qg__records){ 0 };
    if (!qg_net_params(net)) return net ? qg_errcode() : qg__fail_null(QG_EARG, "net");
    qg_graph g = { .net = net, .step = step, .sizes_only = sizes_only, .out = records };
    return build(&g);
}

size_t qg_layer_packed_bytes(qg_layer *l)
{
    const qg_product *p = qg_layer_product(l);
    qg__evaluation    e = { .x_scale = 1.0f };
    if (!p || !p->weight) return 0;
    qg__evaluation_shape(p, &e.p);
    const qg__packed_step r = record_of(&e, 0);
    return qg__row_bytes(&r) * (size_t)r.oc + qg__step_floats(&r) * sizeof(float);
}

void qg__records_free(qg__records *records)
{
    qg__arena_release(&records->arena);
}
