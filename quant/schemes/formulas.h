/* quant/schemes/formulas.h — the library's schemes, and the parts that a scheme shares with another one, or with the
 * operator on plain arrays of its name (internal).
 */
#ifndef QG_FORMULAS_H
#define QG_FORMULAS_H

#include "quant/engine.h"

extern const qg_scheme qg__twn_scheme, qg__ste_tern_scheme, qg__ttq_scheme, qg__dorefa_weight_scheme, qg__binary_scheme,
                       qg__binary_channel_scheme, qg__xnor_scheme, qg__magnitude_aware_scheme, qg__binaryconnect_scheme,
                       qg__bnn_scheme, qg__bop_scheme, qg__irnet_scheme, qg__adabin_scheme, qg__recu_scheme;
extern const qg_scheme qg__sign_scheme, qg__xnor_activation_scheme, qg__dorefa_activation_scheme,
                       qg__adabin_input_scheme;
extern const qg_scheme qg__fake_quant_scheme, qg__lsq_scheme, qg__pact_scheme, qg__linear_scheme, qg__unit_scheme,
                       qg__qdq_scheme;
extern const qg_scheme qg__dorefa_gradient_scheme, qg__stochastic_gradient_scheme;

/* 2^bits levels from 0 to hi, or without rounding. */
static inline qg_levels qg__levels_to(qg_quant q, float hi)
{
    const float steps = q.bits == QG_FLOAT_BITS ? 0.0f : qg__steps(q.bits);
    return (qg_levels){ .hi = hi, .steps = steps, .step = steps > 0.0f ? hi / steps : 0.0f };
}

/* threshold mean|w| */
float qg__twn_delta(qg_span w, float threshold);

/* y[i] = +1 with probability (x[i] + 1) / 2, else -1, by draw i of the key. */
void qg__stochastic_signs(size_t n, const float *x, uint64_t key, float *y);

/* What qgrad explain prints for weights and inputs, and for gradients. */
extern const char qg__dorefa_explain[], qg__xnor_explain[];

/* --- DoReFa's gradients ----------------------------------------------------------------------- */

typedef struct qg__dorefa_rows {
    const float    *x, *noise;  /* [rows][row]; noise NULL: drawn from the key, or none */
    float          *y;
    size_t          row;
    int             k;          /* bits, 1 .. 31 */
    const uint64_t *key;        /* NULL: no draws */
    size_t          drawn;      /* elements of the batch before x */
    bool            adds;       /* y += */
    qg_isa          isa;        /* set by the functions */
} qg__dorefa_rows;

void qg__dorefa_gradient(qg__dorefa_rows f, size_t rows);

/* --- XNOR-Net's map K ------------------------------------------------------------------------- */

typedef struct qg__xnor_windows {
    size_t n, h, w, c, oh, ow;
    size_t kernel_h, kernel_w, stride, pad_top, pad_left;
} qg__xnor_windows;

/* K [n][oh][ow], the mean |x| of each window of x [n][h][w][c]. */
void qg__xnor_map(qg__xnor_windows g, const float *x, float *K);

/* --- quantize_and_dequantize ------------------------------------------------------------------ */

typedef struct qg__qdq_codes {
    int  bits;                  /* 1 .. 62 */
    bool is_signed, narrow;
    bool given;                 /* the range clips */
    bool ties_up;
} qg__qdq_codes;

/* Of the scaled form, for the range lo .. hi. */
qg_constants qg__qdq_constants(qg__qdq_codes c, float lo, float hi);
bool         qg__qdq_is_scalable(bool given, const qg_constants *k);

#endif
