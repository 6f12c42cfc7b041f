/* quant/reference/code_array.h — arrays of integer codes, one element at a time. */
#ifndef QG_CODE_ARRAY_H
#define QG_CODE_ARRAY_H

#include "core/io/array.h"

#include <stdbool.h>
#include <stdint.h>

/* What a type of codes can hold; bits is 0 for a dtype that holds none. */
typedef struct qg__code_type {
    int     bits;           /* 8, 16 or 32 */
    int64_t lo, hi;
} qg__code_type;

static inline qg__code_type qg__code_type_of(qg_dtype d)
{
    switch (d) {
    case QG_I8: return (qg__code_type){ 8, INT8_MIN, INT8_MAX };
    case QG_U8: return (qg__code_type){ 8, 0, UINT8_MAX };
    case QG_I16: return (qg__code_type){ 16, INT16_MIN, INT16_MAX };
    case QG_U16: return (qg__code_type){ 16, 0, UINT16_MAX };
    case QG_I32: return (qg__code_type){ 32, INT32_MIN, INT32_MAX };
    default: return (qg__code_type){ 0, 0, 0 };
    }
}

static inline int64_t qg__code(const qg_array *a, size_t i)
{
    switch (a->dtype) {
    case QG_I8: return ((const int8_t *)a->data)[i];
    case QG_U8: return ((const uint8_t *)a->data)[i];
    case QG_I16: return ((const int16_t *)a->data)[i];
    case QG_U16: return ((const uint16_t *)a->data)[i];
    default: return ((const int32_t *)a->data)[i];
    }
}

/* v is within the type. */
static inline void qg__set_code(qg_array *a, size_t i, int64_t v)
{
    switch (a->dtype) {
    case QG_I8: ((int8_t *)a->data)[i] = (int8_t)v; break;
    case QG_U8: ((uint8_t *)a->data)[i] = (uint8_t)v; break;
    case QG_I16: ((int16_t *)a->data)[i] = (int16_t)v; break;
    case QG_U16: ((uint16_t *)a->data)[i] = (uint16_t)v; break;
    default: ((int32_t *)a->data)[i] = (int32_t)v; break;
    }
}

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
