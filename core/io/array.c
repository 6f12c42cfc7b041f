#include "core/io/array.h"

#include <stdio.h>
#include <string.h>

#include "core/io/safetensors.h"

const char *qg__dtype_name(qg_dtype d)
{
    switch (d) {
#define X(code, text, bytes)                                                                       \
    case code: return text;
        QG_DTYPE_LIST(X)
#undef X
    }
    return "?";
}

size_t qg__dtype_bytes(qg_dtype d)
{
    switch (d) {
#define X(code, text, bytes)                                                                       \
    case code: return bytes;
        QG_DTYPE_LIST(X)
#undef X
    }
    return 0;
}

size_t qg_array_count(const qg_array *a)
{
    size_t n = 1;
    for (int i = 0; i < a->rank; i++) n *= a->dims[i];
    return n;
}

bool qg__array_same_shape(qg_array a, qg_array b)
{
    return a.rank == b.rank && !memcmp(a.dims, b.dims, (size_t)a.rank * sizeof *a.dims);
}

const char *qg__array_shape(const qg_array *a, char text[QG__SHAPE_BYTES])
{
    int n = snprintf(text, QG__SHAPE_BYTES, "[");
    for (int i = 0; i < a->rank; i++)
        n += snprintf(text + n, QG__SHAPE_BYTES - (size_t)n, i ? ",%zu" : "%zu", a->dims[i]);
    snprintf(text + n, QG__SHAPE_BYTES - (size_t)n, "]");
    return text;
}
