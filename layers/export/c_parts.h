/* layers/export/c_parts.h — the functions of which a net in C consists (internal).
 *
 * Each part is C99 text, one function or a few, and calls only parts before it.  A file has what it needs.
 */
#ifndef QG_EXPORT_C_PARTS_H
#define QG_EXPORT_C_PARTS_H

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
