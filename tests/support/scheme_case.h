/* tests/support/scheme_case.h — a quantizer on a tensor, outside of any net; and in a small net. */
#ifndef SCHEME_CASE_H
#define SCHEME_CASE_H

#include "core/io/array.h"
#include "quant/scheme.h"

/* "x" and what the scheme learns, as parameters; x keyed and uniform in [-1.2, 1.2), so that some of
 * it lies outside every clip, and dy in [-1, 1). */
typedef struct scheme_case {
    qg_quant  q;
    qg_params p;
    qg_param *x;
    qg_param *learned[QG_MAX_LEARNED];
    qg_tape  *t;
    size_t    n;
    float    *dy;               /* [n] dL/dy that case_backward uses */
    qg_var   *y;                /* of the last case_forward */
} scheme_case;

enum { CASE_KEY = 77 };         /* of its tape */

void    case_open(scheme_case *c, qg_quant q, qg_shape shape, uint64_t key);
qg_var *case_forward(scheme_case *c, qg_mode mode, uint64_t step);     /* c->y: x quantized */
void    case_backward(scheme_case *c);              /* of sum dy y, into c->x->grad and the others' */
void    case_close(scheme_case *c);

/* The tensor as the plain operators see it: [n][row]. */
qg_array case_array(qg_shape shape, float *data);

/* Codes times scales are the values of apply, up to `tolerance`; each code is in lo..hi. */
void assert_codes_give_values(scheme_case *c, int lo, int hi, double tolerance);

/* qg_norm with q fused into it against qg_norm and then q: the same bits, gradients too. */
void assert_fused_as_unfused(qg_quant q, uint64_t step);

/* conv - bn - conv - bn - dense, trained for some steps with Adam: the same digest for 1, 2 and 3
 * threads, and another for another key when draws are made. */
void assert_any_threads(qg_quant weight, qg_quant input, qg_quant gradient, bool draws);

/* qg_net_build refuses q as a dense layer's weight, input or gradient; its message holds both parts. */
void case_refused(qg_quant q, qg_role role, const char *part, const char *other);

#endif
