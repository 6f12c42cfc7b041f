#include "tests/support/testing.h"

#include <stdlib.h>
#include <string.h>

#include "core/ops/ops.h"
#include "core/kernels/parallel.h"
#include "tests/support/nets.h"

static const struct geometry { qg_shape x; int stride, channels; } cases[] = {
    { { 1, 1, 1, 1 }, 1, 1 },   { { 2, 5, 4, 3 }, 1, 3 },   { { 3, 7, 6, 5 }, 2, 10 },
    { { 9, 4, 4, 16 }, 2, 32 },
    { { 1, 3, 9, 2 }, 3, 5 },   { { 2, 5, 5, 31 }, 7, 63 }, { { 2, 2, 3, 33 }, 1, 65 },
};

static size_t at(qg_shape s, int n, int h, int w, int c)
{
    return (((size_t)n * (size_t)s.h + (size_t)h) * (size_t)s.w + (size_t)w) * (size_t)s.c + (size_t)c;
}

/* y and dx one element at a time; zero channels in front: half of the new ones, rounded down. */
static void shortcut_ref(const struct geometry *g, qg_shape ys, const float *x, const float *dy,
                         float *y, float *dx)
{
    const int first = (g->channels - g->x.c) / 2;
    memset(dx, 0, qg_count(g->x) * sizeof *dx);
    for (int n = 0; n < ys.n; n++)
        for (int h = 0; h < ys.h; h++)
            for (int w = 0; w < ys.w; w++)
                for (int c = 0; c < ys.c; c++) {
                    const bool   in   = c >= first && c < first + g->x.c;
                    const size_t from = in ? at(g->x, n, h * g->stride, w * g->stride, c - first) : 0;
                    y[at(ys, n, h, w, c)] = in ? x[from] : 0;
                    if (in) dx[from] += dy[at(ys, n, h, w, c)];
                }
}

static void check(const struct geometry *g, bool twice)
{
    const qg_shape ys = { g->x.n, (g->x.h - 1) / g->stride + 1, (g->x.w - 1) / g->stride + 1, g->channels };
    const size_t   m = qg_count(ys), n = qg_count(g->x);
    float         *y = malloc((2 * m + n) * sizeof *y), *dy = y + m, *dx = dy + m;
    qg_params      p = { 0 };
    qg_tape       *t = qg_tape_new();
    assert_non_null(y);
    declare(&p, "x", g->x);
    allocate_apart(&p, 1);
    fill_uniform(dy, m, -1, 1, 2);
    shortcut_ref(g, ys, p.item[0]->value, dy, y, dx);
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    qg_var *x = qg_scale(t, qg_parameter(t, p.item[0]), 1);
    qg_var *v = qg_shortcut(t, x, g->stride, g->channels);
    assert_true(qg_shape_equal(v->shape, ys));
    assert_memory_equal(v->data, y, m * sizeof *y);
    if (twice) v = qg_add(t, v, qg_shortcut(t, x, g->stride, g->channels));
    assert_ok(qg_backward(t, weighed(t, v, dy)));
    for (size_t i = 0; twice && i < n; i++) dx[i] *= 2;
    assert_memory_equal(p.item[0]->grad, dx, n * sizeof *dx);      /* copies and doublings are exact */
    free(y);
    qg_tape_free(t);
    qg_params_release(&p);
}

static void is_its_definition(void **state)
{
    for (int threads = 1; threads <= 3; threads++) {
        qg_set_threads(threads);
        for (int i = 0; i < COUNT(cases); i++) check(&cases[i], false), check(&cases[i], true);
    }
    qg_set_threads(0);
}

static qg_var *build(qg_tape *t, const qg_params *p, void *context)
{
    const struct geometry *g = context;
    return qg_shortcut(t, qg_parameter(t, p->item[0]), g->stride, g->channels);
}

static void gradients(void **state)
{
    for (int i = 0; i < COUNT(cases); i++) {
        struct geometry g = cases[i];
        qg_params       p = { 0 };
        declare(&p, "x", g.x);
        allocate_apart(&p, 1);
        assert_gradcheck((qg_gradcheck_spec){ .name = "shortcut", .params = &p, .build = build,
                                              .context = &g });
        qg_params_release(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_its_definition),
        cmocka_unit_test(gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
