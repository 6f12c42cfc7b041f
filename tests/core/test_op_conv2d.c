#include "tests/support/testing.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernels/conv_kernel.h"
#include "core/ops/ops.h"
#include "core/kernels/parallel.h"
#include "core/rng.h"
#include "tests/support/conv_ref.h"
#include "tests/support/environment.h"
#include "tests/support/nets.h"

/* The last three gradients of w go by units for their size, not for a small batch; the three of sixteens,
 * 3 x 3, go Winograd's way, by slices, by units for a small batch, and by units for their size. */
static const shapes cases[] = {
    { { 1, 1, 1, 1 }, { 1, 1, 1, 1 }, { 0 } },
    { { 1, 3, 3, 1 }, { 1, 3, 3, 1 }, { .stride = 1 } },
    { { 2, 7, 5, 3 }, { 5, 3, 3, 3 }, { .pad_h = 1, .pad_w = 1 } },
    { { 7, 6, 9, 5 }, { 16, 1, 1, 5 }, { .stride = 2 } },
    { { 8, 5, 7, 16 }, { 16, 3, 3, 16 }, { .pad_h = 1, .pad_w = 1, .pad_value = 1 } },
    { { 9, 8, 6, 16 }, { 20, 5, 5, 16 }, { .pad_h = 2, .pad_w = 2, .pad_value = -1 } },
    { { 1, 9, 8, 33 }, { 33, 3, 1, 33 }, { .stride = 2, .pad_h = 1 } },
    { { 8, 8, 11, 33 }, { 1, 1, 5, 33 }, { .stride = 3, .pad_w = 2 } },
    { { 2, 12, 13, 1 }, { 64, 5, 5, 1 }, { .stride = 2, .pad_h = 1, .pad_w = 2, .pad_value = -1 } },
    { { 9, 10, 10, 3 }, { 64, 3, 3, 3 }, { .stride = 3, .pad_h = 2, .pad_w = 1, .pad_value = 1 } },
    { { 7, 6, 6, 5 }, { 33, 5, 5, 5 }, { .stride = 1 } },
    { { 2, 4, 6, 16 }, { 16, 3, 3, 16 }, { .pad_h = 1, .pad_w = 1 } },      /* Winograd's way, as below */
    { { 8, 28, 28, 1 }, { 32, 5, 5, 1 }, { 0 } },
    { { 8, 7, 6, 32 }, { 64, 5, 5, 32 }, { 0 } },
    { { 17, 4, 4, 31 }, { 15, 2, 2, 31 }, { .stride = 2 } },
    { { 9, 5, 4, 17 }, { 47, 2, 3, 17 }, { .stride = 3, .pad_h = 1 } },
    { { 2, 7, 7, 3 }, { 4, 1, 1, 3 }, { .stride = 3 } },    /* most of x is never read */
    { { 1, 2, 2, 1 }, { 1, 2, 2, 1 }, { .stride = 1000 } },     /* one output, whatever the stride */
    { { 2, 4, 3, 3 }, { 64, 2, 2, 3 }, { .stride = INT_MAX } },
    { { 1, 1, 1, 7 }, { 6, 3, 3, 7 }, { .pad_h = 1, .pad_w = 1, .pad_value = 1 } },
    { { 9, 8, 6, 16 }, { 48, 3, 3, 16 }, { .pad_h = 1, .pad_w = 1, .pad_value = -1 } },
    { { 2, 6, 10, 32 }, { 80, 3, 3, 32 }, { .pad_h = 1, .pad_w = 1 } },
    { { 9, 4, 4, 256 }, { 192, 3, 3, 256 }, { .pad_h = 1, .pad_w = 1, .pad_value = 1 } },
    { { 9, 1, 1, 256 }, { 256, 3, 3, 256 }, { .pad_h = 1, .pad_w = 1, .pad_value = -1 } },
    { { 8, 2, 3, 271 }, { 331, 2, 3, 271 }, { 0 } },
    /* More padding below and on the right; the mirror of even kernels, and Winograd's with all of it on one side. */
    { { 2, 7, 6, 5 }, { 3, 3, 3, 5 }, { .stride = 2, .extra_h = 1, .extra_w = 1 } },
    { { 9, 6, 7, 17 }, { 33, 3, 3, 17 }, { .stride = 2, .pad_w = 1, .extra_h = 1, .pad_value = -1 } },
    { { 3, 5, 7, 4 }, { 6, 2, 2, 4 }, { .extra_h = 1, .extra_w = 1 } },
    { { 9, 5, 6, 33 }, { 31, 4, 2, 33 }, { .pad_h = 1, .extra_h = 1, .extra_w = 1, .pad_value = 1 } },
    { { 9, 4, 6, 16 }, { 32, 3, 3, 16 }, { .extra_h = 2, .extra_w = 2 } },
    /* Groups, by slices, for a small batch and for the size of the weight; Winograd's; in place. */
    { { 2, 5, 6, 4 }, { 6, 3, 3, 2 }, { .pad_h = 1, .pad_w = 1, .groups = 2 } },
    { { 9, 6, 5, 33 }, { 66, 3, 3, 11 }, { .stride = 2, .pad_h = 1, .extra_w = 1, .pad_value = -1, .groups = 3 } },
    { { 8, 7, 5, 65 }, { 15, 2, 3, 13 }, { .stride = 3, .pad_w = 1, .groups = 5 } },
    { { 9, 4, 4, 32 }, { 64, 3, 3, 16 }, { .pad_h = 1, .pad_w = 1, .groups = 2 } },
    { { 8, 2, 3, 410 }, { 620, 2, 3, 205 }, { .groups = 2 } },
    { { 3, 3, 3, 6 }, { 4, 1, 1, 3 }, { .groups = 2 } },
    /* Depthwise. */
    { { 1, 1, 1, 2 }, { 2, 1, 1, 1 }, { .groups = 2 } },
    { { 2, 7, 5, 3 }, { 3, 3, 3, 1 }, { .pad_h = 1, .pad_w = 1, .groups = 3 } },
    { { 9, 5, 6, 31 }, { 31, 3, 3, 1 }, { .stride = 2, .pad_h = 1, .pad_w = 1, .pad_value = 1, .groups = 31 } },
    { { 8, 9, 31, 33 }, { 33, 3, 3, 1 }, { .pad_h = 1, .pad_w = 1, .groups = 33 } },
    { { 7, 8, 7, 65 }, { 65, 5, 4, 1 }, { .stride = 3, .pad_h = 2, .pad_w = 1, .extra_w = 2, .groups = 65 } },
    { { 9, 4, 3, 16 }, { 16, 3, 3, 1 }, { .stride = 2, .extra_h = 1, .extra_w = 1, .groups = 16 } },
    { { 1, 6, 6, 63 }, { 63, 1, 2, 1 }, { .stride = 3, .pad_h = 2, .pad_value = -1, .groups = 63 } },
    { { 9, 5, 4, 130 }, { 130, 7, 3, 1 }, { .pad_h = 5, .pad_w = 4, .groups = 130 } },
    { { 3, 5, 7, 130 }, { 130, 3, 3, 1 }, { .pad_h = 1, .pad_w = 1, .groups = 130 } },
    { { 2, 3, 2, 17 }, { 17, 2, 2, 1 }, { .stride = INT_MAX, .groups = 17 } },
    { { 9, 6, 5, 5 }, { 15, 3, 3, 1 }, { .stride = 2, .pad_h = 1, .pad_w = 1, .groups = 5 } },     /* three outputs each */
    { { 2, 4, 5, 33 }, { 66, 3, 2, 1 }, { .pad_h = 1, .pad_value = 1, .groups = 33 } },
};

/* --- the op ------------------------------------------------------------------------------- */

/* How gradients arrive and where operands come from. */
typedef struct way {
    bool bias;
    bool fresh;         /* x and w are results of an op: their gradients are assigned */
    bool twice;         /* the product is taken twice and added: the second gradient accumulates */
} way;

static qg_params operands(const shapes *s)
{
    qg_params p = { 0 };
    declare(&p, "x", s->x);
    declare(&p, "w", s->w);
    declare(&p, "b", (qg_shape){ 1, 1, 1, s->w.n });
    assert_ok(qg_params_allocate(&p));
    for (int i = 0; i < 3; i++)
        fill_uniform(p.item[i]->value, qg_count(p.item[i]->shape), -1, 1, (uint64_t)i);
    return p;
}

static qg_var *convolve(qg_tape *t, const qg_params *p, qg_conv_spec spec, way v)
{
    qg_var *x = qg_parameter(t, p->item[0]), *w = qg_parameter(t, p->item[1]);
    qg_var *b = v.bias ? qg_parameter(t, p->item[2]) : NULL;
    if (v.fresh) x = qg_scale(t, x, 1), w = qg_scale(t, w, 1), b = b ? qg_scale(t, b, 1) : NULL;
    qg_var *y = qg_conv2d(t, x, w, b, spec);
    return v.twice ? qg_add(t, y, qg_conv2d(t, x, w, b, spec)) : y;
}

static void run(const shapes *s, qg_params *p, way v, result *r)
{
    qg_tape *t = qg_tape_new();
    qg_params_clear_gradients(p);
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    qg_var *y = convolve(t, p, s->spec, v);
    assert_non_null(y);
    assert_true(qg_shape_equal(y->shape, r->y));
    memcpy(r->out, y->data, qg_count(r->y) * sizeof *r->out);
    assert_ok(qg_backward(t, weighed(t, y, r->dy)));
    memcpy(r->dx, p->item[0]->grad, qg_count(s->x) * sizeof *r->dx);
    memcpy(r->dw, p->item[1]->grad, qg_count(s->w) * sizeof *r->dw);
    memcpy(r->db, p->item[2]->grad, (size_t)s->w.n * sizeof *r->db);
    qg_tape_free(t);
}

/* A sum of m products of numbers in -1..1 and random sign grows like sqrt(m) / 3 and errs at each
 * of its m steps by up to 2^-24 of that: a random walk ends near m 2^-25.  Eight times that. */
static void assert_sums(const float *actual, const float *expected, size_t n, size_t m, way v)
{
    const float times = v.twice ? 2 : 1;
    float      *once  = floats(n);
    for (size_t i = 0; i < n; i++) once[i] = actual[i] / times;
    assert_close(once, expected, n, (double)(m + 1) * 0x1p-22);
    free(once);
}

static void check(const shapes *s, qg_params *p, way v, const result *want)
{
    result       got    = result_new(s);
    const size_t pixels = qg_count(got.y) / (size_t)s->w.n;
    run(s, p, v, &got);
    assert_sums(got.out, want->out, qg_count(got.y), qg_row(s->w), v);
    assert_sums(got.dx, want->dx, qg_count(s->x), qg_count(s->w) / (size_t)(s->spec.groups ? s->x.c : s->w.c), v);
    assert_sums(got.dw, want->dw, qg_count(s->w), pixels, v);
    if (v.bias) assert_sums(got.db, want->db, (size_t)s->w.n, pixels, v);
    result_free(got);
}

static void check_paths(const shapes *s, int i)
{
    const bool bias = i & 1;
    qg_params  p    = operands(s);
    result     want = result_new(s);
    conv_ref(s, p.item[0]->value, p.item[1]->value, bias ? p.item[2]->value : NULL, &want);
    for (int path = 0; path < PATHS; path++) {
        use_path(path);
        check(s, &p, (way){ bias, .fresh = (i + path) & 1 }, &want);
        check(s, &p, (way){ bias, .fresh = !((i + path) & 1), .twice = true }, &want);
    }
    result_free(want);
    qg_params_release(&p);
}

static void is_its_definition_on_every_path(void **state)
{
    for (int i = 0; i < COUNT(cases); i++) check_paths(&cases[i], i);
}

/* A keyed walk through small geometries, where tiles, tails and borders meet in every combination. */
static void is_its_definition_wherever_one_looks(void **state)
{
    for (uint64_t i = 0; i < 60; i++) {
        int draw[10];
        for (uint64_t k = 0; k < 10; k++) draw[k] = (int)(qg_bits(2024, 10 * i + k) >> 40);
        shapes s = { .w = { 1 + draw[0] % 70, 1 + draw[1] % 4, 1 + draw[2] % 4, 1 + draw[3] % 20 },
                     .spec = { .stride = 1 + draw[4] % 3, .pad_h = draw[5] % 3, .pad_w = draw[6] % 3,
                               .pad_value = (float)(draw[7] % 3 - 1) } };
        s.x = (qg_shape){ 1 + draw[7] % 10, s.w.h + draw[8] % 5, s.w.w + draw[9] % 15, s.w.c };
        check_paths(&s, (int)i);
    }
}

/* The same among groups, half of them depthwise, and among paddings that differ. */
static void is_its_definition_with_groups_and_uneven_padding(void **state)
{
    for (uint64_t i = 0; i < 60; i++) {
        int draw[13];
        for (uint64_t k = 0; k < 13; k++) draw[k] = (int)(qg_bits(2025, 13 * i + k) >> 40);
        const bool depthwise = i & 1;
        const int  groups = 1 + draw[0] % (depthwise ? 70 : 6), in = depthwise ? 1 : 1 + draw[1] % 20;
        const int  out = 1 + draw[2] % (depthwise ? 2 : 12);
        shapes s = { .w = { groups * out, 1 + draw[3] % 5, 1 + draw[4] % 5, in },
                     .spec = { .stride = 1 + draw[5] % 3, .pad_h = draw[6] % 4, .pad_w = draw[7] % 4,
                               .extra_h = draw[8] % 3, .extra_w = draw[9] % 3, .pad_value = (float)(draw[10] % 3 - 1),
                               .groups = groups } };
        s.x = (qg_shape){ 1 + draw[10] % 10, s.w.h + draw[11] % 5, s.w.w + draw[12] % 20, groups * in };
        check_paths(&s, (int)i);
    }
}

static void same_bits_for_any_number_of_threads(void **state)
{
    for (int i = 0; i < COUNT(cases); i++) {
        const shapes *s = &cases[i];
        const way     v = { .bias = true, .fresh = i & 1 };
        qg_params     p = operands(s);
        result        one = result_new(s), more = result_new(s);
        qg_set_threads(1);
        run(s, &p, v, &one);
        for (int threads = 2; threads <= 3; threads++) {
            qg_set_threads(threads);
            run(s, &p, v, &more);
            assert_memory_equal(one.out, more.out, qg_count(one.y) * sizeof(float));
            assert_memory_equal(one.dx, more.dx, qg_count(s->x) * sizeof(float));
            assert_memory_equal(one.dw, more.dw, qg_count(s->w) * sizeof(float));
            assert_memory_equal(one.db, more.db, (size_t)s->w.n * sizeof(float));
        }
        result_free(one), result_free(more);
        qg_params_release(&p);
    }
    qg_set_threads(0);
}

/* The bits tell which kernels worked: Winograd's round elsewhere than the direct ones. */
static void goes_winograds_way_where_it_fits(void **state)
{
    const shapes            s = { { 1, 4, 6, 16 }, { 16, 3, 3, 16 }, { .pad_h = 1, .pad_w = 1 } };
    const qg__conv          g = { .h = 6, .w = 8, .c = 16, .oh = 4, .ow = 6, .oc = 16, .kh = 3, .kw = 3, .stride = 1 };
    const qg__conv_kernels *k = QG_KERNELS(qg__winograd_kernels);
    qg_params               p = operands(&s);
    result                  r = result_new(&s);
    float *x = floats((size_t)(g.h * g.w * g.c)), *y = floats(qg_count(r.y));
    float *wf, *scratch;
    assert_int_equal(posix_memalign((void **)&wf, 64, qg__conv_forward_size(k, &g) * sizeof *wf), 0);
    assert_int_equal(posix_memalign((void **)&scratch, 64, k->scratch(&g) * sizeof *scratch), 0);
    run(&s, &p, (way){ 0 }, &r);
    qg__pad(4, 6, 16, (qg__frame){ 1, 1, 1, 1, 0.0f }, p.item[0]->value, x);
    for (int b = 0; b < qg__conv_blocks(k, g.oc); b++) k->pack_forward(&g, b, p.item[1]->value, wf);
    k->forward(&g, x, wf, NULL, false, y, scratch);
    assert_memory_equal(r.out, y, qg_count(r.y) * sizeof *y);
    free(x), free(y), free(wf), free(scratch);
    result_free(r);
    qg_params_release(&p);
}

/* --- gradients ---------------------------------------------------------------------------- */

typedef struct built {
    const shapes *s;
    way           v;
} built;

static qg_var *build(qg_tape *t, const qg_params *p, void *context)
{
    const built *b = context;
    return convolve(t, p, b->s->spec, b->v);
}

static void gradients(void **state)
{
    for (int i = 0; i < COUNT(cases); i++) {
        if (qg_count(cases[i].x) > 2000 || qg_count(cases[i].w) > 2000) continue;
        built     b = { &cases[i], { .bias = true, .fresh = i & 1, .twice = i & 2 } };
        qg_params p = operands(b.s);
        assert_gradcheck((qg_gradcheck_spec){ .name = "conv2d", .params = &p, .build = build, .context = &b });
        qg_params_release(&p);
    }
}

/* One var in two or three places of the formula: every place adds its part. */
typedef struct alias {
    qg_shape x;
    int      pad;
    bool     bias;
} alias;

static qg_var *build_alias(qg_tape *t, const qg_params *p, void *context)
{
    const alias *a = context;
    qg_var      *x = qg_scale(t, qg_parameter(t, p->item[0]), 1);
    return qg_conv2d(t, x, x, a->bias ? x : NULL, (qg_conv_spec){ .pad_h = a->pad, .pad_w = a->pad });
}

static void one_var_may_stand_in_several_places(void **state)
{
    alias all[] = {
        { { 3, 2, 2, 5 }, 0, false }, { { 9, 2, 3, 4 }, 0, false }, { { 1, 1, 1, 1 }, 0, true },
        { { 9, 1, 1, 1 }, 0, true },  { { 3, 3, 3, 5 }, 1, false }, { { 9, 3, 3, 16 }, 1, false },
    };
    for (int i = 0; i < COUNT(all); i++) {
        qg_params p = { 0 };
        declare(&p, "x", all[i].x);
        allocate_apart(&p, 5);
        assert_gradcheck((qg_gradcheck_spec){ .name = "conv2d(x,x)", .params = &p, .build = build_alias,
                                              .context = &all[i] });
        qg_params_release(&p);
    }
}

static void what_needs_no_gradient_gets_none(void **state)
{
    for (int i = 2; i < 6; i++)             /* by units and by slices */
        for (int frozen = 0; frozen < 3; frozen++) {
            built     b = { &cases[i], { .bias = true } };
            qg_params p = operands(b.s);
            p.item[frozen]->frozen = true;
            assert_gradcheck((qg_gradcheck_spec){ .name = "conv2d", .params = &p, .build = build,
                                                  .context = &b });
            result r = result_new(b.s);
            run(b.s, &p, b.v, &r);
            for (size_t k = 0; k < qg_count(p.item[frozen]->shape); k++)
                assert_true(p.item[frozen]->grad[k] == 0);
            result_free(r);
            qg_params_release(&p);
        }
}

/* --- modes and failures ------------------------------------------------------------------- */

static void evaluation_gives_the_same_values_and_no_gradient(void **state)
{
    const shapes *s = &cases[5];
    qg_params     p = operands(s);
    result        r = result_new(s);
    qg_tape      *t = qg_tape_new();
    run(s, &p, (way){ .bias = true }, &r);
    qg_tape_begin(t, QG_EVAL, 1, 0);
    qg_var *y = convolve(t, &p, s->spec, (way){ .bias = true });
    assert_memory_equal(y->data, r.out, qg_count(r.y) * sizeof(float));
    assert_false(y->needs_grad);
    assert_true(y->flops == 2.0 * (double)qg_count(r.y) * (double)qg_row(s->w));
    assert_int_equal(qg_backward(t, weighed(t, y, r.dy)), QG_ESTATE);
    qg_tape_free(t);
    result_free(r);
    qg_params_release(&p);
}

/* Pixels and tiles that no longer multiply in an int: beyond 160,530 pixels in tiles of 6 x 2 vectors, 321,000
 * of 12 x 1, 245,000 of 14 x 2 and 454,000 of 24 x 1. */
static void large_images_are_whole(void **state)
{
    static const struct {
        int side, in, out;
    } big[] = { { 501, 1, 17 }, { 501, 17, 1 }, { 675, 1, 8 } };
    for (int i = 0; i < COUNT(big); i++) {
        const qg_shape s = { 1, big[i].side, big[i].side, big[i].in };
        const size_t   in = (size_t)s.c, out = (size_t)big[i].out, pixels = qg_count(s) / in;
        qg_params      p = { 0 };
        declare(&p, "x", s), declare(&p, "w", (qg_shape){ big[i].out, 1, 1, big[i].in });
        assert_ok(qg_params_allocate(&p));
        for (size_t k = 0; k < pixels * in; k++) p.item[0]->value[k] = (float)(1 + k % 7);
        for (size_t k = 0; k < in * out; k++) p.item[1]->value[k] = (float)(1 + k % 3);
        qg_tape *t = qg_tape_new();
        qg_tape_begin(t, QG_TRAIN, 1, 0);
        const float *x = p.item[0]->value, *w = p.item[1]->value, *dx = p.item[0]->grad;
        qg_var      *y = qg_conv2d(t, qg_parameter(t, p.item[0]), qg_parameter(t, p.item[1]), NULL, (qg_conv_spec){ 0 });
        assert_non_null(y);
        for (size_t k = 0; k < pixels * out; k++) {
            float sum = 0;                              /* of small whole numbers: exact */
            for (size_t c = 0; c < in; c++) sum += x[k / out * in + c] * w[k % out * in + c];
            if (y->data[k] != sum) fail_msg("y[%zu] is %g, not %g", k, (double)y->data[k], (double)sum);
        }
        assert_ok(qg_backward(t, total(t, y)));
        for (size_t k = 0; k < pixels * in; k++) {
            float sum = 0;
            for (size_t o = 0; o < out; o++) sum += w[o * in + k % in];
            if (dx[k] != sum) fail_msg("dx[%zu] is %g, not %g", k, (double)dx[k], (double)sum);
        }
        qg_tape_free(t);
        qg_params_release(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(is_its_definition_on_every_path, restore_variables),
        cmocka_unit_test_teardown(is_its_definition_wherever_one_looks, restore_variables),
        cmocka_unit_test_teardown(is_its_definition_with_groups_and_uneven_padding, restore_variables),
        cmocka_unit_test(same_bits_for_any_number_of_threads),
        cmocka_unit_test(goes_winograds_way_where_it_fits),
        cmocka_unit_test(gradients),
        cmocka_unit_test(one_var_may_stand_in_several_places),
        cmocka_unit_test(what_needs_no_gradient_gets_none),
        cmocka_unit_test(evaluation_gives_the_same_values_and_no_gradient),
        cmocka_unit_test(large_images_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
