/* quant/reference/scales.h — pairs of scale and zero point as the uniform operators take them. */
#ifndef QG_SCALES_H
#define QG_SCALES_H

#include "core/io/array.h"
#include "core/status.h"

#include <stdint.h>

/* A float32 array of finite positive elements. */
QG_MUST_CHECK
qg_status qg__check_all_positive(const char *op, const char *name, const qg_array *scales);

/* scales is float32 with finite positive elements, zero_points int32, both of rank 0 if axis is -1
 * and else [dim axis] of x. */
QG_MUST_CHECK
qg_status qg__check_scales(const char *op, const char *scales_name, const qg_array *scales,
                           const char *zero_points_name, const qg_array *zero_points, int axis,
                           const qg_array *x);

/* <name>_min_val <= <name>_max_val, both within the type. */
QG_MUST_CHECK
qg_status qg__check_limits(const char *op, const char *name, int32_t min, int32_t max,
                           qg_dtype dtype);

typedef struct qg__scale {
    float   scale;
    int64_t zero_point;
} qg__scale;

/* The pair of slice k; of every slice if there is only one. */
static inline qg__scale qg__scale_at(const qg_array *scales, const qg_array *zero_points, size_t k)
{
    const size_t i = scales->rank == 0 ? 0 : k;
    return (qg__scale){ ((const float *)scales->data)[i], ((const int32_t *)zero_points->data)[i] };
}

#endif
