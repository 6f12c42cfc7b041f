/* infer/format.h — the packed file, versions 1 and 2 (internal).
 *
 * Little-endian, without alignment; load copies what must be aligned.
 *
 *     header     qg__packed_header, 64 bytes
 *     steps      records of QG__STEP_BYTES, in the order in which they run
 *     floats     what the header and then each step list below
 *     rows       the weights of each product, one output after another
 *     text       names of steps, then notes, key and value in turn: UTF-8, each ended by a zero byte
 *
 * Version: one number.  A file states the lowest version that can express it.  An engine reads all versions
 * up to its own and refuses newer ones by name.  No field changes its meaning; reserved bytes are 0, so
 * that they can get one.  Version 2 has w_zeros.
 *
 * Values.  Value 0 is the image, as floats; step i computes value i + 1.  A step reads values before it.
 * The last value is the result: floats, read as one row of scores.  Only products and max pooling read
 * codes.  A product reads them in the coding that its operands have (qg__product_coding); a product with
 * float weights reads floats.
 *
 * Floats
 *     header     mean[m], deviation[m]: x = (byte / 255 - mean) / deviation (datasets/normalise.h)
 *     product    a[oc], then an[oc] if two-sided, b[oc]
 *     affine     a[c], b[c]
 *     prelu      slope[c]
 *     rprelu     the parameters of qg_rprelu (layers/net.h) in the order of that function
 *     clip       lo, hi
 *     and of a product with a quantizer or a QG__QUANTIZE: threshold[count - 1], ascending; if its value is
 *     floats, level[count]
 * All are finite, but thresholds and the ends of clip may be infinite; deviations are positive, and lo < hi.
 *
 * Rows.  A weight takes `bits` bits: the code u with value lowest + step * u, or 32 for floats.  The bits
 * of a row follow each other, low bits first, in the order [kh][kw][c / groups], filled up with zeros to a
 * byte: ceil(bits * kh * kw * c / groups / 8) bytes.  Codes have as few bits as count codes need, at least
 * 1.  With w_zeros a row begins with one code more, its zero point, and a code stands for code - zero.
 *
 * Quantizers.  The code of x is the number of thresholds t with x >= t; that of NaN is 0.  A product with a
 * quantizer quantizes z; with relu it quantizes max(z, 0).  As all of this is monotone in acc, load may find
 * the least acc of a code by bisection with this very function, and run compare integers.
 *
 * Requantization.  q_scale is the value of the integer 1 of a quantizer: its levels are q_scale (lowest +
 * step u) up to roundings.  0: they are not.  Thresholds alone define codes; a right scale finds them
 * faster, and QG_INFER_TFLITE (infer/infer.h) needs it.
 */
#ifndef QG_INFER_FORMAT_H
#define QG_INFER_FORMAT_H

#include <stdint.h>

#include "infer/product.h"

enum { QG__FORMAT_VERSION = 2, QG__HEADER_BYTES = 64, QG__STEP_BYTES = 128, QG__FLOAT_BITS = 32,
       QG__MOST_CODES = 256, QG__MOST_STEPS = 1 << 14 };

#define QG__PACKED_MAGIC { 0x89, 'q', 'g', 'n', 'e', 't', '\r', '\n' }

typedef struct qg__packed_header {
    uint8_t  magic[8];          /* QG__PACKED_MAGIC: not text, and damaged by transfers of text */
    uint32_t version;           /* 1 or 2 */
    uint32_t steps;             /* 1 .. QG__MOST_STEPS */
    uint64_t bytes;             /* of the file */
    int32_t  h, w, c;           /* of the input */
    uint32_t normal;            /* numbers of normalisation m: 0, c or h * w * c */
    uint32_t notes;
    uint32_t zeros[3];
    uint64_t checksum;          /* qg_hash_words of the bytes before it from QG_HASH_BASIS on,
                                   continued over all bytes after it.  A change within one group of eight
                                   bytes always changes it, so every flipped bit is refused */
} qg__packed_header;

typedef enum qg__kind {
    QG__PRODUCT,        /* z = fl(fl(a acc) + b), then relu and quantizer, if any */
    QG__AFFINE,         /* y = fl(fl(a[k] x) + b[k]) */
    QG__QUANTIZE,       /* codes, or their levels as floats */
    QG__MAXPOOL,        /* of floats, or of codes, which its record then repeats: coding, q_lowest, q_step,
                           q_count, q_scale; every window has pixels of the image, and reads nothing
                           outside */
    QG__AVGPOOL,        /* of floats, as qg_avgpool_with; flag: exclude_pad; windows as of QG__MAXPOOL */
    QG__RELU, QG__CLIP, QG__SIGMOID, QG__TANH, QG__PRELU, QG__RPRELU,
    QG__ADD,            /* x + z */
    QG__CONCAT,         /* the channels of x, then those of z */
    QG__SHORTCUT,       /* qg_shortcut: every stride-th pixel, and (oc - c) / 2 new channels of 0 before the
                           others */
    QG__MEAN_ABS,       /* XNOR-Net's K: the mean |x| over each window, one channel; taps outside the image
                           are 0, and count */
    QG__MULTIPLY,       /* x * z, where z has one channel */
    QG__KINDS
} qg__kind;

/* A record is these fields, four bytes each, in this order, then zeros.  Fields that a kind does not use
 * are 0; z is -1. */
typedef struct qg__packed_step {
    int32_t kind;
    int32_t x, z;               /* values that it reads; z -1: none */
    int32_t h, w, c;            /* of value x */
    int32_t oh, ow, oc;         /* of its own value */
    int32_t kh, kw, stride, top, left;             /* of products, pools and MEAN_ABS; SHORTCUT has only
                                                      stride */
    int32_t groups;                                /* of products */
    int32_t w_lowest, w_step, w_count, w_bits;     /* of products; three zeros and w_bits 32: floats */
    int32_t two_sided;
    float   pad;                /* of products: what taps outside the image read */
    int32_t relu;               /* of products */
    int32_t flag;               /* of AVGPOOL: exclude_pad */
    int32_t coding;             /* of its value: qg__coding */
    int32_t q_lowest, q_step, q_count;             /* of a quantizer; q_count 0: none */
    float   q_scale;
    int32_t w_zeros;            /* of products: rows have zero points; then w_lowest is 0, w_step 1, w_count
                                   at most 256 and two_sided 0 */
} qg__packed_step;

size_t qg__step_floats(const qg__packed_step *r);       /* numbers of its list, */
size_t qg__step_own_floats(const qg__packed_step *r);   /* and those before the thresholds */
size_t qg__row_numbers(const qg__packed_step *r);       /* of one output of a product, with its zero point;
                                                           else 0 */
size_t qg__row_bytes(const qg__packed_step *r);

/* Whether each number of the value depends on no number of x but the one at the same place. */
bool   qg__is_elementwise(int32_t kind);

/* What records mean. */
qg__codes   qg__codes_of_value(const qg__packed_step *r);      /* .count 0: the value is floats */
qg__codes   qg__quantizer(const qg__packed_step *r);           /* .count 0: none; MAXPOOL has none */
qg__product qg__product_of(const qg__packed_step *r, qg__codes x);

#endif
