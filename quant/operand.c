#include "quant/operand.h"

#include <math.h>
#include <string.h>

qg_status qg__check_forward(const char *op, const qg_array *x, const qg_array *y)
{
    return qg__check_pair(op, "y", y, "x", x);
}

qg_status qg__check_backward(const char *op, const qg_array *x, const qg_array *dy,
                             const qg_array *dx)
{
    const qg_status s = qg__check_pair(op, "dy", dy, "x", x);
    return s ? s : qg__check_pair(op, "dx", dx, "x", x);
}

qg_status qg__check_channels(const char *op, const char *name, int axis, const qg_array *x,
                             qg_split *split)
{
    if (x->rank == 0) return qg_fail(QG_ESHAPE, "%s: rank is 0, must be 1 or more", op);
    const qg_status s = qg__check_int(op, name, axis, 0, x->rank - 1);
    if (!s) *split = qg__split_at(x, axis);
    return s;
}

qg_status qg__check_optional_vector(const char *op, const char *name, const qg_array *a, size_t n)
{
    if (!a) return QG_OK;
    const qg_status s = qg__check_array(op, name, a, QG_F32);
    return s ? s : qg__check_vector(op, name, a, n);
}

qg_status qg__check_int(const char *op, const char *name, int v, int least, int most)
{
    if (v >= least && v <= most) return QG_OK;
    return qg_fail(QG_EARG, "%s: %s is %d, must be %d .. %d", op, name, v, least, most);
}

qg_status qg__check_above_zero(const char *op, const char *name, float v)
{
    if (v > 0.0f && isfinite(v)) return QG_OK;
    return qg_fail(QG_EARG, "%s: %s is %g, must be finite and above 0", op, name, (double)v);
}

qg_status qg__check_threshold(const char *op, const char *name, float v)
{
    if (v >= 0.0f && isfinite(v)) return QG_OK;
    return qg_fail(QG_EARG, "%s: %s is %g, must be finite and 0 or more", op, name, (double)v);
}

void qg__zero(const qg_array *a)
{
    const size_t n = qg_array_count(a);
    if (n) memset(a->data, 0, n * sizeof(float));
}

qg_status qg__surrogate_gradient(const char *op, const qg_array *x, const qg_array *dy, qg_surrogate s, qg_array *dx)
{
    const qg_status status = qg__check_backward(op, x, dy, dx);
    if (status) return status;
    qg__zero(dx);
    qg_surrogate_slope(s, qg_array_count(x), qg__floats(x), qg__floats(dy), qg__floats(dx));
    return QG_OK;
}
