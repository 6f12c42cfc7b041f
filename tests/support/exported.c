#include "tests/support/exported.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers/models/text.h"
#include "layers/plan.h"
#include "quant/scheme.h"
#include "tests/support/coded.h"
#include "tests/support/nets.h"
#include "tests/support/testing.h"

enum { K_INPUT = 2 };       /* of tested_inputs: XNOR-Net's, which not every product can have */

bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* Factors of both signs, and offsets that move most thresholds. */
static void fill_parameters(qg_net *net)
{
    static const struct { const char *name; float lo, hi; } rows[] = {
        { ".gamma", -1.5f, 1.5f }, { ".beta", -1, 1 }, { ".running_mean", -0.5f, 0.5f }, { ".running_var", 0.1f, 2 },
        { ".bias", -0.5f, 0.5f }, { ".slope", -0.5f, 0.5f }, { ".x_shift", -0.5f, 0.5f }, { ".y_shift", -0.5f, 0.5f },
        { ".input.a", 0.5f, 1.5f }, { ".input.b", -0.5f, 0.5f },
    };
    const qg_params *p = qg_net_params(net);
    for (int i = 0; i < p->count; i++)
        for (int r = 0; r < COUNT(rows); r++)
            if (ends_with(p->item[i]->name, rows[r].name))
                fill_uniform(p->item[i]->value, qg_count(p->item[i]->shape), rows[r].lo, rows[r].hi, (uint64_t)(100 + i));
}

bool rig_begin(rig *r, qg_net *net, int n)
{
    *r = (rig){ .net = net, .t = qg_tape_new() };
    if (!qg_net_build(net)) return false;
    r->image = (qg_shape){ n, net->spec.height, net->spec.width, net->spec.channels };
    r->x     = malloc(qg_count(r->image) * sizeof *r->x);
    assert_non_null(r->x);
    fill_uniform(r->x, qg_count(r->image), -1.2f, 1.2f, 16);
    qg_tape_begin(r->t, QG_TRAIN, 1, 0);            /* ranges and steps look at the images */
    if (!qg_net_forward(net, r->t, (qg_tensor){ r->image, r->x })) return false;
    fill_parameters(net);
    return true;
}

void rig_end(rig *r)
{
    free(r->x);
    qg_tape_free(r->t);
    qg_net_free(r->net);
}

const qg_var *rig_scores(rig *r, int n)
{
    qg_shape s = r->image;
    s.n        = n;
    qg_tape_begin(r->t, QG_EVAL, 1, 1);
    const qg_var *y = qg_net_forward(r->net, r->t, (qg_tensor){ s, r->x });
    if (!y) fail_msg("%s", qg_errmsg());
    return y;
}

/* --- pairs ---------------------------------------------------------------------------------- */

typedef struct shape {
    int  c, out, kernel, stride, pad, groups;
    bool same, norm, pool;
} shape;

static const shape shapes[] = {
    { .c = 3, .out = 33, .kernel = 3, .stride = 1, .pad = 1, .norm = true, .pool = true },
    { .c = 1, .out = 31, .kernel = 3, .stride = 2 },
    { .c = 65, .out = 3, .kernel = 1, .stride = 1, .norm = true },
    { .c = 33, .out = 1, .kernel = 5, .stride = 3, .pad = 2, .pool = true },
    { .c = 6, .out = 9, .kernel = 3, .stride = 1, .pad = 1, .groups = 3, .norm = true },
    { .c = 31, .out = 31, .kernel = 3, .stride = 2, .groups = 31, .same = true, .norm = true },
    { .c = 63, .out = 65, .kernel = 2, .stride = 1, .pad = 1, .norm = true },
};

/* A float product, whose step then quantizes; the product of both schemes; one more that reads its codes. */
static qg_net *pair_of(qg_quant w, qg_quant x, shape s, bool fold)
{
    const bool K = x.scheme && x.scheme->scale_output, rectifies = x.scheme && x.scheme->rectifies;
    qg_net    *net = qg_net_new((qg_net_spec){ .height = 7, .width = 8, .channels = 2, .seed = 3, .fold_batchnorm = fold });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = s.c, .kernel = 3, .pad = 1 });
    qg_net_batchnorm(net);
    if (!rectifies) qg_net_relu(net);
    if (s.pool) qg_net_maxpool_with(net, (qg_pool2d_spec){ .size = 3, .stride = 2, .pad = 1 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = s.out, .kernel = s.kernel, .stride = s.stride, .pad = s.pad,
                                         .groups = K ? 1 : s.groups, .same = s.same, .weight = w, .input = x });
    if (s.norm) qg_net_batchnorm(net);
    if (!s.pool) qg_net_hardtanh(net);
    qg_net_dense(net, (qg_dense_spec){ .out = 5, .weight = w, .input = x });
    return net;
}

static qg_net *pair(int i, char *what)
{
    const int            k = i / TESTED_INPUTS, j = i % TESTED_INPUTS;
    const tested_scheme *weight = &tested_weights[k], *input = &tested_inputs[j];
    const qg_quant       w = tested_quant(weight, QG_WEIGHT), x = tested_quant(input, QG_INPUT);
    const shape          s = shapes[(3 * k + j) % COUNT(shapes)];
    const bool           fold = s.norm && weight->scheme && !(x.scheme && x.scheme->scale_output) && (k + j) % 2;
    snprintf(what, WHAT_BYTES, "%s:%s x %s:%s, %d channels%s", w.scheme ? w.scheme->name : "float", weight->arguments,
             x.scheme ? x.scheme->name : "float", input->arguments, s.c, fold ? ", folded" : "");
    return pair_of(w, x, s, fold);
}

/* --- layers --------------------------------------------------------------------------------- */

const char *const exported_texts[EXPORTED_TEXTS] = {
    "9C3p1-BN-R-MP2-12C3x1s2p0-BN-HT-20FC-SG-10",
    "8C3-PR-8C3-RPR-8C3-PR(shared)-AP2-AF(scale=2,shift=0.5)-TH-10",
    "8C3psame-BN(no-scale)-R-DW3-BN(no-shift)-R-16C1-BN-R-GAP-10",
    "6C3b0-BN(whole)-6C3g3-BN(whole)-D0.5-10",
    "8C3-BN-R-{8C3-BN-R-8C3-BN}-R-{16C3s2-BN-R-16C3-BN}:A-R-{16C3-BN-R-16C3-BN}:B-R-GAP-10",
    "8C3-BN-R-{16C3s2-BN-R-16C3-BN}:pool-R-{16C3s2-BN}:poolB-PR-MP3s2p1-10",
    "8C3-{BN-R-8C3-BN-R-8C3}-{BN-R-16C3s2-BN-R-16C3}:A-BN-R-AP3s2p1-GAP-10",
    "8C3-BN-RPR-{8C3-BN}-RPR-{8C3-BN}-RPR-GAP-10",
    "8C3-MP2-BN-R-D0.5-12C3-MP3s1p1-BN-20FC-BN-R-10-BN",
    "R-4C3-10", "BN-4C3-SG-10",
};
static const struct { int w, x; } text_schemes[] = {
    { 0, 0 }, { 1, 0 }, { 4, 1 }, { 9, 2 }, { 16, 5 }, { 27, 19 }, { 0, 4 }, { 21, 10 }, { 31, 19 }
};

static qg_net *layers(int i, char *what)
{
    const int           k = i % COUNT(text_schemes);
    const char         *text = exported_texts[i / COUNT(text_schemes)];
    const qg_model_spec spec = { .height = 12, .width = 8, .channels = 3, .classes = 10, .seed = 5,
                                 .weight = tested_quant(&tested_weights[text_schemes[k].w], QG_WEIGHT),
                                 .input  = tested_quant(&tested_inputs[text_schemes[k].x], QG_INPUT) };
    snprintf(what, WHAT_BYTES, "%s, %d", text, k);
    return qg_net_from_text(text, spec);
}

/* --- branches ------------------------------------------------------------------------------- */

static qg_net *branches(int i, char *what)
{
    const qg_quant w = qg_twn((qg_twn_spec){ 0 }), w8 = qg_lsq((qg_lsq_spec){ .bits = 8, .is_signed = true });
    const qg_quant inputs[] = { qg_sign((qg_sign_spec){ 0 }), qg_dorefa_activation((qg_dorefa_activation_spec){ 0 }),
                                qg_pact((qg_pact_spec){ .bits = 8 }), qg_pact((qg_pact_spec){ .bits = 32 }) };
    qg_net *net = qg_net_new((qg_net_spec){ .height = 6, .width = 6, .channels = 3, .seed = 4 });
    qg_net_avgpool_with(net, (qg_pool2d_spec){ .size = 3, .stride = 1, .pad = 1, .exclude_pad = i % 2 });
    qg_net_maxpool_with(net, (qg_pool2d_spec){ .size = 3, .stride = 1, .pad = 1, .exclude_pad = true });   /* as without */
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 8, .kernel = 3, .pad = 1 });
    qg_layer *bn = qg_net_batchnorm(net), *q = qg_net_quantize(net, inputs[i]);
    qg_layer *a  = qg_net_conv2d(net, (qg_conv2d_spec){ .out = 8, .kernel = 3, .pad = 1, .weight = w, .after = q });
    qg_layer *b  = qg_net_conv2d(net, (qg_conv2d_spec){ .out = 4, .kernel = 1, .weight = w8, .after = q });
    qg_layer *f  = qg_net_conv2d(net, (qg_conv2d_spec){ .out = 4, .kernel = 1, .after = q });
    qg_layer *sum = qg_net_add(net, a, bn), *both = qg_net_concat(net, b, f);
    qg_layer *head = qg_net_concat(net, sum, both);
    qg_net_mark_output(sum);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 5, .kernel = 2, .stride = 2, .weight = w, .input = inputs[i], .after = head });
    qg_net_avgpool_with(net, (qg_pool2d_spec){ .size = 2, .stride = INT_MAX });
    qg_net_dense(net, (qg_dense_spec){ .out = 300, .weight = w });
    snprintf(what, WHAT_BYTES, "branches, %d", i);
    return net;
}

/* --- models --------------------------------------------------------------------------------- */

/* Narrow ones where the model can be narrow, and small images, except that cnv takes no smaller ones than its own. */
static qg_net *model(const qg_model *m, int w, int x, int variant)
{
    const bool    own  = m->image.h < 32 || !strcmp(m->name, "cnv");
    qg_model_spec spec = { .height = own ? m->image.h : 24, .width = own ? m->image.w : 16,
                           .channels = m->image.c, .classes = 10, .seed = 5,
                           .weight = tested_quant(&tested_weights[w], QG_WEIGHT),
                           .input = tested_quant(&tested_inputs[x], QG_INPUT), .first_last = variant % 2 ? QG_FIRST_LAST_FLOAT : QG_FIRST_LAST_QUANTIZED };
    const bool narrow = qg_keys_find(m->keys, "width", 5) >= 0, orders = qg_keys_find(m->keys, "order", 5) >= 0;
    if (narrow) spec.option[QG_MODEL_WIDTH] = !strcmp(m->name, "mlp") ? 64 : 0.125;
    if (orders) {
        spec.option[QG_MODEL_ORDER]    = variant % 2;
        spec.option[QG_MODEL_SHORTCUT] = variant % 3;
    }
    return qg_model_declare(m, spec);
}

static const struct { int w, x; } model_schemes[] = { { 1, 0 }, { 8, 1 }, { 16, 5 }, { 28, 19 }, { 9, 2 } };

static qg_net *models(int i, char *what)
{
    const qg_model *m = qg_models[i / COUNT(model_schemes)];
    const int       k = i % COUNT(model_schemes);
    snprintf(what, WHAT_BYTES, "%s, %d", m->name, k);
    return model(m, model_schemes[k].w, model_schemes[k].x, i);
}

/* --- all ------------------------------------------------------------------------------------ */

int exported_count(exported_sort sort)
{
    int n = 0;
    while (qg_models[n]) n++;
    return sort == EXPORTED_PAIRS    ? TESTED_WEIGHTS * TESTED_INPUTS
           : sort == EXPORTED_LAYERS ? EXPORTED_TEXTS * COUNT(text_schemes)
           : sort == EXPORTED_MODELS ? n * COUNT(model_schemes)
                                     : 4;
}

qg_net *exported_declare(exported_sort sort, int i, char what[WHAT_BYTES])
{
    static qg_net *(*const sorts[EXPORTED_SORTS])(int i, char *what) = { pair, layers, branches, models };
    return sorts[sort](i, what);
}

bool exported_may_fail(exported_sort sort, int i)
{
    if (sort == EXPORTED_LAYERS) return text_schemes[i % COUNT(text_schemes)].x == K_INPUT;
    return sort == EXPORTED_MODELS && model_schemes[i % COUNT(model_schemes)].x == K_INPUT;
}
