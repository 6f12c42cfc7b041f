/* quant/reference/code_conv.h — the sum that every convolution of codes is, for any layout.
 *
 * What the operators of integer_conv.h share: geometry as extents and strides, one output channel
 * at a time, whose sums become codes by a factor.
 */
#ifndef QG_CODE_CONV_H
#define QG_CODE_CONV_H

#include "core/io/array.h"
#include "core/status.h"
#include "quant/reference/integer.h"
#include "quant/reference/integer_conv.h"

#include <stddef.h>
#include <stdint.h>

/* The extents of a rank-4 array and the steps between neighbours, in elements. */
typedef struct qg__axes {
    size_t n, h, w, c;                  /* images or output channels, rows, columns, channels */
    size_t step_n, step_h, step_w, step_c;
} qg__axes;

qg__axes qg__axes_of(const qg_array *a, int n, int h, int w, int c);

typedef struct qg__code_conv {
    const qg_array *x, *w;
    qg__axes        x_axes, w_axes, y_axes;
    size_t          stride_h, stride_w;
    size_t          top, left;          /* rows and columns of padding */
    size_t          groups;
    int64_t         x_zero;
} qg__code_conv;

/* Checks that the operands agree and fills top and left; all else is set. */
QG_MUST_CHECK
qg_status qg__code_conv_fit(const char *op, qg__code_conv *k, qg_padding padding);

/* How the sums of one output channel become codes. */
typedef struct qg__code_conv_channel {
    int64_t             w_zero, bias;
    qg_multiplier       m;
    qg_requant_rounding rounding;
    int64_t             zero, lo, hi;       /* of the output */
} qg__code_conv_channel;

/* Whether no sum with these zero points can leave 64 bits. */
QG_MUST_CHECK
qg_status qg__code_conv_check_zero(const char *op, const qg__code_conv *k, int64_t w_zero);

/* Output channel o of y. */
void qg__code_conv_run(const qg__code_conv *k, size_t o, const qg__code_conv_channel *ch, qg_array *y);

#endif
