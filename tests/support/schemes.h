/* tests/support/schemes.h — a scheme on its own, and a scheme in a small net. */
#ifndef SCHEMES_H
#define SCHEMES_H

#include "core/io/array.h"
#include "layers/net.h"
#include "quant/scheme.h"
#include "tests/support/testing.h"

/* A quantizer whose input "x" and learned values are parameters, without a net. */
typedef struct rig {
    qg_quant   q;
    qg_params  p;
    qg_param  *x, *learned[QG_MAX_LEARNED];
    qg_tape   *t;
    size_t     n;           /* elements of x */
    float     *dy;          /* [n] of fill_rig, dL/dy of backward_rig; else NULL */
    qg_var    *y;           /* of the last run */
} rig;

enum { RIG_KEY = 77 };      /* of its tape */

/* Everything is 0: the caller fills r->x->value, and the learned values or start_rig. */
void      open_rig(rig *r, qg_quant q, qg_role role, qg_shape x);
void      start_rig(rig *r, bool with_values);          /* scheme->start, from x or from nothing */
void      close_rig(rig *r);
qg_status run_rig(rig *r, qg_mode mode, uint64_t step); /* sets r->y */

/* One step of training; gradients of sum dy[i] y[i] are in x->grad and learned[j]->grad after it.
 * The second adds them to what is there. */
void      train_rig(rig *r, uint64_t step, const float *dy);
void      train_rig_on(rig *r, uint64_t step, const float *dy);

/* The same in the role that the scheme has, started.  x is keyed and uniform in [-1.2, 1.2), so that some of it lies
 * outside every clip, and dy in [-1, 1). */
void      fill_rig(rig *r, qg_quant q, qg_shape shape, uint64_t key);
qg_var   *forward_rig(rig *r, qg_mode mode, uint64_t step);     /* r->y; fails the test if there is none */
void      backward_rig(rig *r);         /* of sum dy y, into x->grad and the others' */
void      learn_rig(rig *r, uint64_t step);     /* both, in training */

/* The tensor as the plain operators see it: of rank 4. */
qg_array  rig_array(qg_shape shape, float *data);

/* Codes times scales are the values of apply, up to `tolerance`; each code is in lo..hi. */
void      assert_codes_give_values(rig *r, int lo, int hi, double tolerance);

/* dL/dx against s over lo..hi, with the learned values given; context of s is the scheme's business. */
void      assert_slope(qg_quant q, qg_role role, const float *learned, double (*s)(double x, void *context),
                       void *context, float lo, float hi);

/* conv - bn - relu - pool - fc, with q in front of fc: as its input, where the batch norm may do it,
 * or as a layer of its own.  Same values in both; the loss has the same bits, and gradients differ
 * by roundings.  op: the name q's own op has; the fused net never runs it from `fused_from` on,
 * and runs it before that.  Negative: always runs it. */
void      assert_fused_equals_unfused(qg_quant q, const char *op, int fused_from);

/* The same net, trained for some steps: the same bits with 1, 2 and 3 threads; saved, loaded into
 * another and trained on, as if it had not been; and QG_EVAL changes nothing. */
void      assert_trains_alike(qg_quant weight, qg_quant input);

/* qg_norm with q fused into it against qg_norm and then q: the same bits, gradients too. */
void assert_fused_as_unfused(qg_quant q, uint64_t step);

/* conv - bn - conv - bn - dense, trained for some steps with Adam: the same digest for 1, 2 and 3
 * threads, and another for another key when draws are made. */
void assert_any_threads(qg_quant weight, qg_quant input, qg_quant gradient, bool draws);

/* qg_net_build refuses q as a dense layer's weight, input or gradient; its message holds both parts. */
void assert_refused_in_net(qg_quant q, qg_role role, const char *part, const char *other);

#endif
