/* layers/export/c_program.h — a net in C before it is text: calls, arrays, places of values (internal).
 *
 * A stage is one call: a record, or a product and the max pooling that follows.  A pooling whose windows do
 * not overlap is part of its product, so that what it reads needs no memory.
 */
#ifndef QG_EXPORT_C_PROGRAM_H
#define QG_EXPORT_C_PROGRAM_H

#include "layers/export/writer.h"

enum { QG__C_BYTES = 256 };

/* What a product sums: codes times codes; floats times codes that are 0 or powers of 2, exactly; floats times
 * other codes; floats times floats. */
typedef enum qg__c_input { QG__C_CODES, QG__C_EXACT, QG__C_FUSED, QG__C_FLOATS, QG__C_INPUTS } qg__c_input;

/* What a sum of a product, or a float, becomes. */
typedef enum qg__c_result {
    QG__C_BY_LEAST,         /* a code, by the least sum of each code */
    QG__C_BY_LINE,          /* a code, by a line */
    QG__C_BY_THRESHOLDS,    /* a code, by thresholds of floats */
    QG__C_RESULT,           /* a float */
    QG__C_LEVEL,            /* the float that stands for its code */
    QG__C_RESULTS
} qg__c_result;

typedef struct qg__c_stage {
    const qg__record *s, *pool;             /* pool: NULL without */
    int               value;                /* that it computes */
    char             *name;                 /* of the last layer, as an identifier */
    qg__c_input       input;                /* of products */
    qg__c_result      result;               /* of products and quantizers */
    int               first, thresholds;    /* of its quantizer: all numbers reach the first ones, and
                                               none those after the others */
    const float      *threshold;
    uint8_t          *table;                /* [c][QG__C_BYTES] codes, if it quantizes the bytes of images */
    bool              is_identity;          /* this table: bytes are their own codes */

    /* Arrays of a product, as the `layer` of c_parts.c has them. */
    uint8_t          *weights;
    int32_t          *least;
    int8_t           *falls;                /* any_falls: one is not 0 */
    bool              any_falls;
    int64_t          *slope, *start;
    uint8_t          *shift, *odd_code;
    uint16_t         *odd;
    int32_t          *odd_sum;
    int               odds;
} qg__c_stage;

typedef struct qg__c_place {
    bool   needed, placed;
    size_t bytes, at;           /* of the value that has the memory: */
    int    owner;               /* itself, or one that ends where this one begins */
    int    first, last;         /* stages from which on and until which it is needed */
} qg__c_place;

typedef struct qg__c_program {
    const qg_net      *net;
    const qg__records *s;
    qg_export_spec     spec;
    qg__c_stage       *stage;
    int                stages;
    qg__c_place       *value;           /* [records + 1] */
    size_t             memory;          /* bytes of all values */
    size_t             row;             /* weights that are unpacked at a time, at most */
    int                weight_bits;     /* 8, 16 or 32, which hold every weight */
    qg_arena           arena;
    qg_status          status;
} qg__c_program;

/* Fills a program of which .net, .s and .spec are set.  The caller releases the arena, also after a failure.
 * Fails    QG_ESHAPE: something is larger than 2^31 - 1 bytes; QG_EMEM. */
qg_status qg__c_program_find(qg__c_program *p);

static inline bool qg__c_is_product(const qg__c_stage *t) { return t->s->r.kind == QG__PRODUCT; }

/* Codes or, with .count 0, floats; and how many.  Value 0 is the image. */
qg__codes qg__c_codes(const qg__c_program *p, int value);
size_t    qg__c_numbers(const qg__c_program *p, int value);

/* Memory from the arena, zeroed; NULL without memory, which becomes the status. */
void     *qg__c_take(qg__c_program *p, size_t n, size_t each);

/* layers/export/c_codes.c: how the integer sums of a product become codes, and the arrays for it. */
void      qg__c_codes_of_sums(qg__c_program *p, qg__c_stage *t);

/* --- layers/export/c_parts.c: the functions of which a net in C consists ------------------------- */

/* Each part is C99 text, one function or a few, and calls only parts before it.  A file has what it needs. */
typedef enum qg__c_part {
    QG__C_ROUNDED,              /* a float that is rounded, and neither fused nor kept in a wider register */
    QG__C_FUSED_SUM,            /* a b + c, rounded once */
    QG__C_LAYER,                /* the sizes and arrays of a step */
    QG__C_FIND,                 /* a float to the number of its code */
    QG__C_TAPS,                 /* weights of an output */
    QG__C_UNPACK,               /* an output's weights; before it `weight` and ROW are defined */
    QG__C_CODE_OF_SUM,          /* by the least sum of each code */
    QG__C_CODE_ON_LINE,         /* by a line, and the sums that are not on it */
    QG__C_SCALED,
    QG__C_SCALED_SIDES,
    QG__C_NORMALISE, QG__C_LOOK_UP, QG__C_QUANTIZE, QG__C_QUANTIZE_FLOATS,
    QG__C_AFFINE, QG__C_RELU, QG__C_CLIP,
    QG__C_EXP,                  /* of sigmoid and tanh */
    QG__C_SIGMOID, QG__C_TANH, QG__C_PRELU, QG__C_ADD, QG__C_MULTIPLY, QG__C_CONCAT, QG__C_SHORTCUT,
    QG__C_MAX_POOL_CODES, QG__C_MAX_POOL, QG__C_AVERAGE_POOL, QG__C_MEAN_ABS,
    QG__C_LARGEST,
    QG__C_PARTS
} qg__c_part;

extern const char *const qg__c_parts[QG__C_PARTS];

/* Texts in which $a, $b, .. stand for words.  So are those of max pooling.
 *
 *     sum         $i its name; $w, $x, $t types of a weight, of the input, of the sum; $a the statement that
 *                 adds w[k] v[k] to it, and $b the one outside of the input, unless $p is 0
 *     product     $n its name; $x, $y types of input and output; $i, $w, $t as of the sum; $r the weights of
 *                 output o; $s the declaration of a second sum; $v what a sum becomes
 *     main        $k the kind of image, $p the digit after the P by which its file begins
 *     max pooling $n the end of its name; $x the type */
extern const char qg__c_sum[], qg__c_product[], qg__c_main[];

#endif
