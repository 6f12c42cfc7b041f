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

/* All values are 0: the caller fills r->x->value, and sets the learned values or calls start_rig. */
void      open_rig(rig *r, qg_quant q, qg_role role, qg_shape x);
void      start_rig(rig *r, bool with_values);          /* calls scheme->start, with x or without values */
void      close_rig(rig *r);
qg_status run_rig(rig *r, qg_mode mode, uint64_t step); /* sets r->y */

/* One training step, which leaves the gradients of sum dy[i] y[i] in x->grad and learned[j]->grad; the second function
 * adds to them. */
void      train_rig(rig *r, uint64_t step, const float *dy);
void      train_rig_on(rig *r, uint64_t step, const float *dy);

/* The same in the scheme's own role, started.  x is keyed and uniform in [-1.2, 1.2), so that some values lie outside
 * every clip; dy is in [-1, 1). */
void      fill_rig(rig *r, qg_quant q, qg_shape shape, uint64_t key);
qg_var   *forward_rig(rig *r, qg_mode mode, uint64_t step);     /* r->y; fails the test if it is NULL */
void      backward_rig(rig *r);         /* of sum dy y, into x->grad and the others' */
void      learn_rig(rig *r, uint64_t step);     /* both, in training */

/* The tensor as an array of rank 4, for the plain operators. */
qg_array  rig_array(qg_shape shape, float *data);

/* Asserts that codes times scales equal the values of apply, up to `tolerance`, and that each code is in lo..hi. */
void      assert_codes_give_values(rig *r, int lo, int hi, double tolerance);

/* Compares dL/dx with the slope of s over lo..hi, with the given learned values; context is passed to s. */
void      assert_slope(qg_quant q, qg_role role, const float *learned, double (*s)(double x, void *context),
                       void *context, float lo, float hi);

/* conv - bn - relu - pool - fc, with q before fc: as the input quantizer of fc, which the batch norm can fuse, or as a
 * separate layer.  Asserts that values and loss have the same bits and that gradients differ only by roundings.  op:
 * the name of q's own op; the fused net runs it before step `fused_from` and never after.  Negative: it always runs
 * it. */
void      assert_fused_equals_unfused(qg_quant q, const char *op, int fused_from);

/* Asserts, for the same net trained for a few steps, that it has the same bits with 1, 2 and 3 threads, that saving and
 * loading it into another net does not change the training that follows, and that QG_EVAL changes nothing. */
void      assert_trains_alike(qg_quant weight, qg_quant input);

/* Asserts that qg_norm with q fused into it has the same bits as qg_norm followed by q, gradients included. */
void assert_fused_as_unfused(qg_quant q, uint64_t step);

/* Asserts that conv - bn - conv - bn - dense, trained for a few steps with Adam, has the same digest with 1, 2 and 3
 * threads, and with random draws another digest for another key. */
void assert_any_threads(qg_quant weight, qg_quant input, qg_quant gradient, bool draws);

/* Asserts that qg_net_build refuses q for a dense layer's weight, input or gradient, with both parts in its message. */
void assert_refused_in_net(qg_quant q, qg_role role, const char *part, const char *other);

/* Fillings of a tensor: ordinary numbers in -1.5 .. most, and what breaks a division or a comparison. */
enum { ORDINARY, ZEROS, NEGATIVE_ZEROS, EQUAL, ONE_NAN, ONE_INFINITE, TINY, FILLINGS };
void fill_how(float *x, size_t n, int how, float most);

#endif
