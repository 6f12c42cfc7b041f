/* Declares a net from the list of parts of its text. */
#include "layers/models/text.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers/layer.h"
#include "layers/models/parts.h"
#include "layers/models/text_parse.h"
#include "layers/plan.h"
#include "quant/engine.h"

/* A net that is being declared. */
typedef struct author {
    const char          *text;
    const qg_model_spec *spec;
    const qg__part      *part;
    int                  count, products, shortcuts;
    bool                 input_done;        /* the next product reads an input that is already quantized */
    bool                 after_q;           /* the next product reads a Q */
    qg_net              *net;
    qg_layer            *last;
    qg_shape             shape;             /* of its result */
} author;

static bool is_product(const qg__part *p) { return p->is == QG__CONV || p->is == QG__DENSE; }

static bool rectifies(qg_quant input) { return input.scheme && input.scheme->rectifies; }

/* It takes the place of a relu, but scales the result of its product: each product that reads the place quantizes
 * for itself, and a shortcut reads floats. */
static bool stays_with_product(qg_quant input) { return rectifies(input) && input.scheme->scale_output; }

/* The three quantizers of a product. */
typedef struct quants {
    qg_quant weight, input, gradient;
} quants;

#define QUANTS(q) .weight = (q).weight, .input = (q).input, .gradient = (q).gradient

static bool has_float_ends(const qg_model_spec *s)
{
    return s->first_last == QG_FIRST_LAST_AUTO ? qg__model_keeps_ends(s->weight, s->input, s->gradient)
                                               : s->first_last == QG_FIRST_LAST_FLOAT;
}

/* Of the product called name.  first: it reads the image. */
static quants quants_named(const qg_model_spec *spec, const char *name, bool first, bool last)
{
    quants q = { 0 };
    if (!(first || last) || !has_float_ends(spec)) {
        q = (quants){ spec->weight, spec->input, spec->gradient };
        if (first) q.input = (qg_quant){ 0 };
    }
    for (int i = 0; i < spec->choices; i++) {
        const qg_choice *c = &spec->choice[i];
        if (strcmp(c->layer, name)) continue;
        if (c->has_weight) q.weight = c->weight;
        if (c->has_input) q.input = c->input;
        if (c->has_gradient) q.gradient = c->gradient;
    }
    return q;
}

/* Of the product that is part i. */
static quants quants_of(const author *a, int i)
{
    char name[32];
    int  before = 0;
    for (int k = 0; k < i; k++) before += is_product(&a->part[k]);
    const bool image = a->part[0].is == QG__IMAGE && !has_float_ends(a->spec);
    snprintf(name, sizeof name, "%s%d", a->part[i].is == QG__CONV ? "conv" : "fc", a->part[i].number);
    return quants_named(a->spec, name, before == 0 && !image, before == a->products - 1);
}

static bool part_is(const author *a, int i, qg__part_kind kind) { return i < a->count && a->part[i].is == kind; }

static bool averages(const author *a, int i)
{
    return part_is(a, i, QG__AVGPOOL) || part_is(a, i, QG__GLOBAL);
}

static bool activates(const author *a, int i)
{
    return part_is(a, i, QG__RELU) || part_is(a, i, QG__NONLINEARITY);
}

static bool pools(const author *a, int i) { return part_is(a, i, QG__MAXPOOL) || averages(a, i); }

/* The input quantizer of part i if it is a product, of the product after it if it is a dropout, else {0}. */
static qg_quant next_input(const author *a, int i)
{
    i += part_is(a, i, QG__DROPOUT);
    return i < a->count && is_product(&a->part[i]) ? quants_of(a, i).input : (qg_quant){ 0 };
}

/* --- single layers ------------------------------------------------------------------------ */

static bool has_windows(const qg__part *p) { return p->is == QG__CONV || p->is == QG__MAXPOOL || p->is == QG__AVGPOOL; }

/* 0: it is empty or beyond an int, which building the net refuses. */
static int extent_after(int n, int size, const qg__part *p)
{
    const long long room = p->same ? (long long)n - 1 : (long long)n + 2LL * p->pad - size;
    return room < 0 || room / p->stride >= INT_MAX ? 0 : (int)(room / p->stride) + 1;
}

static qg_shape shape_after(qg_shape s, const qg__part *p)
{
    const int c = p->out ? p->out : s.c;
    if (p->is == QG__DENSE || p->is == QG__GLOBAL) return (qg_shape){ 1, 1, 1, c };
    if (!has_windows(p)) return s;
    return (qg_shape){ 1, extent_after(s.h, p->size, p), extent_after(s.w, p->size_w, p), c };
}

static qg_layer *product(author *a, int i)
{
    const qg__part *p = &a->part[i];
    quants          q = quants_of(a, i);
    if (a->input_done || (a->after_q && rectifies(q.input))) q.input = (qg_quant){ 0 };
    a->input_done = false;
    if (p->is == QG__DENSE)
        return qg_net_dense(a->net, (qg_dense_spec){ .out = p->out, .no_bias = p->no_bias, QUANTS(q) });
    return qg_net_conv2d(a->net, (qg_conv2d_spec){ .out = p->out, .kernel = p->size, .kernel_w = p->size_w, .stride = p->stride,
                                                   .pad = p->pad, .same = p->same, .groups = p->groups,
                                                   .no_bias = p->no_bias, QUANTS(q) });
}

static qg_layer *batchnorm(author *a, const qg__part *p, qg_layer *after)
{
    const double *v = p->value;
    return qg_net_batchnorm_with(a->net, (qg_batchnorm_spec){ .eps = (float)v[QG__EPS], .momentum = (float)v[QG__MOMENTUM],
                                                              .no_scale = v[QG__NO_SCALE] != 0, .no_shift = v[QG__NO_SHIFT] != 0,
                                                              .whole = v[QG__WHOLE] != 0, .after = after });
}

static qg_layer *norm(author *a, int i) { return batchnorm(a, &a->part[i], NULL); }

static qg_layer *line(author *a, int i)
{
    const double *v = a->part[i].value;
    return qg_net_affine(a->net, (float)v[QG__SCALE], (float)v[QG__SHIFT]);
}

static qg_pool2d_spec window(const qg__part *p)
{
    return (qg_pool2d_spec){ .size = p->size, .stride = p->stride, .pad = p->pad };
}

static qg_prelu_spec slopes(const qg__part *p)
{
    const double start = p->value[QG__START];
    return (qg_prelu_spec){ .start  = start == QG__PRELU_START ? 0 : (float)start,
                            .shared = p->value[QG__SHARED] != 0 };
}

static qg_layer *dropout(author *a, int i)
{
    const qg_quant input = a->input_done ? (qg_quant){ 0 } : next_input(a, i);
    if (input.scheme && !(a->after_q && rectifies(input))) qg_net_quantize(a->net, input);
    a->input_done |= input.scheme != NULL;
    return qg_net_dropout(a->net, (float)a->part[i].value[0]);
}

/* The input quantizer of the first product of the block that part i opens, if that rectifies; else {0}. */
static qg_quant opens_with(const author *a, int i)
{
    while (part_is(a, i, QG__OPEN)) i++;
    const qg_quant input = next_input(a, i);
    return rectifies(input) ? input : (qg_quant){ 0 };
}

/* Signs of what a relu and pools leave are all +1, so a product that takes signs has no relu before it.
 * (The two levels of adabin are others, and trained nets have the relu.) */
static bool takes_codes_of_signs(qg_quant input) { return qg__takes_signs(input) && input.scheme->scales != 2; }

static qg_layer *relu(author *a, int i)
{
    int to = i + 1;
    while (pools(a, to)) to++;
    const bool     opens = part_is(a, to, QG__OPEN), next = to == i + 1;
    const qg_quant input = opens ? opens_with(a, to) : next ? (qg_quant){ 0 } : next_input(a, to);
    if (!(next ? rectifies(input) : takes_codes_of_signs(input))) return qg_net_relu(a->net);
    if (!next || stays_with_product(input)) return a->last;
    a->input_done = true;
    return qg_net_quantize(a->net, input);
}

/* Q: the input quantizer of the product that follows, perhaps in a block, if it replaces a relu.  A
 * mean of codes is no code, so after a GAP the product quantizes its input again. */
static qg_layer *nonlinearity(author *a, int i)
{
    bool means = false;
    for (i++; part_is(a, i, QG__OPEN) || activates(a, i) || pools(a, i); i++) means |= averages(a, i);
    const qg_quant input = next_input(a, i);
    const bool     stays = stays_with_product(input);
    a->after_q = rectifies(input) && !means && !stays;
    if (stays) return a->last;
    return rectifies(input) ? qg_net_quantize(a->net, input) : qg_net_relu(a->net);
}

/* What part i needs of its input, and the text alone does not say.  Who chose a model by name has not seen the text: there the
 * layer tells. */
static qg_status check_input(const author *a, int i)
{
    char            why[160];
    const qg__part *p = &a->part[i];
    const qg_shape  s = a->shape;
    if (a->text != a->spec->text) return QG_OK;
    if (p->is == QG__CONV && p->groups != QG_DEPTHWISE && s.c % p->groups) {
        snprintf(why, sizeof why, "%d groups do not divide the %d channels of its input", p->groups, s.c);
        return qg__net_text_refuse(a->text, p->at, why);
    }
    if (!has_windows(p) || p->same || s.h < 1 || s.w < 1) return QG_OK;
    if (s.h + 2LL * p->pad >= p->size && s.w + 2LL * p->pad >= p->size_w) return QG_OK;
    snprintf(why, sizeof why, "a window of %dx%d is larger than its input " QG_SHAPE_FMT " padded by %d", p->size, p->size_w,
             QG_SHAPE_ARGS(s), p->pad);
    return qg__net_text_refuse(a->text, p->at, why);
}

/* How each part becomes a layer. */
static const struct {
    qg_layer *(*of_part)(author *a, int i);
    qg_layer *(*plain)(qg_net *net);
    qg_layer *(*pool)(qg_net *net, qg_pool2d_spec spec);
    qg_layer *(*sloped)(qg_net *net, qg_prelu_spec spec);
} kinds[] = {
    [QG__CONV]         = { .of_part = product },
    [QG__DENSE]        = { .of_part = product },
    [QG__BATCHNORM]    = { .of_part = norm },
    [QG__RELU]         = { .of_part = relu },
    [QG__DROPOUT]      = { .of_part = dropout },
    [QG__AFFINE]       = { .of_part = line },
    [QG__NONLINEARITY] = { .of_part = nonlinearity },
    [QG__SIGMOID]      = { .plain = qg_net_sigmoid },
    [QG__TANH]         = { .plain = qg_net_tanh },
    [QG__HARDTANH]     = { .plain = qg_net_hardtanh },
    [QG__GLOBAL]       = { .plain = qg_net_global_avgpool },
    [QG__MAXPOOL]      = { .pool = qg_net_maxpool_with },
    [QG__AVGPOOL]      = { .pool = qg_net_avgpool_with },
    [QG__PRELU]        = { .sloped = qg_net_prelu },
    [QG__RPRELU]       = { .sloped = qg_net_rprelu },
};

/* Declares part i, which is not a brace; IQ is no layer. */
static qg_status layer(author *a, int i)
{
    const qg__part *p = &a->part[i];
    if (p->is == QG__IMAGE) return QG_OK;
    if (check_input(a, i)) return QG_EARG;
    if (kinds[p->is].of_part) a->last = kinds[p->is].of_part(a, i);
    else if (kinds[p->is].plain) a->last = kinds[p->is].plain(a->net);
    else if (kinds[p->is].pool) a->last = kinds[p->is].pool(a->net, window(p));
    else a->last = kinds[p->is].sloped(a->net, slopes(p));
    a->after_q &= p->is == QG__NONLINEARITY || p->is == QG__MAXPOOL;
    a->shape    = shape_after(a->shape, p);
    return QG_OK;
}

/* Declares [BN] [R] [MP] right before a product as its input quantizer wants them; *taken is how many there were. */
static qg_status between(author *a, int i, int *taken)
{
    const int norm = part_is(a, i, QG__BATCHNORM) ? i : -1;
    const int acts = i + (norm >= 0), act = part_is(a, acts, QG__RELU) ? acts : -1;
    const int pool = acts + (act >= 0), n = pool + part_is(a, pool, QG__MAXPOOL) - i;
    const qg_quant input = next_input(a, i + n);
    const bool     first = n > 0 && pool < i + n && input.scheme && input.bits == 1 && !a->part[pool].keeps;
    qg_status      s     = QG_OK;
    *taken = input.scheme ? n : 0;
    if (*taken == 0) return QG_OK;
    if (first) s = layer(a, pool);
    if (!s && norm >= 0) s = layer(a, norm);
    if (!s && act >= 0 && !rectifies(input)) s = layer(a, act);
    if (!s && !first && pool < i + n) s = layer(a, pool);
    return s;
}

/* --- blocks ------------------------------------------------------------------------------- */

typedef struct entry {
    qg_layer *layer;                        /* what the block reads */
    qg_shape  shape;
    bool      quantized;                    /* by an R that became a quantizer */
    bool      after_q;
    qg_layer *shortcut;                     /* NULL: not declared yet */
} entry;

/* The smallest s for which every s-th pixel gives the size of to; 0: there is none. */
static int stride_of(qg_shape from, qg_shape to)
{
    if (from.h < 1 || from.w < 1 || to.h < 1 || to.w < 1) return 0;
    const int h = (from.h - 1) / to.h + 1, w = (from.w - 1) / to.w + 1, s = h > w ? h : w;      /* larger s, fewer pixels */
    return (from.h - 1) / s + 1 == to.h && (from.w - 1) / s + 1 == to.w ? s : 0;
}

/* The means of stride x stride pixels of x.  A mean of codes is not a code. */
static entry pooled(author *a, const entry *x, int stride)
{
    if (stride == 1) return *x;
    return (entry){ .layer = qg_net_avgpool_with(a->net, (qg_pool2d_spec){ .size = stride, .after = x->layer }) };
}

static qg_layer *project(author *a, const entry *x, const qg__part *before, int channels,
                         int stride)
{
    char name[32];
    snprintf(name, sizeof name, "shortcut%d", a->shortcuts);
    quants q = quants_named(a->spec, name, false, false);
    if (x->quantized || (x->after_q && rectifies(q.input))) q.input = (qg_quant){ 0 };
    qg_layer *y = qg_net_conv2d(a->net, (qg_conv2d_spec){ .out = channels, .kernel = 1, .stride = stride,
                                                          .no_bias = true, .after = x->layer,
                                                          .name = name, QUANTS(q) });
    return before->is == QG__BATCHNORM ? batchnorm(a, before, y) : y;
}

static qg_status shape_differs(const author *a, int close, const entry *x, qg_shape to,
                               const char *advice)
{
    char why[200];
    snprintf(why, sizeof why, "the block turns " QG_SHAPE_FMT " into " QG_SHAPE_FMT "; %s", QG_SHAPE_ARGS(x->shape),
             QG_SHAPE_ARGS(to), advice);
    return qg__net_text_refuse(a->text, a->part[close].at, why);
}

/* The shortcut of a block that changes the shape. */
static qg_status reshape(author *a, int close, entry *x, qg_shape to)
{
    const int  kind    = a->part[close].shortcut, stride = stride_of(x->shape, to);
    const bool learned = kind == QG_SHORTCUT_B || kind == QG_SHORTCUT_POOL_B;
    const bool means   = kind == QG_SHORTCUT_POOL || kind == QG_SHORTCUT_POOL_B;
    if (kind < 0)
        return shape_differs(a, close, x, to, "name its shortcut: :A, :pool, :B or :poolB");
    if (stride == 0) return shape_differs(a, close, x, to, "no shortcut has a stride for that");
    if (!learned && to.c < x->shape.c)
        return shape_differs(a, close, x, to, "only shortcuts :B and :poolB reduce the channels");
    if (means && (x->shape.h / stride != to.h || x->shape.w / stride != to.w)) {
        char advice[80];
        snprintf(advice, sizeof advice, "means of %dx%d pixels do not give that size; use :A or :B", stride, stride);
        return shape_differs(a, close, x, to, advice);
    }
    const entry from = means ? pooled(a, x, stride) : *x;
    const int   left = means ? 1 : stride;
    a->shortcuts++;
    x->shortcut = learned ? project(a, &from, &a->part[close - 1], to.c, left)
                          : qg_net_shortcut(a->net, from.layer, left, to.c);
    return QG_OK;
}

/* x: what the block reads.  A shortcut that stands before the block is declared before it, too. */
static qg_status begin_block(author *a, int open, entry *x)
{
    const qg__part *brace = &a->part[open];
    qg_shape        to    = a->shape;
    if (qg_net_layers(a->net) == 0)
        return qg__net_text_refuse(a->text, brace->at,
                                   "a block cannot begin the net: its shortcut would be the image");
    *x = (entry){ .layer     = a->last,
                  .shape     = a->shape,
                  .quantized = a->input_done,
                  .after_q   = a->after_q };
    for (int i = open + 1; i < brace->partner; i++) to = shape_after(to, &a->part[i]);
    if (!brace->first || qg_shape_equal(x->shape, to) || to.h < 1 || to.w < 1) return QG_OK;
    const qg_status s = reshape(a, brace->partner, x, to);
    a->net->last      = x->layer;
    return s;
}

static qg_status end_block(author *a, int close, entry *x)
{
    const bool same = qg_shape_equal(x->shape, a->shape);
    qg_layer  *body = a->last;
    if (!same && !x->shortcut && reshape(a, close, x, a->shape)) return QG_EARG;
    a->last    = qg_net_add(a->net, body, same ? x->layer : x->shortcut);
    a->after_q = false;                         /* a sum is no code */
    return QG_OK;
}

/* --- the net ------------------------------------------------------------------------------ */

static qg_status declare(author *a)
{
    enum { NESTED = 16 };                   /* as the parser allows */
    entry     x[NESTED];
    int       depth = 0;
    qg_status s     = QG_OK;
    for (int i = 0; i < a->count && !s && !a->net->status;) {
        int taken;
        s = between(a, i, &taken);
        i += taken;
        if (s || taken) continue;
        if (a->part[i].is == QG__OPEN) {
            s = begin_block(a, i, &x[depth++]);
        } else if (a->part[i].is == QG__CLOSE) {
            s = end_block(a, i, &x[--depth]);
        } else {
            s = layer(a, i);
        }
        i++;
    }
    return s;
}

/* The units of the last product are the classes of the data. */
static qg_status check_classes(const author *a)
{
    char why[160];
    int  last = a->count - 1;
    while (!is_product(&a->part[last])) last--;
    if (a->spec->classes == 0 || a->shape.c == a->spec->classes) return QG_OK;
    snprintf(why, sizeof why, "the net ends with %d output%s, but the data has %d class%s", a->shape.c, a->shape.c == 1 ? "" : "s",
             a->spec->classes, a->spec->classes == 1 ? "" : "es");
    return qg__net_text_refuse(a->text, a->part[last].at, why);
}

qg_net *qg__net_from_text(const char *text, const qg_model_spec *spec)
{
    qg__part *part = NULL;
    author    a    = { .text  = text,
                       .spec  = spec,
                       .shape = { 1, spec->height, spec->width, spec->channels } };
    if (qg__net_text_parse(text, &part, &a.count)) return NULL;
    a.part = part;
    for (int i = 0; i < a.count; i++) a.products += is_product(&part[i]);
    a.net = qg_net_new((qg_net_spec){ .height                 = spec->height,
                                      .width                  = spec->width,
                                      .channels               = spec->channels,
                                      .seed                   = spec->seed,
                                      .initial_weights        = spec->initial_weights,
                                      .fold_batchnorm         = spec->fold_batchnorm,
                                      .batchnorm_per_rank     = spec->batchnorm_per_rank,
                                      .freeze_batchnorm_after = spec->freeze_batchnorm_after,
                                      .quantize_weights_after = spec->quantize_weights_after,
                                      .quantize_inputs_after  = spec->quantize_inputs_after });
    qg_status s = a.net ? declare(&a) : QG_EMEM;
    if (!s && !a.net->status) s = check_classes(&a);         /* the net reports its own failure when it is built */
    free(part);
    if (!s) return a.net;
    qg_net_free(a.net);
    return NULL;
}

qg_status qg__net_text_check(const char *text)
{
    qg__part *part = NULL;
    int       count;
    const qg_status s = qg__net_text_parse(text, &part, &count);
    free(part);
    return s;
}

const qg_model qg_model_text = { .name = "net", .about = "a net as text (docs/models-and-data.md)" };

qg_net *qg_net_from_text(const char *text, qg_model_spec spec)
{
    spec.text = text;
    return qg_model_declare(&qg_model_text, spec);
}
