/* quant/reference/code_array.h — arrays of integer codes, one element at a time (internal). */
#ifndef QG_CODE_ARRAY_H
#define QG_CODE_ARRAY_H

#include "quant/reference/integer_conv.h"

#include <stdbool.h>
#include <stdint.h>

/* What a type of codes can hold; bits is 0 for a dtype that holds none. */
typedef struct qg__code_type {
    int     bits;           /* 8, 16 or 32 */
    int64_t lo, hi;
} qg__code_type;

static inline qg__code_type qg__code_type_of(qg_dtype d)
{
    static const qg__code_type types[] = { [QG_I8]  = { 8, INT8_MIN, INT8_MAX },
                                           [QG_U8]  = { 8, 0, UINT8_MAX },
                                           [QG_I16] = { 16, INT16_MIN, INT16_MAX },
                                           [QG_U16] = { 16, 0, UINT16_MAX },
                                           [QG_I32] = { 32, INT32_MIN, INT32_MAX } };
    return d < sizeof types / sizeof *types ? types[d] : (qg__code_type){ 0 };
}

static inline int64_t qg__code(const qg_array *a, size_t i)
{
    if (a->dtype == QG_I8) return ((const int8_t *)a->data)[i];
    if (a->dtype == QG_U8) return ((const uint8_t *)a->data)[i];
    if (a->dtype == QG_I16) return ((const int16_t *)a->data)[i];
    return a->dtype == QG_U16 ? ((const uint16_t *)a->data)[i] : ((const int32_t *)a->data)[i];
}

/* v is within the type. */
static inline void qg__set_code(qg_array *a, size_t i, int64_t v)
{
    if (a->dtype == QG_I8) ((int8_t *)a->data)[i] = (int8_t)v;
    else if (a->dtype == QG_U8) ((uint8_t *)a->data)[i] = (uint8_t)v;
    else if (a->dtype == QG_I16) ((int16_t *)a->data)[i] = (int16_t)v;
    else if (a->dtype == QG_U16) ((uint16_t *)a->data)[i] = (uint16_t)v;
    else ((int32_t *)a->data)[i] = (int32_t)v;
}

/* Rows of padding before the first, with `out` outputs along a dimension. */
size_t qg__padding_before(qg_padding padding, size_t in, size_t out, size_t kernel, size_t stride);

/* Element k of F32 and I32 arrays with one element per slice, or with one for all slices if of rank 0. */
static inline float qg__float_at(const qg_array *a, size_t k)
{
    return ((const float *)a->data)[a->rank == 0 ? 0 : k];
}

static inline int32_t qg__int_at(const qg_array *a, size_t k)
{
    return ((const int32_t *)a->data)[a->rank == 0 ? 0 : k];
}

#endif
