/* A scheme that learns the threshold of ternary weights, and the check of its gradients, before any net
 * exists.
 *
 *     build/examples/learned_threshold
 *
 * It names its argument, has integer codes for evaluation and packed files, and states the function whose
 * slopes its gradients are.  tests/checks/check_scheme.sh adds it to the schemes of the command line, and
 * trains and exports a net with it. */
#include <math.h>
#include <stdio.h>

#include "qgrad.h"

enum { START };             /* in arg, as in keys */
enum { D };                 /* in learned */

static const qg_key keys[] = {
    { .name = "start", .fallback = 0.7, .min = 0.01, .max = 3, .about = "initial d, as a multiple of mean|w|" },
    { .name = NULL }
};

static const qg_learned learned_values[] = { { .name = "d", .least = 0x1p-30f }, { .name = NULL } };

static int side(double w, double d) { return (w > d) - (w < -d); }

/* The mean |w| of the weights that do not become 0. */
static float scale_of(qg_tensor w, float d)
{
    double sum = 0, n = 0;
    for (size_t i = 0, m = qg_count(w.shape); i < m; i++)
        if (side(w.data[i], d)) sum += fabs(w.data[i]), n++;
    return n > 0 ? (float)(sum / n) : 0;
}

/* From the initial weights. */
static void start(qg_quant q, qg_tensor w, float *const *learned)
{
    double       sum = 0;
    const size_t n   = qg_count(w.shape);
    for (size_t i = 0; i < n; i++) sum += fabs(w.data[i]);
    learned[D][0] = (float)(q.arg[START] * sum / (double)n);
}

/* dw = dq;  dd = -1 / sqrt(n) sum of dq side: a larger d makes |q| smaller. */
static void threshold_backward(qg_tape *t, qg_var *y)
{
    (void)t;
    qg_var      *w = y->in[0], *d = y->in[1];
    const size_t n = qg_count(w->shape);
    double       sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (w->grad) w->grad[i] += y->grad[i];
        sum += y->grad[i] * (float)side(w->data[i], d->data[0]);
    }
    if (d->grad) d->grad[0] -= (float)(sum / sqrt((double)n));
}

static const qg_op threshold_op = { .name = "learned-threshold", .backward = threshold_backward };

static qg_var *apply(qg_tape *t, const qg_binding *b, qg_var *w, qg_var *const *learned)
{
    (void)b;
    qg_var *y = qg_record(t, &threshold_op, w->shape, w, learned[D], NULL);
    if (!y) return NULL;
    const float d = learned[D]->data[0], a = scale_of((qg_tensor){ .shape = w->shape, .data = w->data }, d);
    for (size_t i = 0, n = qg_count(w->shape); i < n; i++) y->data[i] = a * (float)side(w->data[i], d);
    return y;
}

/* For evaluation and packed files: w = scale times code. */
static qg_code_set codes(qg_quant q) { (void)q; return (qg_code_set){ .lowest = -1, .step = 1, .count = 3 }; }

static qg_status encode(qg_quant q, qg_tensor w, const float *const *learned, qg_codes *out)
{
    for (size_t i = 0, n = qg_count(w.shape); i < n; i++) out->code[i] = side(w.data[i], learned[D][0]);
    out->scale[0] = scale_of(w, learned[D][0]);
    out->n_scale  = 1;
    out->bits     = q.bits;
    return QG_OK;
}

/* The function whose slopes are dw and dd.  The side of a weight is constant, so it is that of `at`. */
static double surrogate(qg_quant q, size_t i, const qg_point *at, const qg_point *to)
{
    (void)q;
    return to->x[i] - to->learned[D] / sqrt((double)qg_count(at->shape)) * side(at->x[i], at->learned[D]);
}

static const qg_scheme learned_threshold = {
    .name      = "learned-threshold",
    .about     = "{-a, 0, +a} beyond a learned threshold",
    .keys      = keys,
    .bits      = 2,
    .learned   = learned_values,
    .roles     = QG_WEIGHT,
    .start     = start,
    .apply     = apply,
    .codes     = codes,
    .encode    = encode,
    .surrogate = surrogate,
    .explain   = "Ternary weights whose threshold d is learned.\n"
                 "\n"
                 "    a       = mean|w| where |w| > d\n"
                 "    q(w)    = +a where w > d, -a where w < -d, else 0\n"
                 "    s(w, d) = w - d / sqrt(n) where w > d, w + d / sqrt(n) where w < -d, else w\n"
                 "\n"
                 "Learns d, which starts at start mean|w|.\n",
};

static qg_quant my_learned_threshold(double start)
{
    return qg_quant_defaults((qg_quant){ .scheme = &learned_threshold, .arg = { [START] = start } });
}

/* --- the check ---------------------------------------------------------------------------- */

enum { N = 24 };
static const qg_quant *checked;         /* my_learned_threshold(0) */
static double          as_they_were[N];

static qg_var *quantized(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    qg_var *d = qg_parameter(t, p->item[1]);
    return qg_quantize(t, *checked, qg_parameter(t, p->item[0]), &d);
}

/* Only differences are taken, so it has no backward. */
static const qg_op smooth_op = { .name = "smooth" };

static qg_var *smooth(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    const qg_param *w = p->item[0], *d = p->item[1];
    qg_var         *y = qg_record(t, &smooth_op, w->shape, qg_parameter(t, w), NULL, NULL);
    double          moved[N];
    if (!y) return NULL;
    for (int i = 0; i < N; i++) moved[i] = w->value[i];
    const qg_point at = { .shape = w->shape, .x = as_they_were, .learned = { 0.5 } };
    const qg_point to = { .shape = w->shape, .x = moved, .learned = { d->value[0] } };
    for (size_t i = 0; i < N; i++) y->data[i] = (float)checked->scheme->surrogate(*checked, i, &at, &to);
    return y;
}

static qg_status my_gradcheck(qg_quant q, qg_gradcheck_result *result)
{
    qg_params p = { 0 };
    qg_param *w = qg_params_declare(&p, (qg_param){ .name = "w", .shape = { 3, 1, 1, N / 3 } });
    qg_param *d = qg_params_declare(&p, (qg_param){ .name = "d", .shape = { 1, 1, 1, 1 },
                                                    .group = QG_SCALES });
    qg_status s = w && d ? qg_params_allocate(&p) : QG_EMEM;
    checked     = &q;
    for (int i = 0; i < N && !s; i++) as_they_were[i] = w->value[i] = (float)(i * 5 % N) / 8 - 23.0f / 16;
    if (!s) d->value[0] = 0.5f;
    if (!s) s = qg_gradcheck((qg_gradcheck_spec){ .name = "threshold", .params = &p, .build = quantized,
                                                  .surrogate = smooth }, result);
    qg_params_release(&p);
    return s;       /* whether the gradient is right: result->pass */
}

int main(void)
{
    qg_gradcheck_result r;
    if (my_gradcheck(my_learned_threshold(0), &r)) return qg_print_error("learned_threshold");
    printf("gradients of w and d: error %.1e, %s\n", r.error, r.pass ? "pass" : "FAIL");
    return !r.pass;
}
