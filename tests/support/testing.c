#include "tests/support/testing.h"

#include <math.h>
#include <string.h>

#include "core/rng.h"

void fill_uniform(float *x, size_t n, float lo, float hi, uint64_t key)
{
    for (size_t i = 0; i < n; i++) x[i] = lo + (hi - lo) * qg_uniform(key, i);
}

void fill_apart(float *x, size_t n, uint64_t key)
{
    /* The middles of equal parts of -1..1: an even number of them, so that none is 0. */
    const float part = 2.0f / (float)(n + n % 2);
    for (size_t i = 0; i < n; i++) x[i] = -1.0f + part * ((float)i + 0.5f);
    for (size_t i = n; i > 1; i--) {
        const size_t j = (size_t)(qg_bits(key, i) % i);
        const float  v = x[i - 1];
        x[i - 1]       = x[j];
        x[j]           = v;
    }
}

qg_param *declare(qg_params *p, const char *name, qg_shape shape)
{
    qg_param *item = qg_params_declare(p, (qg_param){ .name = name, .shape = shape });
    assert_non_null(item);
    return item;
}

void allocate_apart(qg_params *p, uint64_t key)
{
    assert_ok(qg_params_allocate(p));
    for (int i = 0; i < p->count; i++)
        fill_apart(p->item[i]->value, qg_count(p->item[i]->shape), qg_rng_fork(key, (uint64_t)i));
}

static void total_backward(qg_tape *t, qg_var *y)
{
    qg_var *x = y->in[0];
    for (size_t i = 0, m = qg_count(x->shape); i < m; i++) x->grad[i] += y->grad[0];
}

static const qg_op total_op = { "total", total_backward, .assigns = false };

qg_var *total(qg_tape *t, qg_var *x)
{
    qg_var *y = x ? qg_record(t, &total_op, (qg_shape){ 1, 1, 1, 1 }, x, NULL, NULL) : NULL;
    if (!y) return NULL;
    double sum = 0;
    for (size_t i = 0, m = qg_count(x->shape); i < m; i++) sum += (double)x->data[i];
    y->data[0] = (float)sum;
    return y;
}

void assert_close(const float *actual, const float *expected, size_t n, double tolerance)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)actual[i] - (double)expected[i]) <= tolerance))
            fail_msg("[%zu] is %.9g, not %.9g to within %g", i, (double)actual[i],
                     (double)expected[i], tolerance);
}

void assert_message(const char *part)
{
    if (!strstr(qg_errmsg(), part)) fail_msg("\"%s\" does not say \"%s\"", qg_errmsg(), part);
}

void check_status(qg_status got, qg_status want, const char *part, const char *file, int line)
{
    if (got == want && (got == QG_OK || strstr(qg_errmsg(), part))) return;
    print_error("ERROR: status %d, expected %d with \"%s\": %s\n", (int)got, (int)want, part, got ? qg_errmsg() : "");
    _fail(file, line);
}

void check_none(const void *p, const char *part, const char *file, int line)
{
    if (!p && strstr(qg_errmsg(), part)) return;
    print_error("ERROR: %s, expected NULL with \"%s\": %s\n", p ? "a pointer" : "NULL", part, qg_errmsg());
    _fail(file, line);
}

void assert_gradcheck(qg_gradcheck_spec spec)
{
    qg_gradcheck_result r;
    if (qg_gradcheck(spec, &r)) fail_msg("%s", qg_errmsg());
    if (!r.pass)
        fail_msg("%s: %s is off by %g, more than %g (%s)", r.name, r.worst, r.error, r.tolerance,
                 r.reason);
}
