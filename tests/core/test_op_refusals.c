/* What each op refuses: shapes that do not fit and arguments out of range.  The message names the op and the shapes, and
 * an operand that is NULL passes through without a failure. */
#include "tests/support/testing.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "core/ops/ops.h"
#include "tests/support/nets.h"

enum { DATA = 400 };

static float mean[DATA], var[DATA];     /* zeros; the operands' values as well */

typedef struct refusal refusal;

/* An op with the arguments of a row. */
typedef qg_var *call(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b);

struct refusal {
    call         *op;
    qg_shape      x, w, b;              /* operands; without a w or b, NULL */
    qg_status     status;
    const char   *says;
    float         lo, hi;               /* or a rate */
    int           size, channels;       /* a count; or a stride and channels */
    qg_pool_spec  pool;
    qg_shape      to, at;
    qg_conv_spec  conv;
    qg_norm_spec  norm;
    qg_norm_fusion with;
    const uint16_t *labels;
};

static qg_var *add(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_add(t, x, w);
}

static qg_var *sub(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_sub(t, x, w);
}

static qg_var *mul(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_mul(t, x, w);
}

static qg_var *mse(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_mse(t, x, w);
}

static qg_var *kl(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_kl(t, x, w, r->lo);
}

static qg_var *prelu(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_prelu(t, x, w);
}

/* w is a good slope unless it is the shift. */
static qg_var *rprelu(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_rprelu(t, x, r->size ? w : b, b, r->size ? b : w);
}

static qg_var *sum(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_sum(t, x, (unsigned)r->size);
}

static qg_var *mean_of(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_mean(t, x, (unsigned)r->size);
}

static qg_var *broadcast(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_broadcast(t, x, r->to);
}

static qg_var *concat(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return x ? qg_concat(t, r->size, (qg_var *[]){ x, w, x }) : NULL;
}

static qg_var *slice(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_slice(t, x, r->at, r->to);
}

static qg_var *smoothed(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_cross_entropy_with(t, x, r->labels, (qg_cross_entropy_spec){ r->lo });
}

static qg_var *bias(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_bias(t, x, w);
}

static qg_var *reshape(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_reshape(t, x, r->to);
}

static qg_var *clip(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_clip(t, x, r->lo, r->hi);
}

static qg_var *dropout(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_dropout(t, x, r->lo);
}

static qg_var *maxpool(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_maxpool_with(t, x, r->pool);
}

static qg_var *avgpool(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_avgpool_with(t, x, r->pool);
}

static qg_var *shortcut(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_shortcut(t, x, r->size, r->channels);
}

static qg_var *dense(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_dense(t, x, w, b);
}

static qg_var *conv(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_conv2d(t, x, w, b, r->conv);
}

static qg_var *norm(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_norm(t, x, w, b, r->norm);
}

static qg_var *norm_fused(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_norm_fused(t, x, w, b, r->norm, r->with);
}

/* w is what is added after the norm. */
static qg_var *norm_add(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    qg_norm_fusion with = r->with;
    with.add            = w;
    return qg_norm_fused(t, x, NULL, NULL, r->norm, with);
}

static qg_var *entropy(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_cross_entropy(t, x, r->labels);
}

static qg_var *hinge(qg_tape *t, const refusal *r, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_squared_hinge(t, x, r->labels);
}

static const uint16_t labels[] = { 0, 3, 4 };

#define IMAGE   .x = { 1, 5, 4, 3 }
#define CONV    .op = conv, IMAGE, .w = { 2, 3, 3, 3 }, .b = { 1, 1, 1, 2 }
#define NORM    .op = norm, .x = { 2, 3, 4, 3 }, .w = { 1, 1, 1, 3 }, .b = { 1, 1, 1, 3 }
#define FUSED   .op = norm_fused, .x = { 2, 3, 4, 3 }, .w = { 1, 1, 1, 3 }, .b = { 1, 1, 1, 3 }
#define STATS   .mean = mean, .var = var
#define SCORES  .x = { 3, 1, 1, 4 }
#define PLACES " places of an image, not one row; pool them, or make them one row: a dense layer, qg_reshape"

static const refusal refusals[] = {
    { .op = add, .x = { 2, 2, 1, 3 }, .w = { 2, 1, 2, 3 }, .status = QG_ESHAPE,
      .says = "add: x [2,2,1,3] and z [2,1,2,3]" },
    { .op = sub, .x = { 2, 2, 1, 3 }, .w = { 2, 1, 2, 3 }, .status = QG_ESHAPE,
      .says = "sub: x [2,2,1,3] and z [2,1,2,3]" },
    { .op = mul, .x = { 2, 2, 1, 3 }, .w = { 1, 1, 1, 3 }, .status = QG_ESHAPE,
      .says = "mul: x [2,2,1,3] and z [1,1,1,3] differ" },
    { .op = bias, .x = { 2, 2, 1, 3 }, .w = { 1, 1, 1, 4 }, .status = QG_ESHAPE,
      .says = "bias: x [2,2,1,3] and b [1,1,1,4]" },
    { .op = reshape, .x = { 2, 2, 1, 3 }, .to = { 2, 1, 1, 5 }, .status = QG_ESHAPE,
      .says = "reshape: x [2,2,1,3] does not fill [2,1,1,5]" },

    { .op = clip, IMAGE, .lo = 1, .hi = 1, .status = QG_EARG, .says = "clip: lo 1" },
    { .op = clip, IMAGE, .lo = 2, .hi = -1, .status = QG_EARG, .says = "clip: lo 2" },
    { .op = clip, IMAGE, .lo = NAN, .hi = 1, .status = QG_EARG, .says = "clip: lo nan" },
    { .op = clip, IMAGE, .lo = 0, .hi = NAN, .status = QG_EARG, .says = "[1,5,4,3]" },

    { .op = prelu, IMAGE, .w = { 1, 1, 1, 2 }, .status = QG_ESHAPE,
      .says = "prelu: x [1,5,4,3] and a [1,1,1,2], which is neither [1,1,1,3] nor [1,1,1,1]" },
    { .op = prelu, IMAGE, .w = { 3, 1, 1, 1 }, .status = QG_ESHAPE, .says = "prelu: x [1,5,4,3] and a [3,1,1,1]" },
    { .op = rprelu, IMAGE, .w = { 1, 1, 1, 1 }, .b = { 1, 1, 1, 3 }, .size = 1, .status = QG_ESHAPE,
      .says = "rprelu: x [1,5,4,3] and g [1,1,1,1], which is not [1,1,1,3]" },
    { .op = rprelu, IMAGE, .w = { 1, 1, 3, 1 }, .b = { 1, 1, 1, 3 }, .status = QG_ESHAPE,
      .says = "rprelu: x [1,5,4,3] and z [1,1,3,1], which is not [1,1,1,3]" },
    { .op = rprelu, IMAGE, .w = { 1, 1, 1, 3 }, .b = { 1, 1, 1, 2 }, .status = QG_ESHAPE,
      .says = "rprelu: x [1,5,4,3] and a [1,1,1,2], which is neither" },

    { .op = sum, IMAGE, .size = 0, .status = QG_EARG, .says = "sum: axes 0 are not a sum of QG_AXIS_N" },
    { .op = sum, IMAGE, .size = 16, .status = QG_EARG, .says = "sum: axes 16 are not" },
    { .op = mean_of, IMAGE, .size = -1, .status = QG_EARG, .says = "_C, x [1,5,4,3]" },
    { .op = mean_of, IMAGE, .size = 0, .status = QG_EARG, .says = "mean: axes 0 are not" },
    { .op = broadcast, IMAGE, .to = { 1, 5, 4, 6 }, .status = QG_ESHAPE,
      .says = "broadcast: x [1,5,4,3] does not spread over [1,5,4,6]" },
    { .op = broadcast, IMAGE, .to = { 0, 5, 4, 3 }, .status = QG_ESHAPE, .says = "over [0,5,4,3]: each extent" },
    { .op = broadcast, IMAGE, .to = { 2, 1, 4, 3 }, .status = QG_ESHAPE, .says = "over [2,1,4,3]: each extent" },
    { .op = broadcast, IMAGE, .to = { 2, 5, 1, 3 }, .status = QG_ESHAPE, .says = "over [2,5,1,3]: each extent" },
    { .op = concat, IMAGE, .w = { 1, 4, 4, 3 }, .size = 2, .status = QG_ESHAPE,
      .says = "concat: operands [1,5,4,3] and [1,4,4,3] differ in more than channels" },
    { .op = concat, IMAGE, .w = { 2, 5, 4, 3 }, .size = 3, .status = QG_ESHAPE, .says = "and [2,5,4,3] differ" },
    { .op = concat, IMAGE, .w = { 1, 5, 3, 3 }, .size = 2, .status = QG_ESHAPE, .says = "and [1,5,3,3] differ" },
    { .op = concat, IMAGE, .size = 0, .status = QG_EARG, .says = "concat: 0 operands, must be 1..8" },
    { .op = concat, IMAGE, .size = 9, .status = QG_EARG, .says = "concat: 9 operands, must be 1..8" },
    { .op = slice, IMAGE, .at = { .c = 3 }, .status = QG_ESHAPE,
      .says = "slice: [0,0,0,0] at [0,0,0,3] is not within x [1,5,4,3]" },
    { .op = slice, IMAGE, .at = { .c = 2 }, .to = { .c = 2 }, .status = QG_ESHAPE,
      .says = "slice: [0,0,0,2] at [0,0,0,2] is not within x [1,5,4,3]" },
    { .op = slice, IMAGE, .at = { .h = -1 }, .status = QG_ESHAPE, .says = "at [0,-1,0,0] is not within" },
    { .op = slice, IMAGE, .to = { .w = -1 }, .status = QG_ESHAPE, .says = "slice: [0,0,-1,0] at" },
    { .op = slice, IMAGE, .at = { .w = 1 }, .to = { .w = INT_MAX }, .status = QG_ESHAPE,
      .says = "slice: [0,0,2147483647,0] at" },
    { .op = slice, IMAGE, .at = { .n = 1 }, .status = QG_ESHAPE, .says = "at [1,0,0,0] is not within" },

    { .op = dropout, IMAGE, .lo = -0.1f, .status = QG_EARG, .says = "dropout: rate -0.1" },
    { .op = dropout, IMAGE, .lo = 1, .status = QG_EARG, .says = "dropout: rate 1" },
    { .op = dropout, IMAGE, .lo = 2, .status = QG_EARG, .says = "[1,5,4,3]" },
    { .op = dropout, IMAGE, .lo = NAN, .status = QG_EARG, .says = "dropout: rate nan" },

    { .op = maxpool, IMAGE, .pool = { 0 }, .status = QG_EARG, .says = "maxpool: size 0 is not in 1..4, x [1,5,4,3]" },
    { .op = maxpool, IMAGE, .pool = { .size = -1 }, .status = QG_EARG, .says = "maxpool: size -1 is not in 1..4, x [1,5,4,3]" },
    { .op = maxpool, IMAGE, .pool = { .size = 5 }, .status = QG_EARG, .says = "maxpool: size 5 is not in 1..4, x [1,5,4,3]" },
    { .op = maxpool, IMAGE, .pool = { .size = 100000 }, .status = QG_EARG, .says = "maxpool: size 100000 is not in 1..4" },
    { .op = avgpool, IMAGE, .pool = { 0 }, .status = QG_EARG, .says = "avgpool: size 0 is not in 1..4, x [1,5,4,3]" },
    { .op = avgpool, IMAGE, .pool = { .size = -1 }, .status = QG_EARG, .says = "avgpool: size -1 is not in 1..4, x [1,5,4,3]" },
    { .op = avgpool, IMAGE, .pool = { .size = 5 }, .status = QG_EARG, .says = "avgpool: size 5 is not in 1..4, x [1,5,4,3]" },
    { .op = avgpool, IMAGE, .pool = { .size = 100000 }, .status = QG_EARG, .says = "avgpool: size 100000 is not in 1..4" },
    { .op = maxpool, IMAGE, .pool = { .size = 7, .stride = 1, .pad = 1 }, .status = QG_EARG,
      .says = "maxpool: size 7 is not in 1..6, x [1,5,4,3] padded by 1" },
    { .op = maxpool, IMAGE, .pool = { .size = 3, .stride = -1, .pad = 1 }, .status = QG_EARG,
      .says = "maxpool: stride -1 must be at least 1 and padding 1 in 0..2, less than the size" },
    { .op = avgpool, IMAGE, .pool = { .size = 3, .stride = 2, .pad = 3 }, .status = QG_EARG,
      .says = "avgpool: stride 2 must be at least 1 and padding 3 in 0..2, less than the size" },
    { .op = avgpool, IMAGE, .pool = { .size = 3, .stride = 2, .pad = -1 }, .status = QG_EARG, .says = "padding -1 in 0..2" },
    { .op = avgpool, IMAGE, .pool = { .size = INT_MAX, .stride = 1, .pad = INT_MAX - 1 }, .status = QG_ESHAPE,
      .says = "avgpool: x [1,5,4,3] padded by 2147483646 is too large" },
    { .op = maxpool, IMAGE, .pool = { .size = 40001, .stride = 1, .pad = 40000 }, .status = QG_ESHAPE,
      .says = "maxpool: x [1,5,4,3] padded by 40000 is too large" },

    { .op = shortcut, IMAGE, .size = 0, .channels = 3, .status = QG_EARG,
      .says = "shortcut: stride 0 must be at least 1 and channels 3 at least those of x [1,5,4,3]" },
    { .op = shortcut, IMAGE, .size = -1, .channels = 3, .status = QG_EARG, .says = "shortcut: stride -1" },
    { .op = shortcut, IMAGE, .size = 1, .channels = 2, .status = QG_EARG,
      .says = "channels 2 at least those of x [1,5,4,3]" },

    { .op = dense, .x = { 2, 2, 2, 3 }, .w = { 4, 1, 1, 13 }, .status = QG_ESHAPE,
      .says = "dense: x [2,2,2,3] has rows of 12, w [4,1,1,13] of 13" },
    { .op = dense, .x = { 2, 2, 2, 3 }, .w = { 4, 1, 1, 12 }, .b = { 1, 1, 1, 3 }, .status = QG_ESHAPE,
      .says = "dense: w [4,1,1,12] has 4 outputs, b is [1,1,1,3]" },

    { .op = conv, IMAGE, .w = { 2, 3, 3, 2 }, .status = QG_ESHAPE,
      .says = "conv2d: x [1,5,4,3] has 3 channels, w [2,3,3,2] reads 2" },
    { .op = conv, .x = { 1, 5, 2, 3 }, .w = { 2, 3, 3, 3 }, .status = QG_ESHAPE,
      .says = "conv2d: x [1,5,2,3] padded by 0 and 0 is smaller than the kernel of w [2,3,3,3]" },
    { .op = conv, .x = { 1, 1, 4, 3 }, .w = { 2, 4, 3, 3 }, .conv = { .pad_h = 1, .pad_w = 2 }, .status = QG_ESHAPE,
      .says = "conv2d: x [1,1,4,3] padded by 1 and 2 is smaller than the kernel of w [2,4,3,3]" },
    { .op = conv, IMAGE, .w = { 2, 3, 3, 3 }, .b = { 1, 1, 1, 3 }, .status = QG_ESHAPE,
      .says = "conv2d: w [2,3,3,3] has 2 outputs, b is [1,1,1,3]" },
    { CONV, .conv = { .stride = -1 }, .status = QG_EARG,
      .says = "conv2d: stride -1 must be at least 1, padding 0 and 0 at least 0" },
    { CONV, .conv = { .pad_h = -2 }, .status = QG_EARG,
      .says = "conv2d: stride 1 must be at least 1, padding -2 and 0 at least 0" },
    { CONV, .conv = { .pad_w = -3 }, .status = QG_EARG, .says = "padding 0 and -3" },
    { CONV, .conv = { .pad_w = INT_MAX }, .status = QG_ESHAPE,
      .says = "conv2d: x [1,5,4,3] padded by 0 and 2147483647 is too large" },
    { CONV, .conv = { .pad_h = 40000, .pad_w = 40000 }, .status = QG_ESHAPE,
      .says = "padded by 40000 and 40000 is too large" },
    { CONV, .conv = { .pad_h = INT_MAX, .pad_w = INT_MAX }, .status = QG_ESHAPE,
      .says = "padded by 2147483647 and 2147483647 is too large" },

    { CONV, .conv = { .extra_w = INT_MAX }, .status = QG_ESHAPE, .says = "conv2d: x [1,5,4,3] padded by 0 and 0 is too large" },
    { CONV, .conv = { .extra_h = -1 }, .status = QG_EARG,
      .says = "conv2d: groups 1 must be at least 1, extra padding -1 and 0 at least 0" },
    { CONV, .conv = { .extra_w = -7 }, .status = QG_EARG, .says = "extra padding 0 and -7" },
    { CONV, .conv = { .groups = -2 }, .status = QG_EARG, .says = "conv2d: groups -2 must be at least 1" },
    { CONV, .conv = { .groups = 3 }, .status = QG_ESHAPE,
      .says = "conv2d: x [1,5,4,3] has 3 channels, w [2,3,3,3] reads 3 in each of 3 groups" },
    { CONV, .conv = { .groups = INT_MAX }, .status = QG_ESHAPE, .says = "reads 3 in each of 2147483647 groups" },
    { .op = conv, IMAGE, .w = { 4, 3, 3, 1 }, .conv = { .groups = 2 }, .status = QG_ESHAPE,
      .says = "conv2d: x [1,5,4,3] has 3 channels, w [4,3,3,1] reads 1 in each of 2 groups" },
    { .op = conv, IMAGE, .w = { 4, 3, 3, 1 }, .conv = { .groups = 3 }, .status = QG_ESHAPE,
      .says = "conv2d: w [4,3,3,1] has 4 outputs, which 3 groups do not divide" },
    { .op = conv, IMAGE, .w = { 3, 7, 3, 1 }, .conv = { .groups = 3 }, .status = QG_ESHAPE,
      .says = "conv2d: x [1,5,4,3] padded by 0 and 0 is smaller than the kernel of w [3,7,3,1]" },
    { .op = conv, IMAGE, .w = { 3, 3, 3, 1 }, .b = { 1, 1, 1, 2 }, .conv = { .groups = 3 }, .status = QG_ESHAPE,
      .says = "conv2d: w [3,3,3,1] has 3 outputs, b is [1,1,1,2]" },

    { .op = norm, .x = { 2, 3, 4, 3 }, .w = { 1, 1, 1, 4 }, .norm = { STATS }, .status = QG_ESHAPE,
      .says = "norm: x [2,3,4,3] has 3 channels, gamma is [1,1,1,4]" },
    { .op = norm, .x = { 2, 3, 4, 3 }, .b = { 1, 1, 1, 2 }, .norm = { STATS }, .status = QG_ESHAPE,
      .says = "norm: x [2,3,4,3] has 3 channels, beta is [1,1,1,2]" },
    { NORM, .norm = { .var = var }, .status = QG_EARG, .says = "norm: running mean and var are required" },
    { NORM, .norm = { .mean = mean }, .status = QG_EARG, .says = "norm: running mean and var are required" },
    { FUSED, .norm = { STATS }, .with = { .pool = -1 }, .status = QG_EARG, .says = "norm: pool is -1, not 0..15" },
    { FUSED, .norm = { STATS }, .with = { .pool = 16 }, .status = QG_EARG, .says = "norm: pool is 16, not 0..15" },
    { FUSED, .norm = { STATS }, .with = { .pool = 4 }, .status = QG_ESHAPE,
      .says = "norm: x [2,3,4,3] is smaller than its 4x4 window" },
    { NORM, .norm = { STATS, .eps = -1 }, .status = QG_EARG, .says = "norm: eps is -1, must be 0 (for 1e-5) or more" },
    { NORM, .norm = { STATS, .eps = INFINITY }, .status = QG_EARG, .says = "norm: eps is inf, must be 0" },
    { NORM, .norm = { STATS, .eps = NAN }, .status = QG_EARG, .says = "norm: eps is nan, must be 0 (for 1e-5) or more" },
    { NORM, .norm = { STATS, .momentum = 1.5f }, .status = QG_EARG, .says = "norm: momentum is 1.5, not in 0..1" },
    { NORM, .norm = { STATS, .momentum = -0.5f }, .status = QG_EARG, .says = "norm: momentum is -0.5, not in 0..1" },
    { FUSED, .norm = { STATS }, .with = { .act = { .n_learned = 4 } }, .status = QG_EARG,
      .says = "norm: the activation learns 4 values, not 0..3" },
    { FUSED, .norm = { STATS }, .with = { .act = { .n_learned = -1 } }, .status = QG_EARG,
      .says = "norm: the activation learns -1 values, not 0..3" },
    { .op = norm_add, .x = { 2, 3, 4, 3 }, .w = { 2, 4, 4, 3 }, .norm = { STATS }, .status = QG_ESHAPE,
      .says = "norm: add [2,4,4,3] must have the shape of x [2,3,4,3]" },
    { .op = norm_add, .x = { 2, 3, 4, 3 }, .w = { 2, 3, 4, 3 }, .norm = { STATS }, .with = { .pool = 2 }, .status = QG_ESHAPE,
      .says = "norm: add [2,3,4,3] must have the shape of x [2,3,4,3] and no pooling, pool is 2" },

    { .op = entropy, SCORES, .labels = labels, .status = QG_EARG,
      .says = "cross_entropy: label 4 at index 2 is not in 0..3, x [3,1,1,4]" },
    { .op = hinge, SCORES, .labels = labels, .status = QG_EARG,
      .says = "squared_hinge: label 4 at index 2 is not in 0..3, x [3,1,1,4]" },
    { .op = entropy, SCORES, .status = QG_EARG, .says = "cross_entropy: labels are NULL, x [3,1,1,4]" },
    { .op = hinge, SCORES, .status = QG_EARG, .says = "squared_hinge: labels are NULL, x [3,1,1,4]" },
    { .op = smoothed, SCORES, .labels = labels, .lo = 1, .status = QG_EARG,
      .says = "cross_entropy: smoothing 1 is not in [0, 1), x [3,1,1,4]" },
    { .op = smoothed, SCORES, .labels = labels, .lo = -0.1f, .status = QG_EARG, .says = "smoothing -0.1 is not" },
    { .op = smoothed, SCORES, .labels = labels, .lo = NAN, .status = QG_EARG, .says = "smoothing nan is not" },
    { .op = smoothed, SCORES, .labels = labels, .lo = 0.1f, .status = QG_EARG,
      .says = "cross_entropy: label 4 at index 2 is not in 0..3, x [3,1,1,4]" },
    { .op = mse, .x = { 2, 2, 1, 3 }, .w = { 2, 1, 2, 3 }, .status = QG_ESHAPE,
      .says = "mse: x [2,2,1,3] and z [2,1,2,3] differ" },
    { .op = kl, SCORES, .w = { 3, 1, 1, 5 }, .lo = 1, .status = QG_ESHAPE,
      .says = "kl: x [3,1,1,4] and z [3,1,1,5] differ" },
    { .op = kl, .x = { 2, 3, 1, 2 }, .w = { 2, 3, 1, 2 }, .lo = 1, .status = QG_ESHAPE,
      .says = "kl: x [2,3,1,2] has scores at 3 x 1" PLACES },
    { .op = kl, SCORES, .w = { 3, 1, 1, 4 }, .status = QG_EARG,
      .says = "kl: temperature 0 must be positive and finite, x [3,1,1,4]" },
    { .op = kl, SCORES, .w = { 3, 1, 1, 4 }, .lo = -2, .status = QG_EARG, .says = "kl: temperature -2 must" },
    { .op = kl, SCORES, .w = { 3, 1, 1, 4 }, .lo = INFINITY, .status = QG_EARG, .says = "kl: temperature inf must" },
    { .op = kl, SCORES, .w = { 3, 1, 1, 4 }, .lo = NAN, .status = QG_EARG, .says = "kl: temperature nan must" },
    /* Where pooling was forgotten there would be more classes, none of which any label means. */
    { .op = entropy, .x = { 2, 3, 1, 2 }, .labels = labels, .status = QG_ESHAPE,
      .says = "cross_entropy: x [2,3,1,2] has scores at 3 x 1" PLACES },
    { .op = hinge, .x = { 2, 1, 3, 2 }, .labels = labels, .status = QG_ESHAPE,
      .says = "squared_hinge: x [2,1,3,2] has scores at 1 x 3" PLACES },
    { .op = hinge, .x = { 2, 6, 6, 3 }, .labels = labels, .status = QG_ESHAPE,
      .says = "squared_hinge: x [2,6,6,3] has scores at 6 x 6" PLACES },
    { .op = entropy, .x = { 2, 6, 6, 3 }, .labels = labels, .status = QG_ESHAPE,
      .says = "cross_entropy: x [2,6,6,3] has scores at 6 x 6" PLACES },
};

static qg_var *operand(qg_tape *t, qg_shape s)
{
    static float data[DATA];
    assert_true(qg_count(s) <= DATA);
    return s.n ? qg_input(t, (qg_tensor){ s, data }) : NULL;
}

static void ops_name_what_they_refuse(void **state)
{
    qg_tape *t = qg_tape_new();
    for (int i = 0; i < 2 * COUNT(refusals); i++) {
        const refusal *r = &refusals[i / 2];
        qg_tape_begin(t, i % 2 ? QG_EVAL : QG_TRAIN, 1, 0);
        qg_var *x = operand(t, r->x), *w = operand(t, r->w), *b = operand(t, r->b);
        if (r->op(t, r, NULL, w, b) || qg_tape_status(t)) fail_msg("%s: x is NULL: %s", r->says, qg_errmsg());
        if (r->op(t, r, x, w, b) || qg_tape_status(t) != r->status || !strstr(qg_errmsg(), r->says))
            fail_msg("%s: status %d: %s", r->says, (int)qg_tape_status(t), qg_errmsg());
    }
    qg_tape_free(t);
}

static void a_missing_operand_is_no_failure(void **state)
{
    qg_tape *t = qg_tape_new();
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    qg_var *x = operand(t, (qg_shape){ 1, 5, 4, 3 });
    assert_null(qg_bias(t, x, NULL));
    assert_null(qg_dense(t, x, NULL, NULL));
    assert_null(qg_conv2d(t, x, NULL, NULL, (qg_conv_spec){ 0 }));
    assert_null(qg_relu(t, NULL));
    assert_null(qg_hardtanh(t, NULL));
    assert_null(qg_scale(t, NULL, 2));
    assert_null(qg_sigmoid(t, NULL));
    assert_null(qg_tanh(t, NULL));
    assert_null(qg_softmax(t, NULL));
    assert_null(qg_sub(t, x, NULL));
    assert_null(qg_mul(t, x, NULL));
    assert_null(qg_mse(t, x, NULL));
    assert_null(qg_kl(t, x, NULL, 0));
    assert_null(qg_prelu(t, x, NULL));
    assert_null(qg_rprelu(t, x, NULL, x, NULL));
    assert_null(qg_concat(t, 2, (qg_var *[]){ x, NULL }));
    assert_null(qg_affine(t, NULL, 2, 1));
    assert_null(qg_maxpool(t, NULL, 0));
    assert_null(qg_avgpool(t, NULL, 0));
    assert_null(qg_global_avgpool(t, NULL));
    assert_ok(qg_tape_status(t));
    qg_tape_free(t);
}

/* They are refused before their values are read. */
static void inputs_that_are_too_large_are_refused(void **state)
{
    const struct { qg_shape x; const char *says; } bad[] = {
        { { 1, 1 << 15, 1 << 15, 2 }, "input: [1,32768,32768,2] has more than 2147483647 numbers in an image" },
        { { 1 << 16, 1 << 15, 1, 1 }, "input: [65536,32768,1,1] has more than 2147483647 rows in all" },
    };
    qg_tape *t = qg_tape_new();
    for (int i = 0; i < COUNT(bad); i++) {
        qg_tape_begin(t, QG_TRAIN, 1, 0);
        assert_null(qg_input(t, (qg_tensor){ bad[i].x, mean }));
        assert_failed(qg_tape_status(t), QG_ESHAPE, bad[i].says);
    }
    qg_tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_name_what_they_refuse),
        cmocka_unit_test(a_missing_operand_is_no_failure),
        cmocka_unit_test(inputs_that_are_too_large_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
