/* tests/support/schemes.h — a scheme on its own, and a scheme in a small net. */
#ifndef SCHEMES_H
#define SCHEMES_H

#include "layers/net.h"
#include "quant/scheme.h"
#include "tests/support/testing.h"

/* A quantizer whose input and learned values are parameters, without a net. */
typedef struct rig {
    qg_quant   q;
    qg_params  params;
    qg_param  *x, *learned[QG_MAX_LEARNED];
    qg_tape   *tape;
    qg_var    *y;           /* of the last run */
} rig;

/* Everything is 0: the caller fills r->x->value, and the learned values or start_rig. */
void      open_rig(rig *r, qg_quant q, qg_role role, qg_shape x);
void      start_rig(rig *r, bool with_values);          /* scheme->start, from x or from nothing */
void      close_rig(rig *r);
qg_status run_rig(rig *r, qg_mode mode, uint64_t step); /* sets r->y */

/* One step of training; gradients of sum dy[i] y[i] are in x->grad and learned[j]->grad after it.
 * The second adds them to what is there. */
void      train_rig(rig *r, uint64_t step, const float *dy);
void      train_rig_on(rig *r, uint64_t step, const float *dy);

/* scale code == y within `ulps` roundings, for a weight per channel or anything with one scale. */
void      assert_codes(rig *r, double ulps);

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

#endif
