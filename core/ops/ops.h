/* core/ops/ops.h — the differentiable operations.
 *
 * x, z, w, b and the result are vars on the same tape; an op that is given NULL returns NULL.  Each op checks
 * its shapes; the message names the op and prints both.  Sizes are n h w c for x and oh ow oc for the result.
 */
#ifndef QG_OPS_H
#define QG_OPS_H

#include "core/kernels/cpu.h"
#include "core/tape.h"

/* --- products ----------------------------------------------------------------------------- */

typedef struct qg_conv_spec {
    int   stride;           /* 0: 1; down and across */
    int   pad_h, pad_w;     /* rows above and below, columns left and right */
    int   extra_h, extra_w; /* more rows below, more columns on the right: TensorFlow's "same" may need one */
    float pad_value;        /* what lies there: 0, or a value that x may have, such as +1 */
    int   groups;           /* 0: 1; each reads its own c / groups channels of x.  c groups: depthwise */
} qg_conv_spec;

/* Cross-correlation (the kernel is not flipped), as every framework's conv2d.
 *     y[n,i,j,o] = b[o] + sum over p,q,k of w[o,p,q,k] x[n, i stride + p - pad_h, j stride + q - pad_w, g(o) + k]
 * where g(o) = o / (oc / groups) (c / groups), the first channel of the group of output o, is 0 without groups.
 *
 * Shapes   x [n,h,w,c], w [oc,kh,kw,c / groups], b [1,1,1,oc] or NULL, result [n,oh,ow,oc]; groups divides c and oc;
 *          oh = (h + 2 pad_h + extra_h - kh) / stride + 1, rounded down; ow likewise.
 * Fails    QG_ESHAPE, QG_EARG (stride, padding, groups). */
qg_var *qg_conv2d(qg_tape *t, qg_var *x, qg_var *w, qg_var *b, qg_conv_spec spec);

/*     y[n,o] = b[o] + sum over k of w[o,k] x[n,k]
 *
 * Shapes   x [n,h,w,c], read as n rows of k = h w c numbers; w [o,..], k numbers each; b [1,1,1,o] or NULL;
 *          result [n,1,1,o].
 * Fails    QG_ESHAPE. */
qg_var *qg_dense(qg_tape *t, qg_var *x, qg_var *w, qg_var *b);

/* --- elementwise -------------------------------------------------------------------------- */

qg_var *qg_add(qg_tape *t, qg_var *x, qg_var *z);             /* x + z              same shapes */
qg_var *qg_sub(qg_tape *t, qg_var *x, qg_var *z);             /* x - z              same shapes */
qg_var *qg_mul(qg_tape *t, qg_var *x, qg_var *z);             /* x z                same shapes; see qg_broadcast */
qg_var *qg_scale(qg_tape *t, qg_var *x, float a);             /* a x                any */
qg_var *qg_affine(qg_tape *t, qg_var *x, float a, float b);   /* a x + b, rounded twice     any */
qg_var *qg_bias(qg_tape *t, qg_var *x, qg_var *b);            /* x + b[c]           b [1,1,1,c] */
qg_var *qg_relu(qg_tape *t, qg_var *x);                       /* max(x, 0)          any; slope 0 at 0 */
qg_var *qg_clip(qg_tape *t, qg_var *x, float lo, float hi);   /* min(max(x,lo),hi)  lo < hi; slope 1 at both */
qg_var *qg_hardtanh(qg_tape *t, qg_var *x);                   /* clip to [-1, 1] */
qg_var *qg_sigmoid(qg_tape *t, qg_var *x);                    /* 1 / (1 + exp(-x))  any */
qg_var *qg_tanh(qg_tape *t, qg_var *x);                       /* tanh(x)            any */
qg_var *qg_dropout(qg_tape *t, qg_var *x, float rate);        /* QG_TRAIN: 0 with probability rate, else
                                                                 x / (1 - rate); otherwise x.  0 <= rate < 1 */

/* Relu with a learned slope below 0, and the same between two learned shifts.
 *     prelu    y = u where u > 0, else a u;  u = x
 *     rprelu   y = the same + z;             u = x - g
 * a is [1,1,1,c], or [1,1,1,1]: one slope for all channels.  g and z are [1,1,1,c].  At u = 0 the slope is a.
 * Fails: QG_ESHAPE.     [He et al. 2015, arXiv:1502.01852v1, eq. 1; Liu et al. 2020, arXiv:2003.03488v2, sec. 4.2] */
qg_var *qg_prelu(qg_tape *t, qg_var *x, qg_var *a);
qg_var *qg_rprelu(qg_tape *t, qg_var *x, qg_var *g, qg_var *a, qg_var *z);

/* Over the channels of each pixel:  y[n,i,j,k] = exp(x[n,i,j,k]) / sum over o of exp(x[n,i,j,o]), without overflow.
 * A loss that takes scores needs no softmax before it. */
qg_var *qg_softmax(qg_tape *t, qg_var *x);

/* --- axes --------------------------------------------------------------------------------- */

/* Axes to sum over: QG_AXIS_H | QG_AXIS_W. */
enum { QG_AXIS_N = 1, QG_AXIS_H = 2, QG_AXIS_W = 4, QG_AXIS_C = 8, QG_AXES = 15 };

/* The sum and the mean over some axes, whose extent becomes 1; over QG_AXES they are scalars.  Sums are in double and
 * rounded once.  Fails: QG_EARG (axes is 0 or not a sum of the above). */
qg_var *qg_sum(qg_tape *t, qg_var *x, unsigned axes);
qg_var *qg_mean(qg_tape *t, qg_var *x, unsigned axes);

/* Repeats x along the axes where its extent is 1 and that of y is not.  Scales of each channel of each image, for
 * instance: qg_mul(t, x, qg_broadcast(t, s, x->shape)) with s [n,1,1,c].  Fails: QG_ESHAPE. */
qg_var *qg_broadcast(qg_tape *t, qg_var *x, qg_shape y);

/* The channels of x[0], then those of x[1], ..  count 1..QG_OPERANDS; n, h and w must be equal.
 * Fails: QG_ESHAPE, QG_EARG (count). */
qg_var *qg_concat(qg_tape *t, int count, qg_var *const *x);

/* A part of x:  y[n,i,j,k] = x[n + at.n, i + at.h, j + at.w, k + at.c], of the given size; a size of 0 means all that
 * follows.  Channels 8 to 15: qg_slice(t, x, (qg_shape){ .c = 8 }, (qg_shape){ .c = 8 }).
 * Fails: QG_ESHAPE (not within x). */
qg_var *qg_slice(qg_tape *t, qg_var *x, qg_shape at, qg_shape size);

/* --- pooling ------------------------------------------------------------------------------ */

typedef struct qg_pool_spec {
    int  size;              /* of the square window; required */
    int  stride;            /* 0: size.  With less, windows overlap; with more, they skip pixels */
    int  pad;               /* pixels on each side, less than size */
    bool exclude_pad;       /* a mean is that of the pixels of x in its window, as in TensorFlow */
} qg_pool_spec;

/* The maximum and the mean over square windows.
 *     y[n,i,j,k] = max or mean over p,q of x[n, i stride + p - pad, j stride + q - pad, k],   p, q in 0..size - 1
 * The padding is never a maximum.  In a mean it counts as zeros, as PyTorch's count_include_pad does, unless
 * exclude_pad is set.  The first of equal maxima, row by row, gets the gradient.
 *
 * Shapes   x [n,h,w,c], result [n,oh,ow,c];  oh = (h + 2 pad - size) / stride + 1, rounded down; ow likewise.
 * Fails    QG_EARG (size, stride, padding), QG_ESHAPE. */
qg_var *qg_maxpool_with(qg_tape *t, qg_var *x, qg_pool_spec spec);
qg_var *qg_avgpool_with(qg_tape *t, qg_var *x, qg_pool_spec spec);
qg_var *qg_maxpool(qg_tape *t, qg_var *x, int size);          /* windows side by side: { .size = size } */
qg_var *qg_avgpool(qg_tape *t, qg_var *x, int size);
qg_var *qg_global_avgpool(qg_tape *t, qg_var *x);             /* [n,h,w,c] -> [n,1,1,c] */

/* Every stride-th pixel down and across, with zero channels added evenly before the first and after the last.
 *     y[n,i,j,k] = x[n, i stride, j stride, k - (channels - c) / 2], 0 where there is no such channel
 * x [n,h,w,c] -> [n, (h - 1) / stride + 1, (w - 1) / stride + 1, channels], channels >= c.
 *                               [He et al. 2015, arXiv:1512.03385v1, sec. 3.3, shortcut A] */
qg_var *qg_shortcut(qg_tape *t, qg_var *x, int stride, int channels);

/* A copy of x in shape y, which has as many numbers per image; the result has the n of x, and y.n is ignored.
 * Fails: QG_ESHAPE. */
qg_var *qg_reshape(qg_tape *t, qg_var *x, qg_shape y);

/* --- batch norm, and what is fused with it ------------------------------------------------- */

typedef struct qg_norm_spec {
    float *mean, *var;      /* running statistics [c]: updated in QG_TRAIN and QG_ESTIMATE, used in QG_EVAL */
    float  momentum;        /* 0: 0.1;  running += momentum (batch - running);  0..1 */
    float  eps;             /* 0: 1e-5;  finite, not negative */
    bool   frozen;          /* every mode uses the running statistics and does not change them */
    bool   per_rank;        /* a rank (core/dist/ranks.h) uses the statistics of its own images of a batch, and waits for no
                               other one; see below */
} qg_norm_spec;

/* Batch normalisation over n h w.
 *     y = gamma (x - mean) / sqrt(var + eps) + beta
 * gamma, beta [1,1,1,c]; NULL means 1 and 0.  mean and var are those of the batch in QG_TRAIN and QG_ESTIMATE (the
 * running variance is tracked unbiased, m / (m - 1) with m = n h w) and the running ones in
 * QG_EVAL, where y is rounded as fl(fl(a x) + b), with a = gamma / sqrt(var + eps) and b = beta - mean a rounded once
 * each, on every instruction set.  With m = 1 the variance of the batch is 0: y = beta, and the gradient
 * of x is 0 but for a rounding.
 *
 * With per_rank, mean, var and m are those of the images of a rank, so results depend on the number of ranks.  The running
 * statistics are the same on all ranks: they follow the mean over the ranks, weighted by their images, of mean and unbiased
 * variance, which arrive together with the gradients of gamma and beta in qg_backward.  If x and gamma and beta need no gradient,
 * the ranks exchange them at once.
 * Fails: QG_ESHAPE, QG_EARG.                          [Ioffe, Szegedy 2015, arXiv:1502.03167v3] */
qg_var *qg_norm(qg_tape *t, qg_var *x, qg_var *gamma, qg_var *beta, qg_norm_spec spec);

/* An elementwise function that qg_norm_fused applies in the same pass.  core knows it only by these two functions,
 * which the caller supplies.  Both are called on runs of any length n. */
typedef struct qg_activation qg_activation;
struct qg_activation {
    void (*forward)(const qg_activation *f, size_t n, const float *x, float *y);    /* y[i] = f(x[i]) */
    /* dx[i] = dy[i] f'(x[i]);  dk[j] += sum of dy[i] df/dlearned[j] at x[i], divided by gain[j].  dx may be dy; dk is
     * NULL when nothing is learned. */
    void (*backward)(const qg_activation *f, size_t n, const float *x, const float *dy, float *dx,
                     double *dk);
    float   k[10];          /* data of both functions: constants, current values of what is learned */
    void  (*slope)(float arg, size_t n, const float *x, const float *dy, float *dx);
                            /* for use by backward: dx[i] += dy[i] s'(x[i]) of a surrogate s */
    float   arg;            /* the argument of slope */
    int     n_learned;      /* learned[j] has one element; its gradient is gain[j] dk[j] */
    qg_var *learned[3];
    float   gain[3];        /* 0: 1 */
    qg_isa  isa;            /* for use by both functions: the result of qg__isa, queried once */
    const void *of;         /* data of both functions: the object that supplies them */
};                          /* {0}: none */

enum { QG_NORM_POOL = 15 };     /* the largest window of qg_norm_fused, which keeps an index in a byte */

/* What follows a norm, in this order; {0}: nothing. */
typedef struct qg_norm_fusion {
    int           pool;         /* 0: none; else the maximum over pool x pool, at most QG_NORM_POOL */
    qg_var       *add;          /* [n,h,w,c] added: the shortcut of a residual block; not with pool */
    bool          relu;         /* then max(z, 0) */
    qg_activation act;          /* then this.  It must never decrease, as relu, so that both commute with the maximum */
} qg_norm_fusion;

/* qg_norm and what follows it, in one pass: y = act(relu(max over the window of z + add)), z the result of qg_norm.  Nets of
 * layers choose it where it fits.
 *
 * Shapes   result [n,h / pool,w / pool,c], rounded down.
 * Fails    as qg_norm; QG_EARG, QG_ESHAPE: pool or add does not fit. */
qg_var *qg_norm_fused(qg_tape *t, qg_var *x, qg_var *gamma, qg_var *beta, qg_norm_spec spec, qg_norm_fusion with);

/* Batch normalisation as arithmetic on the product before it, so that the scaled weight can be changed (rounded
 * to integers, for instance) before it is multiplied.  With z = product(x, w), s = sqrt(var + eps) of the running
 * statistics and B those of the batch, norm(z) is
 *     product(x, fold_weight(w)) + fold_bias                                   QG_EVAL, or frozen
 *     fold_correct(product(x, fold_weight(w)), z)                              otherwise
 * to rounding.  The weight is always folded with the running s, so that it does not jitter from batch
 * to batch; fold_correct takes s out again, s / sB.  spec: mean, var, momentum and eps; gamma NULL
 * means 1.  Fails: QG_ESHAPE, QG_EARG.           [Krishnamoorthi 2018, arXiv:1806.08342v1, sec. 3.2] */
qg_var *qg_fold_weight(qg_tape *t, qg_var *w, qg_var *gamma, qg_norm_spec spec);
                                        /* w[o,..] gamma[o] / s[o]             w [o,..], gamma [1,1,1,o] */
qg_var *qg_fold_bias(qg_tape *t, qg_var *gamma, qg_var *beta, qg_norm_spec spec);
                                        /* beta - gamma mean / s               [1,1,1,c] */
qg_var *qg_fold_correct(qg_tape *t, qg_var *y, qg_var *z, qg_var *gamma, qg_var *beta, qg_norm_spec spec);
                                        /* y s / sB + beta - gamma meanB / sB  y, z same shape; updates
                                           mean and var as qg_norm does */

/* Not ops: the shape of the result of qg_conv2d and qg_dense.  If the operands do not fit, the step fails and n is 0. */
qg_shape qg__conv2d_shape(qg_tape *t, const qg_var *x, const qg_var *w, const qg_var *b, qg_conv_spec spec);
qg_shape qg__dense_shape(qg_tape *t, const qg_var *x, const qg_var *w, const qg_var *b);

/* Not an op: channel k of qg_norm in QG_EVAL is z = a x + b, here before a and b are rounded; gamma and beta NULL mean 1
 * and 0. */
void   qg__norm_line(qg_norm_spec spec, const float *gamma, const float *beta, size_t k, double *a, double *b);

/* Not an op: gamma[k] / s[k], to fold a weight without a tape; gamma NULL means 1. */
float  qg__fold_factor(qg_norm_spec spec, const float *gamma, size_t k);

/* --- losses ------------------------------------------------------------------------------- */

/* Shapes   x [n,1,1,classes], labels [n], result [1,1,1,1].
 * Range    Each label is below classes.
 * Fails    QG_ESHAPE: x is a map of scores; pool it or make it one row first (a dense layer, qg_reshape).
 *          QG_EARG: a label is out of range; the message names its index. */
qg_var *qg_cross_entropy(qg_tape *t, qg_var *x, const uint16_t *labels);   /* mean of -log softmax(x)[label] */
qg_var *qg_squared_hinge(qg_tape *t, qg_var *x, const uint16_t *labels);   /* mean over n and classes of
                                                                             max(0, 1 - s x)^2, s = +-1 */

/* Cross entropy with smoothed labels: the target is 1 - smoothing at the label, plus smoothing / classes everywhere.
 *     mean over n of the sum over k of -target[k] log softmax(x)[k]
 * Without smoothing it has the bits of qg_cross_entropy.  Fails: also QG_EARG (smoothing).
 *                                                       [Szegedy et al. 2015, arXiv:1512.00567v3, sec. 7] */
typedef struct qg_cross_entropy_spec {
    float smoothing;        /* 0 <= smoothing < 1 */
} qg_cross_entropy_spec;
qg_var *qg_cross_entropy_with(qg_tape *t, qg_var *x, const uint16_t *labels, qg_cross_entropy_spec spec);

/* The divergence of x from soft targets z, both rows of scores [n,1,1,classes]; T is the temperature.
 *     mean over n of T^2 times the sum over k of p[k] (log p[k] - log q[k]),   p = softmax(z / T), q = softmax(x / T)
 * The factor T^2 keeps gradients about as large as those of labels, whatever T is.  z also receives a gradient unless
 * it is a qg_input, as a teacher's scores should be.  If the targets are probabilities, pass their logarithms
 * (-inf for 0).  Differs: PyTorch's kl_div has no T and reads log q and p.
 *
 * Fails    QG_ESHAPE; QG_EARG: temperature is not positive and finite.
 * Paper    Hinton, Vinyals, Dean 2015, arXiv:1503.02531v1, sec. 2; with T^2 as there, and the entropy of p
 *          subtracted, so that equal scores give 0. */
qg_var *qg_kl(qg_tape *t, qg_var *x, qg_var *z, float temperature);

/* The mean of (x - z)^2 over all numbers.  x and z have the same shape, any.  Fails: QG_ESHAPE. */
qg_var *qg_mse(qg_tape *t, qg_var *x, qg_var *z);

/* Not an op: the number of rows of x [n,1,1,classes] whose largest score (the first of equals) is at the label.  If ranks
 * share the batch, those of all of it; labels are those of the rows that are here. */
int     qg_count_correct(const qg_var *x, const uint16_t *labels);

#endif
