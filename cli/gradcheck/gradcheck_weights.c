/* Rows of qgrad gradcheck: weights and their scales, as schemes and as functions on arrays. */
#include "cli/gradcheck/gradcheck_tensor.h"

#include <math.h>

#include "quant/schemes/dorefa.h"
#include "quant/schemes/ttq.h"
#include "quant/schemes/xnor.h"

static double clip(double x, double lo, double hi) { return x < lo ? lo : x > hi ? hi : x; }

/* --- TTQ: Wp and Wn ----------------------------------------------------------------------- */

/* x moves less than the threshold 0.25 * max|w| is away from it. */
static qg_ttq_attrs ttq_attrs(const float *learned, qg_ttq_rule rule)
{
    return (qg_ttq_attrs){ 0.25f, learned[0], learned[1], rule, { 0 } };
}

static qg_status ttq_forward(const qg_array *x, const float *learned, qg_array *y)
{
    return qg_ttq_weight_quantizer(x, ttq_attrs(learned, QG_TTQ_EXACT), y);
}

static qg_status ttq_backward(const qg_array *x, const float *learned, const qg_array *dy,
                              qg_array *dx, float *dlearned)
{
    return qg_ttq_weight_quantizer_gradient(x, dy, ttq_attrs(learned, QG_TTQ_EXACT), dx,
                                            &dlearned[0], &dlearned[1]);
}

/* Eq. 8 is the slope of Wp x, x and Wn x on the three sets, which were told apart before. */
static double lines_of(const held *was, size_t first, size_t n, size_t i, const float *x, const float *learned)
{
    float most = 0;
    for (size_t j = first; j < first + n; j++) most = fmaxf(most, fabsf(was->x[j]));
    const float d     = 0.25f * most;
    const float slope = was->x[i] > d ? learned[0] : was->x[i] < -d ? learned[1] : 1;
    return (double)slope * (double)x[i];
}

static double ttq_lines(const held *was, size_t i, const float *x, const float *learned)
{
    return lines_of(was, 0, TENSOR_N, i, x, learned);
}

static double ttq_row_lines(const held *was, size_t i, const float *x, const float *learned)
{
    return lines_of(was, i - i % TENSOR_ROW, TENSOR_ROW, i, x, learned);
}

static const plain ttq_arrays = { { "wp", "wn" }, ttq_forward, ttq_backward };


/* --- DoReFa weights ----------------------------------------------------------------------- */

static double largest_tanh(const float *x)
{
    double most = 0;
    for (int j = 0; j < TENSOR_N; j++) most = fmax(most, fabs(tanh((double)x[j])));
    return most;
}

static double tanh_over_held_max(const held *was, size_t i, const float *x, const float *learned)
{
    (void)learned;
    return tanh((double)x[i]) / largest_tanh(was->x);
}

static double tanh_over_max(const held *was, size_t i, const float *x, const float *learned)
{
    (void)was, (void)learned;
    return tanh((double)x[i]) / largest_tanh(x);
}

static qg_status dorefa_forward(const qg_array *x, const float *learned, qg_array *y)
{
    (void)learned;
    return qg_dorefa_weight_quantizer(x, 3, y);
}

static qg_status dorefa_backward(const qg_array *x, const float *learned, const qg_array *dy,
                                 qg_array *dx, float *dlearned)
{
    (void)learned, (void)dlearned;
    return qg_dorefa_weight_quantizer_gradient(x, dy, (qg_dorefa_weight_attrs){ .k = 3 }, dx);
}

static qg_status dorefa_backward_max(const qg_array *x, const float *learned, const qg_array *dy,
                                     qg_array *dx, float *dlearned)
{
    (void)learned, (void)dlearned;
    return qg_dorefa_weight_quantizer_gradient(
        x, dy, (qg_dorefa_weight_attrs){ .k = 3, .through_max = true }, dx);
}

static const plain dorefa     = { { NULL }, dorefa_forward, dorefa_backward };
static const plain dorefa_max = { { NULL }, dorefa_forward, dorefa_backward_max };

/* --- XNOR-Net ----------------------------------------------------------------------------- */

static double mean_abs_row(const float *x, size_t i)
{
    const float *row = x + i / TENSOR_ROW * TENSOR_ROW;
    double       sum = 0;
    for (int j = 0; j < TENSOR_ROW; j++) sum += fabs((double)row[j]);
    return sum / TENSOR_ROW;
}

/* a(w) sign(w), differentiated as a product: a where it was times clip(w), a times sign. */
static double xnor_product(const held *was, size_t i, const float *x, const float *learned)
{
    (void)learned;
    return mean_abs_row(was->x, i) * clip((double)x[i], -1, 1) +
           mean_abs_row(x, i) * copysign(1, (double)was->x[i]);
}

/* Bi-Real Net: a is a constant. */
static double held_mean_clip(const held *was, size_t i, const float *x, const float *learned)
{
    (void)learned;
    return mean_abs_row(was->x, i) * clip((double)x[i], -1, 1);
}

static qg_status xnor_forward(const qg_array *x, const float *learned, qg_array *y)
{
    (void)learned;
    return qg_xnor_weight_quantizer(x, 0, y, NULL);
}

static qg_status xnor_backward(const qg_array *x, const float *learned, const qg_array *dy,
                               qg_array *dx, float *dlearned)
{
    (void)learned, (void)dlearned;
    return qg_xnor_weight_quantizer_gradient(x, dy, (qg_xnor_attrs){ .input_axis = 3 }, dx);
}

static const plain xnor = { { NULL }, xnor_forward, xnor_backward };
/* --- as schemes --------------------------------------------------------------------------- */

static qg_quant weight(qg_quant q)
{
    q.role = QG_WEIGHT;
    return q;
}

static qg_quant ttq(void) { return weight(qg_ttq((qg_ttq_spec){ .threshold = 0.25f })); }

static qg_quant ttq_rows(void) { return weight(qg_ttq((qg_ttq_spec){ .threshold = 0.25f, .per_channel = true })); }

static qg_quant ttq_as_printed(void)
{
    return weight(qg_ttq((qg_ttq_spec){ .threshold = 0.25f, .rule = QG_TTQ_AS_PRINTED }));
}

static qg_quant dorefa_weight(void)
{
    return weight(qg_dorefa_weight((qg_dorefa_weight_spec){ .bits = 3 }));
}

static qg_quant dorefa_weight_max(void)
{
    return weight(qg_dorefa_weight((qg_dorefa_weight_spec){ .bits = 3, .through_max = true }));
}

static qg_quant dorefa_gradient(void)
{
    qg_quant q = qg_dorefa_gradient((qg_dorefa_gradient_spec){ .bits = 4, .no_noise = true });
    q.role     = QG_GRADIENT;
    return q;
}

static qg_quant xnor_exact(void) { return weight(qg_xnor((qg_xnor_spec){ 0 })); }

/* A surrogate that no w meets leaves what acts through alpha, which is smooth while no sign flips. */
static qg_quant xnor_alpha(void)
{
    return weight(qg_xnor((qg_xnor_spec){ .surrogate = qg_surrogate_clip(0.01f) }));
}

static qg_quant xnor_alpha_as_printed(void)
{
    return weight(
        qg_xnor((qg_xnor_spec){ .rule = QG_XNOR_PAPER, .surrogate = qg_surrogate_clip(0.01f) }));
}

static qg_quant bireal(void) { return weight(qg_magnitude_aware((qg_magnitude_aware_spec){ 0 })); }

/* --- rows --------------------------------------------------------------------------------- */

static const tensor_row rows[] = {
    { .name = "ttq: w", .quant = ttq, .surrogate = ttq_lines, .learned = { 0.7f, 1.2f },
      .spread = 1 },
    { .name = "ttq: Wp", .checked = 1, .quant = ttq, .learned = { 0.7f, 1.2f }, .spread = 1 },
    { .name = "ttq: Wn", .checked = 2, .quant = ttq, .learned = { 0.7f, 1.2f }, .spread = 1 },
    { .name = "ttq, per channel: w", .quant = ttq_rows, .surrogate = ttq_row_lines, .learned = { 0.7f, 1.2f },
      .spread = 1 },
    { .name = "ttq, per channel: Wp", .checked = 1, .quant = ttq_rows, .learned = { 0.7f, 1.2f }, .spread = 1 },
    { .name = "ttq, per channel: Wn", .checked = 2, .quant = ttq_rows, .learned = { 0.7f, 1.2f }, .spread = 1 },
    { .name = "dorefa: w", .quant = dorefa_weight, .surrogate = tanh_over_held_max,
      .spread = 1.5f },
    { .name = "dorefa, maximum derived: w", .quant = dorefa_weight_max, .surrogate = tanh_over_max,
      .spread = 1.5f },
    { .name = "dorefa, gradient of 4 bits: x", .quant = dorefa_gradient, .spread = 1.5f },
    { .name = "xnor: w", .quant = xnor_exact, .surrogate = xnor_product, .spread = 2,
      .kink = { -1, 1 }, .margin = 0.1f },
    { .name = "xnor, by way of alpha: w", .quant = xnor_alpha, .spread = 2 },
    { .name = "magnitude-aware: w", .quant = bireal, .surrogate = held_mean_clip, .spread = 2,
      .kink = { -1, 1 }, .margin = 0.1f },
    { .name = "ttq_weight_quantizer: w", .plain = &ttq_arrays, .surrogate = ttq_lines,
      .learned = { 0.7f, 1.2f }, .spread = 1 },
    { .name = "ttq_weight_quantizer: Wp", .checked = 1, .plain = &ttq_arrays,
      .learned = { 0.7f, 1.2f }, .spread = 1 },
    { .name = "ttq_weight_quantizer: Wn", .checked = 2, .plain = &ttq_arrays,
      .learned = { 0.7f, 1.2f }, .spread = 1 },
    { .name = "dorefa_weight_quantizer: w", .plain = &dorefa, .surrogate = tanh_over_held_max,
      .spread = 1.5f },
    { .name = "dorefa_weight_quantizer, maximum derived: w", .plain = &dorefa_max,
      .surrogate = tanh_over_max, .spread = 1.5f },
    { .name = "xnor_weight_quantizer: w", .plain = &xnor, .surrogate = xnor_product, .spread = 2,
      .kink = { -1, 1 }, .margin = 0.1f },
};

enum { ROWS = sizeof rows / sizeof *rows };

static qg_status check(int i, gradcheck_line *line) { return tensor_check(&rows[i], line); }

const gradcheck_table gradcheck_weights = { "weights and their scales", ROWS, check };

/* --- formulas of papers ------------------------------------------------------------------- */

#define TTQ_WHY                                                                                    \
    "arXiv:1612.01064, eq. 7, prints dL/dWn = +sum of dL/dq over the negative set.  There q = -Wn,\n" \
    "so the chain rule gives -sum: with the printed sign every step moves Wn uphill."

#define XNOR_WHY                                                                                   \
    "arXiv:1603.05279 prints dL/dw_i = dL/dq_i (1/n + 1[|w_i| <= 1] alpha).  alpha = mean|w| is in\n" \
    "every q_j of the filter, so w_i acts through all of them: sign(w_i)/n sum_j dL/dq_j sign(w_j).\n" \
    "The printed 1/n keeps the term j = i of that sum and drops the others."

static const tensor_row papers[] = {
    { .name = "TTQ, dWn as printed: Wn", .checked = 2, .quant = ttq_as_printed,
      .learned = { 0.7f, 1.2f }, .spread = 1, .why = TTQ_WHY },
    { .name = "XNOR, dw by way of alpha as printed: w", .quant = xnor_alpha_as_printed, .spread = 2,
      .why = XNOR_WHY },
};

enum { PAPERS = sizeof papers / sizeof *papers };

static qg_status check_paper(int i, gradcheck_line *line) { return tensor_check(&papers[i], line); }

const gradcheck_table gradcheck_papers = { "formulas as printed", PAPERS, check_paper };
