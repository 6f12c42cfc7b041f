/* core/gradcheck.h — is a derivative the derivative of what was computed?
 *
 * For the author of an op or a layer.  A check is a spec, so that many of them stand in
 * a table; its outcome is a struct, and nothing is printed.
 *
 *     static qg_var *build(qg_tape *t, const qg_params *p, void *context)
 *     {
 *         (void)context;
 *         return qg_add(t, qg_parameter(t, p->item[0]), qg_parameter(t, p->item[1]));
 *     }
 *     qg_gradcheck_result r;
 *     if (qg_gradcheck((qg_gradcheck_spec){ .name = "add", .params = &p, .build = build }, &r)) ...
 *     if (!r.pass) printf("%s: %s is off by %g\n", r.name, r.worst, r.error);
 */
#ifndef QG_GRADCHECK_H
#define QG_GRADCHECK_H

#include "core/tape.h"

typedef struct qg_gradcheck_spec {
    const char *name;       /* for messages and the result */
    qg_params  *params;     /* allocated and filled; checked if trained and not frozen */
    qg_var   *(*build)(qg_tape *t, const qg_params *p, void *context);     /* of any shape */
    qg_var   *(*surrogate)(qg_tape *t, const qg_params *p, void *context); /* NULL: build */
    void       *context;    /* handed to both */
    float       h;          /* 0: 1/64; how far a value moves */
    float       tolerance;  /* 0: 1e-3 */
    const char *reason;     /* why the tolerance is what it is; NULL: the default's */
    int         directions; /* per parameter; 0: 6 */
    uint64_t    key;        /* of directions and weights, and of the tape on which build draws */
} qg_gradcheck_spec;

typedef struct qg_gradcheck_result {
    const char *name;
    double      error;      /* the largest relative error */
    double      tolerance;  /* what it was compared with */
    const char *reason;     /* never NULL */
    char        worst[64];  /* the name of the parameter with that error, cut if need be */
    double      least;      /* the smallest |dL/dp| of what was checked; 0: a check of nothing */
    bool        pass;       /* error <= tolerance; false for a NaN */
} qg_gradcheck_result;

/* Compares dL/dp, p each parameter in turn, with central differences in random directions.
 *     L    = sum of r[i] y[i],  y what build returns, r keyed and +-1, summed in double
 *     D(h) = (L(p + h d) - L(p - h d)) / 2h,   d[j] = +-1, keyed
 *     D    = (4 D(h) - D(2h)) / 3
 *     error = |dL/dp . d - D| / max(|dL/dp|, |D|, |dL/d(all p)| / 1024)
 * With a surrogate, L(p +- h d) is computed from what that returns, of the same shape: for a
 * step function, the smooth function whose slopes its backward declares, all rounding errors held where
 * they were.  It needs no backward of its own.
 * |v| of a vector is its Euclidean length, which is what v . d is for an average d.  The memory of
 * the tape holds NaN when the gradient is taken, so what an op leaves unwritten shows.
 *
 * Range    build is called once per evaluation, on a step begun in QG_TRAIN with the same key and
 *          number each time, so dropout draws the same.  It must be smooth where it is looked at:
 *          the caller keeps every value further than 2h from a kink (relu at 0), and values that
 *          compete for a maximum further than 4h from each other.
 * Memory   Values, and tracked arrays that build updates, end as they were; gradients end at 0.
 *          result is written when the check could be made, that is when QG_OK is returned.
 * Fails    QG_EARG (spec), QG_ESTATE (params not allocated, or none is trained), what build fails
 *          with, QG_EMEM.  A wrong gradient is no failure: look at pass. */
QG_MUST_CHECK
qg_status qg_gradcheck(qg_gradcheck_spec spec, qg_gradcheck_result *result);

typedef struct qg_slopecheck_spec {
    const char *name;
    qg_var   *(*op)(qg_tape *t, qg_var *x, void *context);      /* elementwise, same shape */
    double    (*surrogate)(double x, void *context);            /* s, as its author declares it */
    void       *context;    /* handed to both */
    float       lo, hi;     /* where to look; lo < hi */
    int         points;     /* 0: 1021 */
    float       tolerance;  /* 0: 1e-5 */
    const char *reason;     /* NULL: the default's */
    uint64_t    key;
} qg_slopecheck_spec;

/* Compares the pretended gradient of an elementwise op with the slope of its surrogate s.
 *     dL/dx[i] against r[i] s'(x[i]),   s' by central differences in double, r keyed in 1/2..3/2
 *     error = largest |difference| / max(1, largest |r s'|)
 * x is one keyed point in each of `points` equal parts of lo..hi, and is the parameter "x" of shape
 * [1,1,1,points].  A jump or kink of s is legal: no point falls within 1e-6 of it but by accident.
 * Fails: QG_EARG (spec), QG_ESHAPE (op returns another shape), what op fails with, QG_EMEM. */
QG_MUST_CHECK
qg_status qg_slopecheck(qg_slopecheck_spec spec, qg_gradcheck_result *result);

#endif
