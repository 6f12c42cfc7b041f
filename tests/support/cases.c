#include "tests/support/cases.h"

#include "core/io/safetensors.h"
#include "tests/support/case_state.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No vector is near it; what asks for more has shapes that are not to be trusted. */
static const size_t most_bytes = (size_t)1 << 28;

/* ---- complaints and results ---- */

void case_complain(test_case *c, const char *fmt, ...)
{
    if (c->complaint[0]) return;
    va_list args;
    va_start(args, fmt);
    vsnprintf(c->complaint, sizeof c->complaint, fmt, args);
    va_end(args);
}

bool case_ready(const test_case *c)
{
    return !c->complaint[0] && c->result == QG_OK;
}

bool case__touched(const qg_array *a)
{
    const size_t bytes = a->data ? qg_array_count(a) * qg__dtype_bytes(a->dtype) : 0;
    for (size_t b = 0; b < bytes; b++)
        if (((const unsigned char *)a->data)[b] != CASE_POISON) return true;
    return false;
}

void case_result(test_case *c, qg_status s)
{
    c->has_result = true;
    if (s == QG_OK)     /* what this call wrote, a later one may leave behind when it fails */
        for (int i = 0; i < c->n_out; i++)
            c->out[i].written = c->out[i].written || case__touched(&c->out[i].array);
    if (c->result != QG_OK || s == QG_OK) return;
    c->result = s;
    snprintf(c->error, sizeof c->error, "%s", qg_errmsg());
}

/* ---- attributes ---- */

static const cJSON *attribute(test_case *c, const char *name)
{
    if (c->n_asked < CASE_NAMES)
        c->asked[c->n_asked++] = name;
    else
        case_complain(c, "attribute %s: more than %d are read", name, CASE_NAMES);
    return cJSON_GetObjectItemCaseSensitive(c->attrs, name);
}

static const cJSON *required(test_case *c, const char *name)
{
    const cJSON *a = attribute(c, name);
    if (!a) case_complain(c, "attribute %s is missing", name);
    return a;
}

/* JSON has no words for the specials of IEEE 754; the files spell them as strings. */
bool case__number(const cJSON *a, double *value)
{
    if (cJSON_IsNumber(a)) {
        *value = a->valuedouble;
        return true;
    }
    if (!cJSON_IsString(a)) return false;
    if (strcmp(a->valuestring, "nan") == 0)
        *value = NAN;
    else if (strcmp(a->valuestring, "inf") == 0)
        *value = INFINITY;
    else if (strcmp(a->valuestring, "-inf") == 0)
        *value = -INFINITY;
    else
        return false;
    return true;
}

static bool whole(const cJSON *a, double low, double high, double *value)
{
    return case__number(a, value) && *value >= low && *value <= high && *value == floor(*value);
}

static bool boolean(test_case *c, const char *name, const cJSON *a, bool absent)
{
    if (!a) return absent;
    if (!cJSON_IsBool(a)) case_complain(c, "attribute %s must be true or false", name);
    return cJSON_IsTrue(a);
}

bool case_bool(test_case *c, const char *name)
{
    return boolean(c, name, required(c, name), false);
}

bool case_bool_or(test_case *c, const char *name, bool absent)
{
    return boolean(c, name, attribute(c, name), absent);
}

static int integer(test_case *c, const char *name, const cJSON *a, int absent)
{
    double value = absent;
    if (a && !whole(a, INT_MIN, INT_MAX, &value)) {
        case_complain(c, "attribute %s is not a 32-bit integer", name);
        return absent;
    }
    return (int)value;
}

int case_int(test_case *c, const char *name)
{
    return integer(c, name, required(c, name), 0);
}

int case_int_or(test_case *c, const char *name, int absent)
{
    return integer(c, name, attribute(c, name), absent);
}

double case_double(test_case *c, const char *name)
{
    double       value = 0.0;
    const cJSON *a     = required(c, name);
    if (a && !case__number(a, &value)) case_complain(c, "attribute %s is not a number", name);
    return value;
}

float case_float(test_case *c, const char *name)
{
    return (float)case_double(c, name);
}

float case_float_or_null(test_case *c, const char *name, bool *is_null)
{
    double       value = 0.0;
    const cJSON *a     = required(c, name);
    *is_null           = cJSON_IsNull(a);
    if (a && !*is_null && !case__number(a, &value))
        case_complain(c, "attribute %s must be a number or null", name);
    return (float)value;
}

void case_ints(test_case *c, const char *name, int n, int *values)
{
    for (int i = 0; i < n; i++) values[i] = 0;
    const cJSON *list = required(c, name);
    if (!list) return;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != n) {
        case_complain(c, "attribute %s is not a list of %d", name, n);
        return;
    }
    int          i = 0;
    const cJSON *a;
    cJSON_ArrayForEach(a, list) {
        double value;
        if (!whole(a, INT_MIN, INT_MAX, &value)) {
            case_complain(c, "attribute %s[%d] is not a 32-bit integer", name, i);
            return;
        }
        values[i++] = (int)value;
    }
}

static int choice(test_case *c, const char *name, const cJSON *a, const char *const *choices,
                  int absent)
{
    if (!a) return absent;
    if (!cJSON_IsString(a)) {
        case_complain(c, "attribute %s is not a string", name);
        return absent;
    }
    for (int i = 0; choices[i]; i++)
        if (strcmp(a->valuestring, choices[i]) == 0) return i;
    case_complain(c, "attribute %s has the unknown value \"%.60s\"", name, a->valuestring);
    return absent;
}

int case_choice(test_case *c, const char *name, const char *const *choices)
{
    return choice(c, name, required(c, name), choices, 0);
}

int case_choice_or(test_case *c, const char *name, const char *const *choices, int absent)
{
    return choice(c, name, attribute(c, name), choices, absent);
}

/* ---- tensors ---- */

static const struct {
    const char *name;
    qg_dtype    dtype;
    double      low, high;      /* of the integers */
} dtypes[] = {
    { "float32", QG_F32, 0, 0 },
    { "float64", QG_F64, 0, 0 },
    { "int8", QG_I8, INT8_MIN, INT8_MAX },
    { "uint8", QG_U8, 0, UINT8_MAX },
    { "int16", QG_I16, INT16_MIN, INT16_MAX },
    { "uint16", QG_U16, 0, UINT16_MAX },
    { "int32", QG_I32, INT32_MIN, INT32_MAX },
};
enum { N_DTYPES = sizeof dtypes / sizeof dtypes[0] };

/* The row of the dtype of {"dtype", "shape", "data"}; -1 if it is none. */
static int dtype_row(const cJSON *tensor)
{
    const cJSON *d = cJSON_GetObjectItemCaseSensitive(tensor, "dtype");
    for (int i = 0; cJSON_IsString(d) && i < N_DTYPES; i++)
        if (strcmp(d->valuestring, dtypes[i].name) == 0) return i;
    return -1;
}

bool case__dtype(const cJSON *tensor, qg_dtype *dtype)
{
    const int row = dtype_row(tensor);
    if (row >= 0) *dtype = dtypes[row].dtype;
    return row >= 0;
}

double case__element(const qg_array *a, size_t i)
{
    switch (a->dtype) {
    case QG_F32: return (double)((const float *)a->data)[i];
    case QG_F64: return ((const double *)a->data)[i];
    case QG_I8: return ((const int8_t *)a->data)[i];
    case QG_U8: return ((const uint8_t *)a->data)[i];
    case QG_I16: return ((const int16_t *)a->data)[i];
    case QG_U16: return ((const uint16_t *)a->data)[i];
    case QG_I32: return ((const int32_t *)a->data)[i];
    default: return NAN;
    }
}

static void set_element(qg_array *a, size_t i, double value)
{
    switch (a->dtype) {
    case QG_F32: ((float *)a->data)[i] = (float)value; break;
    case QG_F64: ((double *)a->data)[i] = value; break;
    case QG_I8: ((int8_t *)a->data)[i] = (int8_t)value; break;
    case QG_U8: ((uint8_t *)a->data)[i] = (uint8_t)value; break;
    case QG_I16: ((int16_t *)a->data)[i] = (int16_t)value; break;
    case QG_U16: ((uint16_t *)a->data)[i] = (uint16_t)value; break;
    case QG_I32: ((int32_t *)a->data)[i] = (int32_t)value; break;
    default: break;
    }
}

bool case__shape(const cJSON *tensor, qg_array *a)
{
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(tensor, "shape");
    if (!cJSON_IsArray(shape) || cJSON_GetArraySize(shape) > QG_MAX_RANK) return false;
    const cJSON *d;
    cJSON_ArrayForEach(d, shape) {
        double value;
        if (!whole(d, 0, INT_MAX, &value)) return false;
        a->dims[a->rank++] = (size_t)value;
    }
    return true;
}

/* Whether the shape asks for exactly n elements; counted without a product that could overflow. */
bool case__fills(const qg_array *a, size_t n)
{
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] == 0) return n == 0;
    for (int i = 0; i < a->rank; i++) {
        if (n % a->dims[i] != 0) return false;
        n /= a->dims[i];
    }
    return n == 1;
}

static void allocate(test_case *c, const char *name, qg_array *a)
{
    size_t bytes = qg__dtype_bytes(a->dtype);
    for (int i = 0; i < a->rank; i++) {
        if (a->dims[i] == 0) return;
        if (bytes <= most_bytes) bytes = a->dims[i] > most_bytes ? SIZE_MAX : bytes * a->dims[i];
    }
    if (bytes > most_bytes) {
        case_complain(c, "%s: more than %zu bytes", name, most_bytes);
        *a = (qg_array){ .dtype = a->dtype, .rank = 1 };
        return;
    }
    a->data = malloc(bytes);    /* one block each: a sanitizer sees every overrun */
    if (a->data)
        memset(a->data, CASE_POISON, bytes);
    else
        case_complain(c, "%s: no memory for %zu bytes", name, bytes);
}

/* Reads {"dtype", "shape", "data"} into a new block of a. */
static void read_tensor(test_case *c, const char *name, const cJSON *tensor, qg_array *a)
{
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(tensor, "data");
    const int    row  = dtype_row(tensor);
    qg_array     read = { 0 };
    if (row < 0) {
        case_complain(c, "%s: unknown dtype", name);
        return;
    }
    if (!case__shape(tensor, &read) || !cJSON_IsArray(data)) {
        case_complain(c, "%s: shape or data is not a list of numbers", name);
        return;
    }
    if (!case__fills(&read, (size_t)cJSON_GetArraySize(data))) {
        case_complain(c, "%s: %d numbers do not fill its shape", name, cJSON_GetArraySize(data));
        return;
    }
    read.dtype = dtypes[row].dtype;
    *a         = read;
    allocate(c, name, a);
    if (!case_ready(c)) return;
    const bool   real = read.dtype == QG_F32 || read.dtype == QG_F64;
    size_t       i    = 0;
    const cJSON *e;
    cJSON_ArrayForEach(e, data) {
        double value;
        if (!(real ? case__number(e, &value)
                   : whole(e, dtypes[row].low, dtypes[row].high, &value))) {
            case_complain(c, "%s[%zu] is not a number of type %s", name, i, dtypes[row].name);
            return;
        }
        set_element(a, i++, value);
    }
}

const qg_array *case_input(test_case *c, const char *name)
{
    static const qg_array nothing = { .dtype = QG_F32, .rank = 1, .dims = { 0 } };
    for (int i = 0; i < c->n_in; i++)
        if (strcmp(c->in[i].name, name) == 0) return &c->in[i].array;
    if (c->n_in == CASE_NAMES) {
        case_complain(c, "input %s: more than %d are read", name, CASE_NAMES);
        return &nothing;
    }
    case_slot   *s      = &c->in[c->n_in++];
    const cJSON *tensor = cJSON_GetObjectItemCaseSensitive(c->inputs, name);
    *s                  = (case_slot){ .name = name, .array = nothing };
    if (tensor)
        read_tensor(c, name, tensor, &s->array);
    else
        case_complain(c, "input %s is missing", name);
    return &s->array;
}

const qg_array *case_input_of(test_case *c, const char *name, qg_dtype dtype)
{
    const qg_array *a = case_input(c, name);
    if (a->dtype != dtype)
        case_complain(c, "input %s: dtype is %s, not %s", name, qg__dtype_name(a->dtype),
                      qg__dtype_name(dtype));
    return a;
}

float case_scalar(test_case *c, const char *name)
{
    const qg_array *a = case_input_of(c, name, QG_F32);
    if (!case_ready(c)) return 0.0f;
    if (a->rank != 0) {
        case_result(c, qg_fail(QG_ESHAPE, "%s: rank is %d, must be 0", name, a->rank));
        return 0.0f;
    }
    return *(const float *)a->data;
}

qg_array *case_output(test_case *c, const char *name, qg_dtype dtype, int rank, const size_t *dims)
{
    if (c->n_out == CASE_NAMES) {
        case_complain(c, "more than %d outputs are declared", CASE_NAMES);
        return &c->out[0].array;
    }
    case_slot *s = &c->out[c->n_out++];
    *s           = (case_slot){ .name = name, .array = { .dtype = dtype, .rank = rank } };
    for (int i = 0; i < rank; i++) s->array.dims[i] = dims[i];
    allocate(c, name ? name : "scratch", &s->array);
    return &s->array;
}

qg_array *case_scratch(test_case *c, qg_dtype dtype, const qg_array *shape)
{
    return case_output(c, NULL, dtype, shape->rank, shape->dims);
}

qg_array *case_output_like(test_case *c, const char *name, qg_dtype dtype, const qg_array *shape)
{
    return case_output(c, name, dtype, shape->rank, shape->dims);
}

bool case_expects(const test_case *c, const char *name, qg_dtype *dtype)
{
    return case__dtype(cJSON_GetObjectItemCaseSensitive(c->expected, name), dtype);
}
