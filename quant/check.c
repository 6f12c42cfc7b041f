#include "quant/check.h"

#include "quant/code_array.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* "[2,3]" into a buffer of the caller. */
static const char *shape_text(const qg_array *a, char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "[");
    for (int i = 0; i < a->rank && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, i ? ",%zu" : "%zu", a->dims[i]);
    if (used < bytes) snprintf(text + used, bytes - used, "]");
    return text;
}

qg_status qg__check_view(const char *op, const char *name, const qg_array *a)
{
    if (!a) return qg_fail(QG_EARG, "%s: %s is NULL", op, name);
    if (a->rank < 0 || a->rank > QG_MAX_RANK)
        return qg_fail(QG_ESHAPE, "%s: rank of %s is %d, must be 0 .. %d", op, name, a->rank,
                       QG_MAX_RANK);
    const size_t width = qg_dtype_bytes(a->dtype);
    if (width == 0) return qg_fail(QG_EARG, "%s: %s has no known dtype", op, name);
    size_t n = 1;
    for (int i = 0; i < a->rank; i++) {
        if (a->dims[i] == 0) return QG_OK;
        if (n > PTRDIFF_MAX / width / a->dims[i])
            return qg_fail(QG_ESHAPE, "%s: the dims of %s multiply beyond memory", op, name);
        n *= a->dims[i];
    }
    if (!a->data) return qg_fail(QG_EARG, "%s: %s has no data for %zu elements", op, name, n);
    return QG_OK;
}

qg_status qg__check_array(const char *op, const char *name, const qg_array *a, qg_dtype dtype)
{
    const qg_status s = qg__check_view(op, name, a);
    if (s || a->dtype == dtype) return s;
    return qg_fail(QG_EARG, "%s: dtype of %s is %s, must be %s", op, name, qg_dtype_name(a->dtype),
                   qg_dtype_name(dtype));
}

qg_status qg__check_codes(const char *op, const char *name, const qg_array *a)
{
    const qg_status s = qg__check_view(op, name, a);
    if (s || qg__code_type_of(a->dtype).bits) return s;
    return qg_fail(QG_EARG, "%s: dtype of %s is %s, must be I8, U8, I16, U16 or I32", op, name,
                   qg_dtype_name(a->dtype));
}

qg_status qg__check_rank(const char *op, const char *name, const qg_array *a, int rank)
{
    if (a->rank == rank) return QG_OK;
    return qg_fail(QG_ESHAPE, "%s: rank of %s is %d, must be %d", op, name, a->rank, rank);
}

qg_status qg__check_same_shape(const char *op, const char *name, const qg_array *a,
                               const char *b_name, const qg_array *b)
{
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++) same = a->dims[i] == b->dims[i];
    if (same) return QG_OK;
    char at[128];
    char bt[128];
    return qg_fail(QG_ESHAPE, "%s: shape of %s is %s, must be %s as %s", op, name,
                   shape_text(a, at, sizeof at), shape_text(b, bt, sizeof bt), b_name);
}

qg_status qg__check_pair(const char *op, const char *a_name, const qg_array *a, const char *b_name,
                         const qg_array *b)
{
    qg_status s = qg__check_array(op, b_name, b, QG_F32);
    if (!s) s = qg__check_array(op, a_name, a, QG_F32);
    if (!s) s = qg__check_same_shape(op, a_name, a, b_name, b);
    return s;
}

qg_status qg__check_vector(const char *op, const char *name, const qg_array *a, size_t n)
{
    if (a->rank == 1 && a->dims[0] == n) return QG_OK;
    char text[128];
    return qg_fail(QG_ESHAPE, "%s: shape of %s is %s, must be [%zu]", op, name,
                   shape_text(a, text, sizeof text), n);
}

qg_status qg__check_axis(const char *op, const char *name, int axis, const qg_array *x)
{
    if (axis >= -1 && axis < x->rank) return QG_OK;
    return qg_fail(QG_EARG, "%s: %s is %d, must be -1 .. %d", op, name, axis, x->rank - 1);
}

qg_status qg__check_along(const char *op, const char *name, const qg_array *a, int axis,
                          const qg_array *x)
{
    if (axis < 0) return qg__check_rank(op, name, a, 0);
    return qg__check_vector(op, name, a, x->dims[axis]);
}

qg_status qg__check_width(const char *op, const char *name, float min, float max)
{
    if (isfinite(max - min)) return QG_OK;
    return qg_fail(QG_EARG, "%s: %s is %.9g .. %.9g, wider than float32 reaches", op, name, (double)min,
                   (double)max);
}

qg_split qg__split_at(const qg_array *a, int axis)
{
    if (axis < 0) return (qg_split){ 1, 1, qg_array_count(a) };
    qg_split s = { 1, a->dims[axis], 1 };
    for (int i = 0; i < axis; i++) s.outer *= a->dims[i];
    for (int i = axis + 1; i < a->rank; i++) s.inner *= a->dims[i];
    return s;
}
