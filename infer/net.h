/* infer/net.h — a loaded net (internal).
 *
 * All of it is in the memory that the caller of qg_infer_load gave: the net, its steps, their numbers,
 * tables, weights and texts.  After load it is constant.
 */
#ifndef QG_INFER_NET_H
#define QG_INFER_NET_H

#include "infer/file.h"
#include "infer/kernels/requantize.h"

/* How the results of a product, or floats, become the value of a step. */
typedef enum qg__route {
    QG__ROUTE_FLOATS,       /* z */
    QG__ROUTE_SUMS,         /* bits, by comparing sums with the least of each value */
    QG__ROUTE_BITS,         /* bits of the codes of z */
    QG__ROUTE_BYTES,        /* codes of z */
    QG__ROUTE_FIXED,        /* codes of sums, by TFLite's operator */
    QG__ROUTE_LEVELS        /* the values of the codes of z */
} qg__route;

typedef struct qg__tables {
    qg__route       route;
    qg__alphabet    alphabet;           /* of bits */
    const int32_t  *least, *flip;       /* QG__ROUTE_SUMS: qg__requantize_kernels.bits */
    qg__finder      find;
    qg__fixed_point fixed;
    const float    *level;
} qg__tables;

typedef struct qg__infer_step {
    qg_isa          isa;            /* of its kernels, the same for all steps */
    qg__packed_step r;              /* of the file, but for the coding, which qg__choose may change */
    qg__product     p;              /* of a product */
    qg__scales      k;
    const void     *packed;
    int             images;         /* that a product computes at a time */
    bool            finishes;       /* the kernel of the product makes the value */
    const float    *number[3];      /* of other steps: as infer/format.h lists them, or before, a and after
                                       of PReLU */
    qg__tables      to;
    size_t          bytes;          /* of an image of its value */
    const char     *name;
    char            kind[32];
} qg__infer_step;

typedef struct qg__place {
    size_t bytes;                   /* of an image, a multiple of 64 */
    size_t at;                      /* in a context, in bytes per image */
    int    last;                    /* step that reads it */
    int    next;                    /* while planning: the living value behind it; -1: none */
    float  gain;                    /* while choosing: ns per image that bytes save its readers */
} qg__place;

struct qg_infer {
    int          h, w, c, steps;
    size_t       normal, notes;
    const float *mean, *deviation;
    const char  *note;              /* keys and values in turn */
    size_t       weight_bytes;
    int          fixed_point;
    size_t       value_bytes;       /* of all values of an image */
    int          images;            /* at once */
    qg__infer_step *step;
    qg__place      *value;          /* [steps + 1] */
};

/* --- infer/choose.c ----------------------------------------------------------------------------- */

/* Turns bits into bytes where products are faster so, in the records and products of all steps, which are
 * those of the file before. */
void   qg__choose(qg_infer *net);

/* --- infer/tables.c ----------------------------------------------------------------------------- */

/* The tables of a step with a quantizer, in memory of qg__tables_bytes, which depends on the record alone. */
size_t qg__tables_bytes(const qg__packed_step *r, const qg__product *p);
void   qg__tables_make(qg__infer_step *s, const float *threshold, const float *level, qg_infer_requantize how,
                       uint8_t *memory);

/* --- infer/plan.c ------------------------------------------------------------------------------- */

/* Gives each value a place, such that values that are needed at the same time do not overlap, and chooses
 * how many images run together.  The bytes of values are known. */
void   qg__plan(qg_infer *net);

/* --- infer/ops.c -------------------------------------------------------------------------------- */

size_t qg__op_scratch_bytes(const qg__infer_step *s);

/* n images of a step that is no product.  z: its second operand, if any. */
void   qg__op_run(const qg__infer_step *s, int n, const void *x, const float *z, void *y, void *scratch);

/* Floats of so many pixels to the value of the step, by its route, which is none of sums.  z may be y. */
void   qg__quantize(const qg__infer_step *s, size_t pixels, const float *z, void *y);
size_t qg__pixel_bytes(const qg__infer_step *s);

#endif
