/* core/gradcheck.h — checks whether a gradient is the derivative of what was computed.
 *
 * For authors of ops and layers.  A check is a spec, so a table can hold many checks.  The result
 * is a struct; nothing is printed.
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
    qg_params  *params;     /* allocated and filled; checks those trained and not frozen */
    qg_var   *(*build)(qg_tape *t, const qg_params *p, void *context);     /* of any shape */
    qg_var   *(*surrogate)(qg_tape *t, const qg_params *p, void *context); /* NULL: build */
    void       *context;    /* passed to both */
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
    double      least;      /* the smallest |dL/dp| of the parameters; 0: one of the checks was vacuous */
    bool        pass;       /* error <= tolerance; false if error is NaN */
} qg_gradcheck_result;

/* Compare dL/dp, p each parameter in turn, with central differences in random directions.
 *     L    = sum of r[i] y[i],  y what build returns, r keyed and +-1, summed in double
 *     D(h) = (L(p + h d) - L(p - h d)) / 2h,   d[j] = +-1, keyed
 *     D    = (4 D(h) - D(2h)) / 3
 *     error = |dL/dp . d - D| / max(|dL/dp|, |D|, |dL/d(all p)| / 1024)
 * With a surrogate, L(p +- h d) is computed from its result, which has the same shape.  For a step function
 * that is the smooth function whose slopes its backward declares, with all rounding errors held constant.  The
 * surrogate needs no backward of its own.
 * |v| of a vector is its Euclidean length, the size of v . d for an average d.  The tape's memory is filled
 * with NaN before the gradient is taken, so that anything an op leaves unwritten shows.
 *
 * Range    build is called once per evaluation, on a step begun in QG_TRAIN with the same key and number, and
 *          tracked arrays as they were: dropout draws the same each time, and no running mean drifts.
 *          The function must be smooth near p: keep every value further than 2h from a kink (relu at 0), and
 *          values that compete for a maximum further than 4h apart.
 * Memory   Values, and tracked arrays that build updates, are restored; gradients are 0 afterwards.
 *          *result is written if QG_OK is returned.
 * Fails    QG_EARG (spec), QG_ESTATE (params not allocated, or none is trained), the failure of build,
 *          QG_EMEM.  A wrong gradient is not a failure: see result->pass. */
QG_MUST_CHECK
qg_status qg_gradcheck(qg_gradcheck_spec spec, qg_gradcheck_result *result);

typedef struct qg_slopecheck_spec {
    const char *name;
    qg_var   *(*op)(qg_tape *t, qg_var *x, void *context);      /* elementwise, same shape */
    double    (*surrogate)(double x, void *context);            /* s, as its author declares it */
    void       *context;    /* passed to both */
    float       lo, hi;     /* the interval; lo < hi */
    int         points;     /* 0: 1021 */
    float       tolerance;  /* 0: 1e-5 */
    const char *reason;     /* NULL: the default's */
    uint64_t    key;
} qg_slopecheck_spec;

/* Compare the declared gradient of an elementwise op with the slope of its surrogate s.
 *     dL/dx[i] against r[i] s'(x[i]),   s' by central differences in double, r keyed in 1/2..3/2
 *     error = largest |difference| / max(1, largest |r s'|)
 * x is one keyed point in each of `points` equal parts of lo..hi, and is the parameter "x" of shape
 * [1,1,1,points].  s may have jumps and kinks: a point falls within 1e-6 of one only by accident.
 * Fails: QG_EARG (spec), QG_ESHAPE (op returns another shape), the failure of op, QG_EMEM. */
QG_MUST_CHECK
qg_status qg_slopecheck(qg_slopecheck_spec spec, qg_gradcheck_result *result);

#endif
