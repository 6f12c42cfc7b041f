#include "quant/operand.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { SHAPE_TEXT = 8 + QG_MAX_RANK * 21 };

/* "F32 [3,1,2]" */
static const char *shape_text(const qg_array *a, char text[SHAPE_TEXT])
{
    int at = snprintf(text, SHAPE_TEXT, "%s [", qg_dtype_name(a->dtype));
    for (int i = 0; i < a->rank; i++)
        at += snprintf(text + at, (size_t)(SHAPE_TEXT - at), i ? ",%zu" : "%zu", a->dims[i]);
    snprintf(text + at, (size_t)(SHAPE_TEXT - at), "]");
    return text;
}

static bool same_dims(const qg_array *a, const qg_array *b)
{
    return a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
}

qg_status qg__check_f32(const char *op, const char *name, const qg_array *a)
{
    if (!a) return qg_fail(QG_EARG, "%s: %s is missing", op, name);
    if (a->rank < 0 || a->rank > QG_MAX_RANK)
        return qg_fail(QG_ESHAPE, "%s: rank of %s is %d, legal: 0 to %d", op, name, a->rank, QG_MAX_RANK);
    if (a->dtype != QG_F32)
        return qg_fail(QG_EARG, "%s: %s is %s, legal: F32", op, name, qg_dtype_name(a->dtype));
    if (!a->data && qg_array_count(a))
        return qg_fail(QG_EARG, "%s: %s has %zu elements but no data", op, name, qg_array_count(a));
    return QG_OK;
}

qg_status qg__check_like(const char *op, const char *name, const qg_array *a, const char *model_name,
                         const qg_array *model)
{
    char            have[SHAPE_TEXT], want[SHAPE_TEXT];
    const qg_status s = qg__check_f32(op, name, a);
    if (s || same_dims(a, model)) return s;
    return qg_fail(QG_ESHAPE, "%s: %s is %s, legal: %s, as %s", op, name, shape_text(a, have),
                   shape_text(model, want), model_name);
}

qg_status qg__check_vector(const char *op, const char *name, const qg_array *a, size_t n)
{
    const qg_array model = { .dtype = QG_F32, .rank = 1, .dims = { n } };
    return qg__check_like(op, name, a, "one per channel", &model);
}

qg_status qg__check_forward(const char *op, const qg_array *x, const qg_array *y)
{
    const qg_status s = qg__check_f32(op, "x", x);
    return s ? s : qg__check_like(op, "y", y, "x", x);
}

qg_status qg__check_backward(const char *op, const qg_array *x, const qg_array *dy, const qg_array *dx)
{
    qg_status s = qg__check_f32(op, "x", x);
    if (!s) s = qg__check_like(op, "dy", dy, "x", x);
    return s ? s : qg__check_like(op, "dx", dx, "x", x);
}

qg_status qg__check_axis(const char *op, const char *name, int axis, const qg_array *x,
                         qg_channels *split)
{
    if (x->rank == 0) return qg_fail(QG_ESHAPE, "%s: x has rank 0, legal: 1 or more", op);
    if (axis < 0 || axis >= x->rank)
        return qg_fail(QG_EARG, "%s: %s is %d, legal: 0 to %d, since x has rank %d", op, name, axis,
                       x->rank - 1, x->rank);
    *split = (qg_channels){ 1, x->dims[axis], 1 };
    for (int i = 0; i < axis; i++) split->outer *= x->dims[i];
    for (int i = axis + 1; i < x->rank; i++) split->inner *= x->dims[i];
    return QG_OK;
}

qg_status qg__check_int(const char *op, const char *name, long long v, long long least, long long most)
{
    if (v >= least && v <= most) return QG_OK;
    return qg_fail(QG_EARG, "%s: %s is %lld, legal: %lld to %lld", op, name, v, least, most);
}

qg_status qg__check_positive(const char *op, const char *name, float v)
{
    if (v > 0.0f && isfinite(v)) return QG_OK;
    return qg_fail(QG_EARG, "%s: %s is %g, legal: finite and above 0", op, name, (double)v);
}

qg_status qg__check_threshold(const char *op, const char *name, float v)
{
    if (v >= 0.0f && isfinite(v)) return QG_OK;
    return qg_fail(QG_EARG, "%s: %s is %g, legal: finite, 0 or more", op, name, (double)v);
}

void qg__zero(const qg_array *a)
{
    const size_t n = qg_array_count(a);
    if (n) memset(a->data, 0, n * sizeof(float));
}
