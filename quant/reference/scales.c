#include "quant/reference/scales.h"

#include "quant/check.h"
#include "quant/code_array.h"

#include <math.h>

qg_status qg__check_all_positive(const char *op, const char *name, const qg_array *scales)
{
    const qg_status s = qg__check_array(op, name, scales, QG_F32);
    const size_t    n = s ? 0 : qg_array_count(scales);
    for (size_t k = 0; k < n; k++) {
        const float v = ((const float *)scales->data)[k];
        if (!isfinite(v) || v <= 0.0f)
            return qg_fail(QG_EARG, "%s: %s[%zu] is %g, must be > 0 and finite", op, name, k,
                           (double)v);
    }
    return s;
}

qg_status qg__check_scales(const char *op, const char *scales_name, const qg_array *scales,
                           const char *zero_points_name, const qg_array *zero_points, int axis,
                           const qg_array *x)
{
    qg_status s = qg__check_all_positive(op, scales_name, scales);
    if (!s) s = qg__check_along(op, scales_name, scales, axis, x);
    if (!s) s = qg__check_array(op, zero_points_name, zero_points, QG_I32);
    if (!s) s = qg__check_along(op, zero_points_name, zero_points, axis, x);
    return s;
}

qg_status qg__check_limits(const char *op, const char *name, int32_t min, int32_t max,
                           qg_dtype dtype)
{
    const qg__code_type t = qg__code_type_of(dtype);
    if (min <= max && min >= t.lo && max <= t.hi) return QG_OK;
    return qg_fail(QG_EARG, "%s: %s_min_val is %d and %s_max_val is %d, must be ordered within %s",
                   op, name, (int)min, name, (int)max, qg_dtype_name(dtype));
}
