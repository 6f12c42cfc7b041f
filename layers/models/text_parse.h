/* layers/models/text_parse.h — a net's text as a list of parts (internal). */
#ifndef QG_MODEL_TEXT_PARSE_H
#define QG_MODEL_TEXT_PARSE_H

#include "layers/models/models.h"

typedef enum qg__part_kind {
    QG__CONV, QG__DENSE, QG__BATCHNORM, QG__RELU, QG__PRELU, QG__RPRELU, QG__HARDTANH, QG__SIGMOID, QG__TANH,
    QG__MAXPOOL, QG__AVGPOOL, QG__GLOBAL, QG__DROPOUT, QG__AFFINE, QG__NONLINEARITY, QG__IMAGE,
    QG__OPEN, QG__CLOSE
} qg__part_kind;

/* The values of BN(..), PR(..) and AF(..), in the order of their keys. */
enum { QG__EPS, QG__MOMENTUM, QG__NO_SCALE, QG__NO_SHIFT, QG__WHOLE, QG__PART_VALUES };
enum { QG__START, QG__SHARED };
#define QG__PRELU_START 0.25           /* which prelu specs call 0 */
enum { QG__SCALE, QG__SHIFT };

typedef struct qg__part {
    qg__part_kind is;
    size_t        at;                       /* of its first character */
    int           out;                      /* of a product; 0: as many channels as its input */
    int           size, size_w, stride, pad;    /* of a window; pad -1: the size stays the same */
    bool          same;                     /* TensorFlow's padding in place of pad */
    bool          keeps;                    /* of QG__MAXPOOL: its place, before any product */
    int           groups;                   /* of a convolution, or QG_DEPTHWISE */
    bool          no_bias;
    int           number;                   /* of a product: 1 for conv1 and for fc1 */
    int           partner;                  /* of a brace: the other one */
    int           shortcut;                 /* of a brace: a qg_shortcut_kind; -1: none is named */
    bool          first;                    /* of a brace: its shortcut is declared first */
    double        value[QG__PART_VALUES];   /* of BN, PR, AF and D */
} qg__part;

/* With repetitions written out.  Fails with QG_EARG and QG_EMEM; *parts is malloc's. */
QG_MUST_CHECK
qg_status qg__net_text_parse(const char *text, qg__part **parts, int *count);

/* "net '32C5-XY': character 6: .."; at counts from 0. */
qg_status qg__net_text_refuse(const char *text, size_t at, const char *why);

#endif
