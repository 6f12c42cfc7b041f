/* quant/map.h — the element by element loops that are worth a wide machine (internal).
 *
 * Weights and activations are quantized in every step, all of them.  Every operation is a single
 * IEEE one and nothing is contracted: the same bits on every instruction set.
 */
#ifndef QG_MAP_H
#define QG_MAP_H

#include "core/kernels/cpu.h"

#include <stddef.h>
#include <stdint.h>

typedef struct qg_map_kernels {
    /* y = positive if x > delta, -negative if x < -delta, else 0 */
    void (*ternary)(size_t n, const float *x, float delta, float positive, float negative,
                    float *y);
    /* y = qg__tanh(x), quant/smooth.h */
    void (*tanh)(size_t n, const float *x, float *y);
    /* t = 2 quantize_k(t / (2m) + 1/2) - 1, quant/schemes/dorefa.h; t = tanh(w), steps = 2^k - 1 */
    void (*tanh_codes)(size_t n, float m, float steps, float *t);
    /* y = scale if x >= 0, else -scale */
    void (*scaled_sign)(size_t n, const float *x, float scale, float *y);
    /* y[i] = 1 if qg_uniform(key, first + i) < (x[i] + 1) / 2, else -1 */
    void (*stochastic_sign)(size_t n, const float *x, uint64_t key, size_t first, float *y);
    /* Activations, by the formulas of their headers; steps = 2^bits - 1, codes lo .. hi. */
    void (*linear)(size_t n, const float *x, float max_value, float steps, float *y);
    void (*dorefa_even)(size_t n, const float *x, float steps, float *y);
    void (*dorefa_up)(size_t n, const float *x, float steps, float *y);
    void (*pact)(size_t n, const float *x, float alpha, float steps, float *y);
    void (*lsq)(size_t n, const float *x, float step, float lo, float hi, float *y);
    /* u[i] = qg_uniform(key, first + i) */
    void (*uniform)(size_t n, uint64_t key, size_t first, float *u);
} qg_map_kernels;

QG_DECLARE_KERNELS(qg_map_kernels, qg__map);

#endif
