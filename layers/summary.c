/* The table of a net's layers, and its size in bytes. */
#include <inttypes.h>
#include <string.h>

#include "core/io/number.h"
#include "core/io/paths.h"
#include "layers/plan.h"

enum { FLOAT_BITS = 32 };

/* NULL: l has none. */
static const qg_param *weight_of(qg_layer *l)
{
    const qg_slot *slot = qg_layer_slot(l, QG_WEIGHT);
    return slot ? slot->of : NULL;
}

static size_t weights(qg_layer *l)
{
    const qg_param *w = weight_of(l);
    return w ? qg_count(w->shape) : 0;
}

/* --- bytes -------------------------------------------------------------------------------- */

static bool is_quantizers(qg_layer *l, const qg_param *p)
{
    for (int r = 0; r < QG_ROLES; r++) {
        const qg_slot *slot = qg_layer_slot(l, qg_roles[r]);
        for (int i = 0; slot && i < QG_MAX_LEARNED; i++)
            if (slot->param[i] == p) return true;
    }
    return false;
}

/* A batch norm is one factor and one offset per channel, which includes the bias; folded into a quantized
 * weight, it is the offset alone.  Of other layers count all parameters but those that quantizers learn. */
static size_t floats_of(qg_layer *l)
{
    const qg_net       *net = l->net;
    const qg_batchnorm *bn  = qg__batchnorm(l);
    size_t              n   = 0;
    if (bn) return (qg__net_step(net, l) ? 2 : 1) * (size_t)bn->mean->shape.c;
    for (int i = 0; i < net->params.count; i++) {
        const qg_param *p = net->params.item[i];
        if (qg__layer_owns(l, p) && !is_quantizers(l, p)) n += qg_count(p->shape);
    }
    return n;
}

size_t qg_net_float_bytes(const qg_net *net)
{
    size_t n = 0;
    if (!qg_net_params(net)) return 0;
    for (int i = 0; i < net->layers; i++) n += floats_of(net->layer[i]);
    return n * sizeof(float);
}

/* --- the table ---------------------------------------------------------------------------- */

static const char *scheme_name(qg_quant q, qg_role role, char *text, size_t bytes)
{
    const bool channels = q.scheme && q.per_channel && q.scheme->granularity == QG_EITHER_SCALE;
    char       name[QG_SPELLING_BYTES];
    snprintf(text, bytes, "%s%s", qg_scheme_spelling(q.scheme, role, name, sizeof name), channels ? "/channel" : "");
    return text;
}

static int bits_of(qg_quant q) { return q.scheme ? q.bits : FLOAT_BITS; }

/* Cells of text of a line of the table; weight and input only of layers with weights. */
enum { NAME, TYPE, WHAT, SHAPE, WEIGHT, INPUT, TEXTS };
typedef struct texts {
    char of[TEXTS][QG_SPELLING_BYTES];
} texts;

static texts texts_of(qg_layer *l)
{
    texts          t      = { 0 };
    const size_t   bytes  = sizeof t.of[0];
    const qg_slot *weight = qg_layer_slot(l, QG_WEIGHT), *input = qg_layer_reads(l);
    snprintf(t.of[NAME], bytes, "%s", l->name);
    snprintf(t.of[TYPE], bytes, "%s", l->type->name);
    if (l->type->describe) l->type->describe(l, t.of[WHAT], bytes);
    if (l->out.h == 1 && l->out.w == 1) snprintf(t.of[SHAPE], bytes, "%d", l->out.c);
    else snprintf(t.of[SHAPE], bytes, "%d x %d x %d", l->out.h, l->out.w, l->out.c);
    if (!weight_of(l)) return t;
    (void)scheme_name(weight->q, QG_WEIGHT, t.of[WEIGHT], bytes);
    (void)scheme_name(input ? input->q : (qg_quant){ 0 }, QG_INPUT, t.of[INPUT], bytes);
    return t;
}

static void cells(const texts *t, const int *width, int end, FILE *out)
{
    for (int k = 0; k < end; k++) fprintf(out, "%-*s  ", width[k], t->of[k]);
}

static void line(qg_layer *l, const int *width, FILE *out)
{
    const texts    t      = texts_of(l);
    const qg_slot *weight = qg_layer_slot(l, QG_WEIGHT), *input = qg_layer_reads(l);
    cells(&t, width, weight_of(l) ? INPUT : SHAPE, out);
    if (weight_of(l))
        fprintf(out, "%4d  %-*s  %4d %9zu %12" PRIu64 " %10zu\n", bits_of(weight->q), width[INPUT], t.of[INPUT],
                input ? bits_of(input->q) : FLOAT_BITS, weights(l), l->macs, qg_layer_packed_bytes(l));
    else fprintf(out, "%s\n", t.of[SHAPE]);
}

static void table(const qg_net *net, FILE *out)
{
    static const texts head = { { "layer", "type", "", "output", "weight", "input" } };
    int                w[TEXTS] = { 0 };
    for (int i = -1; i < net->layers; i++) {
        const texts t = i < 0 ? head : texts_of(net->layer[i]);
        for (int k = 0; k < TEXTS; k++)
            if ((int)strlen(t.of[k]) > w[k]) w[k] = (int)strlen(t.of[k]);
    }
    cells(&head, w, INPUT, out);
    fprintf(out, "bits  %-*s  bits %9s %12s %10s\n", w[INPUT], head.of[INPUT], "weights", "mult-adds", "bytes");
    for (int i = 0; i < net->layers; i++) line(net->layer[i], w, out);
}

/* "wp 1"; with one value per channel "min -0.3 .. -0.1 of 32". */
static void value(const qg_param *p, const char *name, const char *before, FILE *out)
{
    const size_t n  = qg_count(p->shape);
    float        lo = p->value[0], hi = p->value[0];
    for (size_t i = 1; i < n; i++) {
        lo = p->value[i] < lo ? p->value[i] : lo;
        hi = p->value[i] > hi ? p->value[i] : hi;
    }
    if (n == 1) fprintf(out, "%s%s %.6g", before, name, (double)lo);
    else fprintf(out, "%s%s %.6g .. %.6g of %zu", before, name, (double)lo, (double)hi, n);
}

/* Prints what has no column in the table: gradient quantizers, delays, learned values. */
static void quantizer(qg_layer *l, qg_role role, FILE *out)
{
    const qg_slot *slot = qg_layer_slot(l, role);
    if (!slot || !slot->q.scheme) return;
    const qg_quant q = slot->q;
    const int      n = qg_learned_count(q);
    if (role != QG_GRADIENT && n == 0 && q.after == 0) return;
    char name[QG_SPELLING_BYTES], place[80];
    snprintf(place, sizeof place, "%s.%s", l->name, qg_role_name(role));
    fprintf(out, "%-16s %s, %d bit%s", place, scheme_name(q, role, name, sizeof name), q.bits,
            q.bits == 1 ? "" : "s");
    if (q.after) fprintf(out, ", after %" PRIu64 " steps", q.after);
    const qg__hooks hooks  = qg__scheme_hooks(q.scheme);
    const uint64_t  frozen = hooks.freeze_after ? hooks.freeze_after(q) : 0;
    if (frozen) fprintf(out, ", frozen after %" PRIu64 " steps", frozen);
    for (int tracked = 0; tracked < 2; tracked++) {
        const char *before = tracked ? "; tracks " : "; learns ";
        for (int i = 0; i < n; i++) {
            const qg_learned *entry = &q.scheme->learned[i];
            if (entry->quiet || entry->tracked != (tracked == 1)) continue;
            value(slot->param[i], entry->name, before, out);
            before = ", ";
        }
    }
    fputc('\n', out);
}

/* A quantizer that took the place of a relu before a residual block is also what the shortcut of the block reads. */
static void other_readers(const qg_net *net, qg_layer *l, FILE *out)
{
    const qg_slot *slot = qg_layer_slot(l, QG_INPUT);
    char           name[QG_SPELLING_BYTES], readers[128] = "";
    if (!slot || !slot->q.scheme || qg_layer_product(l) || l->readers < 2) return;
    for (int i = 0; i < net->layers; i++) {
        const bool reads = net->layer[i]->after == l || net->layer[i]->with == l;
        if (reads && !qg_layer_product(net->layer[i])) qg__list_append(readers, sizeof readers, net->layer[i]->name);
    }
    if (!*readers) return;
    const qg_code_set set = qg__code_set_of(slot->q);
    scheme_name(slot->q, QG_INPUT, name, sizeof name);
    fprintf(out, "%-16s also read by %s: ", l->name, readers);
    if (set.count == 2 && set.lowest == -1) fprintf(out, "the shortcut carries -1 and +1 (%s), not the values of a relu\n", name);
    else fprintf(out, "the shortcut carries the values of %s\n", name);
}

static void append_rows(char *text, size_t bytes, const qg_layer *first, const qg_layer *last)
{
    char rows[96];
    if (!first) return;
    snprintf(rows, sizeof rows, first == last ? "%s" : "%s to %s", first->name, last->name);
    qg__list_append(text, bytes, rows);
}

/* Of a net with a gradient quantizer: "conv2 to conv6, conv8 train in integers: ..". */
static void integers(const qg_net *net, FILE *out)
{
    char      text[256] = "";
    bool      any = false;
    int       count = 0;
    qg_layer *first = NULL, *last = NULL;
    for (int i = 0; i < net->layers; i++) {
        qg_layer      *l        = net->layer[i];
        const qg_slot *gradient = qg_layer_slot(l, QG_GRADIENT);
        const bool     is       = qg_layer_trains_in_integers(l);
        any |= gradient && gradient->q.scheme;
        count += is;
        if (is) first = first ? first : l, last = l;
        else if (qg_layer_product(l)) append_rows(text, sizeof text, first, last), first = NULL;
    }
    append_rows(text, sizeof text, first, last);
    if (count)
        fprintf(out, "%s train%s in integers: input, weight and gradient are codes\n", text,
                count == 1 ? "s" : "");
    else if (any)
        fputs("no product trains in integers, despite the gradient quantizers: docs/integer-training.md "
              "says why\n", out);
}

qg_status qg_net_summary(const qg_net *net, FILE *out)
{
    if (!net) return qg__fail_null(QG_EARG, "summary: net");
    if (net->status) return qg_fail(net->status, "%s", net->why);
    if (!net->built) return qg_fail(QG_ESTATE, "summary: the net is not built");
    if (!out) return qg_fail(QG_EARG, "summary: the file is NULL");
    uint64_t macs  = 0;
    size_t   count = 0;
    table(net, out);
    for (int i = 0; i < net->layers; i++) {
        macs += net->layer[i]->macs;
        count += weights(net->layer[i]);
    }
    for (int i = 0; i < net->layers; i++)
        for (int r = 0; r < QG_ROLES; r++) quantizer(net->layer[i], qg_roles[r], out);
    for (int i = 0; i < net->layers; i++) other_readers(net, net->layer[i], out);
    integers(net, out);
    char            ratio[QG_NUMBER_BYTES];
    size_t          packed, full = qg_net_float_bytes(net);
    const qg_status status = qg_net_packed_bytes(net, &packed);
    fprintf(out, "%zu weights, %zu parameters, %" PRIu64 " multiply-adds per image\n%zu bytes as float, ", count,
            qg_params_trained(&net->params), macs, full);
    if (packed) fprintf(out, "%zu packed: %s\n", packed, qg__number_ratio(ratio, packed, full));
    else fprintf(out, "no packed file: %s\n", qg_errmsg());
    return status;
}
