#include "quant/operand.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/io/safetensors.h"
#include "quant/engine.h"

/* A rank of 0 .. QG_MAX_RANK, a size that fits memory, data unless empty. */
static qg_status check_view(const char *op, const char *name, const qg_array *a)
{
    if (!a) return qg_fail(QG_EARG, "%s: %s is NULL", op, name);
    if (a->rank < 0 || a->rank > QG_MAX_RANK)
        return qg_fail(QG_ESHAPE, "%s: rank of %s is %d, must be 0 .. %d", op, name, a->rank,
                       QG_MAX_RANK);
    const size_t width = qg__dtype_bytes(a->dtype);
    if (width == 0) return qg_fail(QG_EARG, "%s: %s has an unknown dtype", op, name);
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

static qg_status check_dtype(const char *op, const qg__operand *row)
{
    if (row->dtypes >> row->a->dtype & 1) return QG_OK;
    char   text[64] = "";
    size_t used     = 0;
    for (unsigned d = 0, left = row->dtypes; left; d++) {
        if (!(left >> d & 1)) continue;
        left &= ~(1u << d);
        const char *before = used == 0 ? "" : left ? ", " : " or ";
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", before, qg__dtype_name((qg_dtype)d));
    }
    return qg_fail(QG_EARG, "%s: dtype of %s is %s, must be %s", op, row->name, qg__dtype_name(row->a->dtype), text);
}

static qg_status check_rank(const char *op, const char *name, const qg_array *a, int rank)
{
    if (a->rank == rank) return QG_OK;
    return qg_fail(QG_ESHAPE, "%s: rank of %s is %d, must be %d", op, name, a->rank, rank);
}

static qg_status check_same_shape(const char *op, const char *name, const qg_array *a,
                                  const char *b_name, const qg_array *b)
{
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++) same = a->dims[i] == b->dims[i];
    if (same) return QG_OK;
    char at[QG__SHAPE_BYTES], bt[QG__SHAPE_BYTES];
    return qg_fail(QG_ESHAPE, "%s: shape of %s is %s, must be %s as %s", op, name,
                   qg__array_shape(a, at), qg__array_shape(b, bt), b_name);
}

static qg_status check_vector(const char *op, const char *name, const qg_array *a, size_t n)
{
    if (a->rank == 1 && a->dims[0] == n) return QG_OK;
    char text[QG__SHAPE_BYTES];
    return qg_fail(QG_ESHAPE, "%s: shape of %s is %s, must be [%zu]", op, name,
                   qg__array_shape(a, text), n);
}

/* The array of the row with that name; the tables of the operators name only rows that they have. */
static const qg_array *named(const qg__operand *rows, const char *name)
{
    while (strcmp(rows->name, name) != 0) rows++;
    return rows->a;
}

/* One element for each slice of x. */
static qg_status check_slices(const char *op, const qg__operand *row, const qg_array *x)
{
    const char *axis = row->axis_name ? row->axis_name : "axis";
    if (row->axis < -1 || row->axis >= x->rank)
        return qg_fail(QG_EARG, "%s: %s is %d, must be -1 .. %d", op, axis, row->axis, x->rank - 1);
    const bool one = row->axis < 0 || (row->or_one && x->dims[row->axis] == 1);
    if (!one) return check_vector(op, row->name, row->a, x->dims[row->axis]);
    if (!row->any_rank) return check_rank(op, row->name, row->a, 0);
    const size_t n = qg_array_count(row->a);
    if (n == 1) return QG_OK;
    return qg_fail(QG_ESHAPE, "%s: %s has %zu elements, must have 1 if %s is %d", op, row->name, n, axis, row->axis);
}

static qg_status check_shape(const char *op, const qg__operand *rows, const qg__operand *row)
{
    qg_status s = row->rank || row->scalar ? check_rank(op, row->name, row->a, row->rank) : QG_OK;
    if (!s && row->like) s = check_same_shape(op, row->name, row->a, row->like, named(rows, row->like));
    if (!s && row->along) s = check_slices(op, row, named(rows, row->along));
    return s;
}

static qg_status check_values(const char *op, const qg__operand *rows, const qg__operand *row)
{
    if (row->values == QG__ANY_VALUE && !row->least) return QG_OK;
    const float *v     = row->a->data;
    const float *least = row->least ? named(rows, row->least)->data : NULL;
    for (size_t k = 0, n = qg_array_count(row->a); k < n; k++) {
        if (!isfinite(v[k]) || (row->values == QG__POSITIVE && v[k] <= 0.0f))
            return qg_fail(QG_EARG, "%s: %s[%zu] is %g, must be %sfinite", op, row->name, k, (double)v[k],
                           row->values == QG__POSITIVE ? "> 0 and " : "");
        if (least && least[k] > v[k])
            return qg_fail(QG_EARG, "%s: %s[%zu] is %.9g, must be <= %s, %.9g", op, row->least, k,
                           (double)least[k], row->name, (double)v[k]);
    }
    return QG_OK;
}

qg_status qg__check_operands(const char *op, const qg__operand *rows, size_t n)
{
    qg_status s = QG_OK;
    for (const qg__operand *row = rows; !s && row < rows + n; row++) {
        if (row->optional && !row->a) continue;
        s = check_view(op, row->name, row->a);
        if (!s) s = check_dtype(op, row);
        if (!s) s = check_shape(op, rows, row);
        if (!s) s = check_values(op, rows, row);
    }
    return s;
}

qg_status qg__check_attributes(const char *op, const qg__attribute *rows, size_t n)
{
    for (const qg__attribute *a = rows; a < rows + n; a++) {
        if (a->value >= a->least && a->value <= a->most) continue;
        char range[64];
        snprintf(range, sizeof range, "%lld .. %lld", (long long)a->least, (long long)a->most);
        return qg_fail(QG_EARG, "%s: %s is %lld, must be %s", op, a->name, (long long)a->value,
                       a->words ? a->words : range);
    }
    return QG_OK;
}

qg_status qg__check_same_shape(const char *op, const char *name, const qg_array *a, const char *b_name,
                               const qg_array *b)
{
    const qg__operand row = { name, a, .dtypes = QG__F32 };
    const qg_status   s   = qg__check_operands(op, &row, 1);
    return s ? s : check_same_shape(op, name, a, b_name, b);
}

qg_status qg__check_pair(const char *op, const char *a_name, const qg_array *a, const char *b_name,
                         const qg_array *b)
{
    const qg__operand rows[] = { { b_name, b, .dtypes = QG__F32 }, { a_name, a, .dtypes = QG__F32, .like = b_name } };
    return QG__CHECK_OPERANDS(op, rows);
}

qg_status qg__check_forward(const char *op, const qg_array *x, const qg_array *y)
{
    return qg__check_pair(op, "y", y, "x", x);
}

qg_status qg__check_backward(const char *op, const qg_array *x, const qg_array *dy,
                             const qg_array *dx)
{
    const qg__operand rows[] = { { "x", x, .dtypes = QG__F32 },
                                 { "dy", dy, .dtypes = QG__F32, .like = "x" },
                                 { "dx", dx, .dtypes = QG__F32, .like = "x" } };
    return QG__CHECK_OPERANDS(op, rows);
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
    const qg__operand row = { name, a, .dtypes = QG__F32, .optional = true };
    const qg_status   s   = qg__check_operands(op, &row, 1);
    return s || !a ? s : check_vector(op, name, a, n);
}

qg_status qg__check_int(const char *op, const char *name, int v, int least, int most)
{
    const qg__attribute row = { name, v, least, most, NULL };
    return qg__check_attributes(op, &row, 1);
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

void qg__zero(const qg_array *a)
{
    const size_t n = qg_array_count(a);
    if (n) memset(a->data, 0, n * sizeof(float));
}

qg_status qg__surrogate_gradient(const char *op, const qg_array *x, const qg_array *dy, qg_surrogate s, qg_surrogate own,
                                 qg_array *dx)
{
    const qg_status status = qg__check_backward(op, x, dy, dx);
    if (status) return status;
    qg__zero(dx);
    qg__surrogate_slope(qg__surrogate_or(s, own), qg_array_count(x), qg__floats(x), qg__floats(dy), qg__floats(dx));
    return QG_OK;
}

qg_status qg__form_operator(const char *op, const qg_scheme *scheme, qg_constants k, const qg_array *x, qg_array *y)
{
    const qg_status s = qg__check_forward(op, x, y);
    if (!s) qg__form_values(scheme->form, &k, qg_array_count(x), qg__floats(x), qg__floats(y));
    return s;
}

qg_status qg__form_operator_gradient(const char *op, const qg_scheme *scheme, qg_constants k, qg_surrogate s, const qg_array *x,
                                     const qg_array *dy, qg_array *dx, double (*sum)[QG_FORM_SUMS])
{
    const qg_binding b      = { .q = { .scheme = scheme } };
    const qg_status  status = qg__check_backward(op, x, dy, dx);
    if (status) return status;
    qg__zero(dx);
    qg__form_gradient(&b, s, qg__split_at(x, -1), &k, qg__floats(x), qg__floats(dy), qg__floats(dx), sum);
    return QG_OK;
}
