/* What holds for every optimizer. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernels/parallel.h"
#include "optim/optim.h"
#include "tests/support/environment.h"
#include "tests/support/nets.h"
#include "tests/support/room.h"
#include "tests/support/small_params.h"

static qg_optim *plain(qg_params *p) { return qg_sgd(p, (qg_sgd_spec){ .lr = 0.1f, .weight_decay = 0.05f }); }

static qg_optim *momentum(qg_params *p)
{
    return qg_sgd(p, (qg_sgd_spec){ .lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.05f });
}

static qg_optim *nesterov(qg_params *p)
{
    return qg_sgd(p, (qg_sgd_spec){ .lr = 0.1f, .momentum = 0.9f, .nesterov = true, .weight_decay = 0.05f });
}

static qg_optim *adam(qg_params *p)
{
    return qg_adam(p, (qg_adam_spec){ .lr = 0.01f, .weight_decay = 0.05f });
}

static qg_optim *bop(qg_params *p)
{
    return qg_bop(p, (qg_bop_spec){ .gamma = 0.2f, .threshold = 0.05f, .rest = { .lr = 0.01f } });
}

typedef struct family {
    const char *name;
    qg_optim *(*make)(qg_params *p);
    bool        flips;          /* b.weight is -1 and +1 */
    int         moments;
    const char *moment;         /* an array of its files, of a.weight */
} family;

static const family families[] = {
    { "plain", plain, false, 0, NULL },
    { "momentum", momentum, false, 1, "optim.momentum.a.weight" },
    { "nesterov", nesterov, false, 1, "optim.momentum.a.weight" },
    { "adam", adam, false, 2, "optim.v.a.weight" },
    { "bop", bop, true, 2, "optim.m.a.weight" },
};

typedef struct run {
    qg_params p;
    qg_optim *o;
} run;

static void open_run(run *r, const family *f)
{
    small_declare(&r->p);
    qg_param *w = r->p.item[B_WEIGHT];
    w->flips    = f->flips;
    for (size_t i = 0; f->flips && i < qg_count(w->shape); i++) w->value[i] = w->value[i] < 0 ? -1 : 1;
    r->o = f->make(&r->p);
    if (!r->o) fail_msg("%s: %s", f->name, qg_errmsg());
}

static void close_run(run *r)
{
    qg_optim_free(r->o);
    qg_params_release(&r->p);
}

static void train(run *r, int from, int to)
{
    for (int step = from; step < to; step++) {
        small_set_gradients(&r->p, step);
        if (qg_optim_step(r->o)) fail_msg("%s", qg_errmsg());
    }
}

static const family *const any = &families[1], *const with_adam = &families[3];

/* --- what is kept ------------------------------------------------------------------------- */

static void no_parameters_are_no_trouble(void **state)
{
    qg_params p = { 0 };
    assert_ok(qg_params_allocate(&p));
    qg_optim *o = adam(&p);
    assert_non_null(o);
    assert_ok(qg_optim_step(o));
    qg_optim_free(o);
    qg_params_release(&p);
}

/* Frozen: neither value nor moment moves, so after thawing the group starts as if new. */
static void a_frozen_group_keeps_values_and_moments(void **state)
{
    run r, twin;
    open_run(&r, any), open_run(&twin, any);
    float *start = small_copy(&r.p);
    qg_optim_set_group(r.o, QG_WEIGHTS, (qg_group_spec){ .weight_decay = 0.05f, .frozen = true });
    train(&r, 0, 3);
    const qg_param *w = r.p.item[B_WEIGHT];
    assert_memory_equal(w->value, start + w->offset, qg_count(w->shape) * sizeof(float));
    assert_true(r.p.item[A_BIAS]->value[0] != start[r.p.item[A_BIAS]->offset]);
    for (size_t k = 0; k < r.p.length; k++) assert_true(r.p.grad[k] == 0);

    qg_optim_set_group(r.o, QG_WEIGHTS, (qg_group_spec){ .lr_scale = 1, .weight_decay = 0.05f });
    train(&r, 3, 5), train(&twin, 3, 5);
    assert_memory_equal(w->value, twin.p.item[B_WEIGHT]->value, qg_count(w->shape) * sizeof(float));
    free(start);
    close_run(&r), close_run(&twin);
}

/* A warm-up begins with lr 0: nothing moves but the moments. */
static void a_rate_of_zero_gathers_momentum(void **state)
{
    run r;
    open_run(&r, any);
    float       *start = small_copy(&r.p);
    const size_t at    = r.p.item[A_BIAS]->offset;
    qg_optim_set_lr(r.o, 0);
    train(&r, 0, 1);
    assert_memory_equal(r.p.value + at, start + at, 33 * sizeof(float));
    qg_optim_set_lr(r.o, 1);
    assert_ok(qg_optim_step(r.o));       /* gradients are zero */
    small_set_gradients(&r.p, 0);
    for (size_t k = 0; k < 33; k++)
        assert_true(r.p.value[at + k] == start[at + k] - 0.9f * r.p.grad[at + k]);
    free(start);
    close_run(&r);
}

/* Bounds follow the step of every optimizer; 0 is not known yet, and what is frozen stays. */
static void bounds_follow_the_step(void **state)
{
    for (int i = 0; i < COUNT(families); i++) {
        run r, twin;
        open_run(&r, &families[i]), open_run(&twin, &families[i]);
        qg_param *scale = r.p.item[SCALE], *min = r.p.item[A_BIAS], *max = r.p.item[NORM];
        qg_param *last  = r.p.item[LAST];
        scale->least = 0.25f, scale->greatest = INFINITY;
        min->least = -INFINITY, max->greatest = INFINITY;
        last->least = last->greatest = 7;
        small_set_gradients(&r.p, 0), small_set_gradients(&twin.p, 0);
        for (int k = 0; k < 3; k++) {
            twin.p.item[SCALE]->value[k] = scale->value[k] = k == 0 ? 0 : 0.25f;
            twin.p.item[SCALE]->grad[k] = scale->grad[k] = (float)k;
        }
        assert_ok(qg_optim_step(r.o)), assert_ok(qg_optim_step(twin.o));
        assert_true(scale->value[0] == 0 && scale->value[1] == 0.25f && scale->value[2] == 0.25f);
        assert_true(twin.p.item[SCALE]->value[2] < 0.25f);
        for (int k = 0; k < 33; k++) assert_true(min->value[k] == fminf(twin.p.item[A_BIAS]->value[k], 0));
        assert_true(max->value[0] == fmaxf(twin.p.item[NORM]->value[0], 0));
        assert_memory_equal(last->value, twin.p.item[LAST]->value, qg_count(last->shape) * sizeof(float));
        close_run(&r), close_run(&twin);
    }
}

/* A row starts from 0. */
static void from_first(const qg_param *p, float *row)
{
    for (size_t i = qg_row(p->shape); i-- > 0;) row[i] -= row[0];
}

/* The projection follows the whole step, in every row once; the clip is left to it. */
static void a_projection_follows_the_step(void **state)
{
    run r, twin;
    open_run(&r, with_adam), open_run(&twin, with_adam);
    qg_param *w = r.p.item[A_WEIGHT], *other = twin.p.item[A_WEIGHT];
    w->project  = from_first;
    other->clip = 0;
    train(&r, 0, 1), train(&twin, 0, 1);
    for (int row = 0; row < w->shape.n; row++)
        from_first(other, other->value + (size_t)row * qg_row(w->shape));
    assert_memory_equal(r.p.value, twin.p.value, r.p.length * sizeof(float));

    qg_optim_set_group(r.o, QG_WEIGHTS, (qg_group_spec){ .frozen = true });
    w->value[0] = 7;
    train(&r, 1, 2);
    assert_true(w->value[0] == 7);              /* frozen: not projected either */
    close_run(&r), close_run(&twin);
}

/* --- the same bits ------------------------------------------------------------------------ */

static uint64_t digest_after(const family *f)
{
    run r;
    open_run(&r, f);
    train(&r, 0, 4);
    const uint64_t digest = qg_params_digest(&r.p);
    close_run(&r);
    return digest;
}

/* Every family gives the same bits whichever of n ways is used. */
static void ways_do_not_matter(void (*use)(int), int first, int last, const char *name)
{
    for (int i = 0; i < COUNT(families); i++) {
        use(first);
        const uint64_t digest = digest_after(&families[i]);
        for (int way = first + 1; way <= last; way++) {
            use(way);
            if (digest_after(&families[i]) != digest) fail_msg("%s: %s %d", families[i].name, name, way);
        }
    }
}

static void threads_do_not_matter(void **state)
{
    ways_do_not_matter(qg_set_threads, 1, 3, "threads");
    qg_set_threads(0);
}

static void instruction_sets_do_not_matter(void **state)
{
    ways_do_not_matter(use_path, 0, PATHS - 1, "path");
}

/* --- checkpoints -------------------------------------------------------------------------- */

/* Saves (load: loads) what the optimizer keeps. */
static void transfer(run *r, const char *path, bool load)
{
    qg_state *s = qg_state_new();
    qg_optim_state(r->o, s);
    assert_ok(load ? qg_state_load(s, path) : qg_state_save(s, path));
    qg_state_free(s);
}

static void assert_array(const qg_archive *a, const char *name, qg_array want)
{
    const qg_named_array *e = qg_archive_find(a, name);
    if (!e) fail_msg("no %s", name);
    assert_int_equal(e->array.dtype, want.dtype);
    assert_int_equal(e->array.rank, want.rank);
    assert_memory_equal(e->array.dims, want.dims, (size_t)want.rank * sizeof *want.dims);
}

static void a_resumed_run_has_the_same_bits(void **state)
{
    const char *path = scratch_file();
    for (int i = 0; i < COUNT(families); i++) {
        const family *f = &families[i];
        run           r, later;
        open_run(&r, f), open_run(&later, f);
        train(&r, 0, 3);
        transfer(&r, path, false);
        memcpy(later.p.value, r.p.value, small_bytes(&r.p));
        transfer(&later, path, true);
        train(&r, 3, 5), train(&later, 3, 5);
        if (memcmp(r.p.value, later.p.value, small_bytes(&r.p))) fail_msg("%s: other bits", f->name);
        close_run(&r), close_run(&later);

        qg_archive *a     = qg_archive_open(path);
        size_t      count = 0;
        assert_non_null(a);
        qg_archive_entries(a, &count);
        assert_int_equal(count, f->moments * (ITEMS - 1) + 1);      /* moments of all but the tracked one */
        if (f->moment) assert_array(a, f->moment, (qg_array){ QG_F32, 4, { 33, 1, 1, 31 }, NULL });
        assert_array(a, "optim.step", (qg_array){ .dtype = QG_I64 });
        assert_int_equal(*(const int64_t *)qg_archive_find(a, "optim.step")->array.data, 3);
        qg_archive_free(a);
    }
}

/* --- refusals ----------------------------------------------------------------------------- */

static void assert_refused(run *r, qg_status status, const char *message)
{
    float *before = small_copy(&r->p);
    assert_int_equal(qg_optim_step(r->o), status);
    assert_message(message);
    assert_memory_equal(r->p.value, before, small_bytes(&r->p));
    free(before);
}

static void a_gradient_that_is_not_finite_changes_nothing(void **state)
{
    const int last = (int)qg_count(small_specs[B_WEIGHT].shape) - 1;
    const struct { int item, at; float value; const char *message; } rows[] = {
        { A_WEIGHT, 0, NAN, "gradient 0 of a.weight is" },
        { A_WEIGHT, 1022, INFINITY, "gradient 1022 of a.weight is inf" },
        { NORM, 0, -INFINITY, "gradient 0 of n.gamma is -inf" },
        { B_WEIGHT, 20000, NAN, "gradient 20000 of b.weight is" },
        { B_WEIGHT, last, INFINITY, "of b.weight is inf" },
        { LAST, 64, INFINITY, "gradient 64 of c.bias is inf" },
    };
    run r, twin;
    open_run(&r, with_adam), open_run(&twin, with_adam);
    train(&r, 0, 2), train(&twin, 0, 2);
    for (int i = 0; i < COUNT(rows); i++) {
        small_set_gradients(&r.p, 2);
        r.p.item[rows[i].item]->grad[rows[i].at] = rows[i].value;
        assert_refused(&r, QG_ENAN, rows[i].message);
    }
    small_set_gradients(&r.p, 2);
    r.p.item[LAST]->grad[0]   = NAN;
    r.p.item[A_BIAS]->grad[5] = NAN;
    assert_refused(&r, QG_ENAN, "gradient 5 of a.bias");

    /* The moments and the count did not change either: both go on alike. */
    train(&r, 2, 4), train(&twin, 2, 4);
    assert_memory_equal(r.p.value, twin.p.value, small_bytes(&r.p));
    close_run(&r), close_run(&twin);
}

/* Its second moment is then infinite, which no checkpoint may contain. */
static void adam_stops_a_weight_whose_square_overflows(void **state)
{
    qg_params p = { 0 };
    qg_param *w = declare(&p, "w", (qg_shape){ 1, 1, 1, 2 });
    assert_ok(qg_params_allocate(&p));
    qg_optim *o = adam(&p);
    qg_state *s = qg_state_new();
    qg_optim_state(o, s);
    for (int step = 0; step < 3; step++) {
        w->grad[0] = step ? 1 : 2e19f, w->grad[1] = 1;
        assert_ok(qg_optim_step(o));
        assert_true(w->value[0] == 0 && w->value[1] < 0);
    }
    assert_failed(qg_state_save(s, in_room("overflown")), QG_ENAN, "optim.v.w");
    qg_state_free(s);
    qg_optim_free(o);
    qg_params_release(&p);
}

/* --- clipping by norm --------------------------------------------------------------------- */

/* Two parameters with gradients (3, 0, 4) and 12: length 13.  A frozen one does not count. */
static void gradients_are_clipped_by_their_norm(void **state)
{
    for (int k = 0; k < 4; k++) {
        const float most[] = { 6.5f, 13, 0, 2.5f }, by[] = { 0.5f, 1, 1, 0.5f };
        const bool  frozen = k == 3;                        /* then the length is 5 */
        qg_params   p      = { 0 };
        qg_param   *a = declare(&p, "a", (qg_shape){ 1, 1, 1, 3 }),
                   *b = declare(&p, "b", (qg_shape){ 1, 1, 1, 1 });
        assert_ok(qg_params_allocate(&p));
        b->frozen   = frozen;
        qg_optim *o = qg_sgd(&p, (qg_sgd_spec){ .lr = 1 });
        qg_optim_set_clip_norm(o, most[k]);
        assert_true(qg_optim_norm(o) == 0);
        a->grad[0] = 3, a->grad[2] = -4, b->grad[0] = 12;
        assert_ok(qg_optim_step(o));
        assert_close(a->value, (float[]){ -3 * by[k], 0, 4 * by[k] }, 3, 0);
        assert_close(b->value, (float[]){ frozen ? 0 : -12 * by[k] }, 1, 0);
        assert_true(qg_optim_norm(o) == (most[k] == 0 ? 0 : frozen ? 5 : 13));
        for (size_t i = 0; i < p.length; i++) assert_true(p.grad[i] == 0);
        qg_optim_free(o);
        qg_params_release(&p);
    }
}

/* A norm that nothing exceeds is no norm, to the bit; one that is exceeded is the step on gradients scaled
 * by hand. */
static void clipping_is_scaling_and_nothing_else(void **state)
{
    for (int f = 0; f < COUNT(families); f++) {
        run r, twin, scaled;
        open_run(&r, &families[f]), open_run(&twin, &families[f]), open_run(&scaled, &families[f]);
        qg_optim_set_clip_norm(r.o, 1e30f);
        train(&r, 0, 3), train(&twin, 0, 3), train(&scaled, 0, 3);
        assert_memory_equal(r.p.value, twin.p.value, r.p.length * sizeof(float));
        double sum = 0;
        small_set_gradients(&r.p, 3);
        for (int i = 0; i < ITEMS; i++)
            for (size_t k = 0; r.p.item[i]->grad && !r.p.item[i]->frozen && k < qg_count(r.p.item[i]->shape);
                 k++)
                sum += (double)r.p.item[i]->grad[k] * (double)r.p.item[i]->grad[k];
        qg_optim_set_clip_norm(r.o, 0.5f);
        assert_ok(qg_optim_step(r.o));
        assert_true(fabs(qg_optim_norm(r.o) - sqrt(sum)) <=
                    1e-12 * sqrt(sum)); /* another order of a double sum */
        const float factor = (float)(0.5 / qg_optim_norm(r.o));
        small_set_gradients(&scaled.p, 3);
        for (size_t k = 0; k < scaled.p.length; k++) scaled.p.grad[k] *= factor;
        assert_ok(qg_optim_step(scaled.o));
        assert_memory_equal(r.p.value, scaled.p.value, r.p.length * sizeof(float));
        close_run(&r), close_run(&twin), close_run(&scaled);
    }
}

/* Each addition of docs/arithmetic.md: eight sums in a block of a parameter, then stretches, then blocks. */
static void the_norm_is_a_sum_in_this_order(void **state)
{
    enum { BLOCK = 16384, PLACE = 16, PARAMS = 3, MOST = 40003 };
    static const int         numbers[PARAMS] = { MOST, 20, 7 };
    static const char *const names[PARAMS]   = { "a", "frozen", "c" };
    static float             g[PARAMS][MOST];
    qg_params                p = { 0 };
    qg_param                *item[PARAMS];
    for (int i = 0; i < PARAMS; i++) item[i] = declare(&p, names[i], (qg_shape){ 1, 1, 1, numbers[i] });
    assert_ok(qg_params_allocate(&p));
    item[1]->frozen = true;
    for (int i = 0; i < PARAMS; i++) {
        fill_uniform(g[i], (size_t)numbers[i], -1, 1, (uint64_t)i);
        for (int k = 0; k < numbers[i]; k++) item[i]->grad[k] = g[i][k] = ldexpf(g[i][k], k % 40 - 20);
    }
    qg_optim *o = qg_sgd(&p, (qg_sgd_spec){ .lr = 1 });
    qg_optim_set_clip_norm(o, 1);
    assert_ok(qg_optim_step(o));

    double sum = 0;
    for (int begin = 0, length = 1; begin < length; begin += BLOCK) {
        double block = 0;
        for (int i = 0, at = 0; i < PARAMS; at += (numbers[i++] + PLACE - 1) / PLACE * PLACE) {
            double    lane[8] = { 0 }, stretch = 0;
            const int from = at > begin ? 0 : begin - at;
            const int to   = at + numbers[i] < begin + BLOCK ? numbers[i] : begin + BLOCK - at;
            for (int k = from; k < to; k++) lane[(k - from) % 8] += (double)g[i][k] * (double)g[i][k];
            for (int k = 0; k < 8; k++) stretch += lane[k];
            if (from < to && !item[i]->frozen) block += stretch;
            length = at + numbers[i];
        }
        sum += block;
    }
    assert_true(qg_optim_norm(o) == sqrt(sum));
    const float factor = (float)(1 / sqrt(sum));
    for (int i = 0; i < PARAMS; i++)
        for (int k = 0; k < numbers[i]; k++)
            assert_true(item[i]->value[k] == (i == 1 ? 0 : -(g[i][k] * factor)));
    qg_optim_free(o);
    qg_params_release(&p);
}

static void threads_do_not_change_the_norm(void **state)
{
    double norm = 0;
    for (int threads = 1; threads <= 3; threads++) {
        run r;
        qg_set_threads(threads);
        open_run(&r, any);
        qg_optim_set_clip_norm(r.o, 1);
        train(&r, 0, 2);
        if (threads == 1) norm = qg_optim_norm(r.o);
        assert_true(qg_optim_norm(r.o) == norm && norm > 1);
        close_run(&r);
    }
    qg_set_threads(0);
}

static void squares_of_the_largest_floats_do_not_overflow(void **state)
{
    run r;
    open_run(&r, any);
    memset(r.p.grad, 0, r.p.length * sizeof(float));
    r.p.item[A_BIAS]->grad[0] = 3e38f, r.p.item[A_BIAS]->grad[1] = -3e38f;
    qg_optim_set_clip_norm(r.o, 1);
    assert_ok(qg_optim_step(r.o));
    assert_true(qg_optim_norm(r.o) > 4.2e38 && qg_optim_norm(r.o) < 4.3e38);
    for (size_t k = 0; k < r.p.length; k++) assert_true(isfinite(r.p.value[k]));
    close_run(&r);
}

static void the_largest_floats_are_finite(void **state)
{
    run r;
    open_run(&r, any);
    qg_optim_set_lr(r.o, 0x1p-127f);
    small_set_gradients(&r.p, 0);
    memcpy(r.p.item[A_BIAS]->grad, (float[]){ 0x1.fffffep127f, -0x1.fffffep127f, 0x1p-149f },
           3 * sizeof(float));
    assert_ok(qg_optim_step(r.o));
    close_run(&r);
}

static void a_bad_setting_changes_nothing_and_heals(void **state)
{
    run r;
    open_run(&r, any);
    small_set_gradients(&r.p, 0);
    qg_optim_set_lr(r.o, NAN);
    assert_refused(&r, QG_EARG, "lr is");
    qg_optim_set_lr(r.o, -0.5f);
    assert_refused(&r, QG_EARG, "lr is -0.5");
    qg_optim_set_lr(r.o, 0.5f);
    qg_optim_set_clip_norm(r.o, -1);
    assert_refused(&r, QG_EARG, "clip norm is -1, must be 0 or more");
    qg_optim_set_clip_norm(r.o, NAN);
    assert_refused(&r, QG_EARG, "clip norm is nan");
    qg_optim_set_clip_norm(r.o, INFINITY);
    assert_refused(&r, QG_EARG, "clip norm is inf");
    qg_optim_set_clip_norm(r.o, 0);
    qg_optim_set_group(r.o, QG_BIASES, (qg_group_spec){ .lr_scale = 1, .weight_decay = -2 });
    assert_refused(&r, QG_EARG, "biases have lr_scale 1, weight_decay -2");
    qg_optim_set_group(r.o, QG_BIASES, (qg_group_spec){ .lr_scale = 1 });

    qg_param *norm = r.p.item[NORM];
    const struct { float *field, value; const char *message; } fields[] = {
        { &norm->clip, -1, "n.gamma has" },
        { &norm->lr_scale, INFINITY, "lr_scale inf" },
        { &norm->decay, NAN, "n.gamma has" },
    };
    for (int i = 0; i < COUNT(fields); i++) {
        *fields[i].field = fields[i].value;
        assert_refused(&r, QG_EARG, fields[i].message);
        *fields[i].field = 0;
    }
    assert_ok(qg_optim_step(r.o));

    small_set_gradients(&r.p, 1);
    qg_optim_set_group(r.o, QG_TRACKED, (qg_group_spec){ .lr_scale = 1 });
    assert_refused(&r, QG_EARG, "group 4");
    close_run(&r);
}

static const struct { qg_sgd_spec sgd; const char *message; } bad_sgd[] = {
    { { .lr = 0 }, "sgd: lr is 0" },
    { { .lr = -1 }, "sgd: lr is -1" },
    { { .lr = NAN }, "sgd: lr is" },
    { { .lr = INFINITY }, "sgd: lr is inf" },
    { { .lr = 1, .momentum = 1 }, "sgd: momentum is 1" },
    { { .lr = 1, .momentum = -0.5f }, "sgd: momentum is -0.5" },
    { { .lr = 1, .nesterov = true }, "sgd: nesterov needs a momentum" },
    { { .lr = 1, .weight_decay = -3 }, "sgd: weight_decay is -3" },
};

static const struct { qg_adam_spec adam; const char *message; } bad_adam[] = {
    { { .lr = 0 }, "adam: lr is 0" },
    { { .lr = 1, .beta1 = 1 }, "adam: beta1 is 1" },
    { { .lr = 1, .beta1 = NAN }, "adam: beta1 is" },
    { { .lr = 1, .beta2 = 1.5f }, "adam: beta2 is 1.5" },
    { { .lr = 1, .eps = -1 }, "adam: eps is -1" },
    { { .lr = 1, .weight_decay = INFINITY }, "adam: weight_decay is inf" },
};

static const struct { qg_bop_spec bop; const char *message; } bad_bop[] = {
    { { .gamma = 1.5f, .rest = { .lr = 1 } }, "gamma is 1.5" },
    { { .gamma = -1, .rest = { .lr = 1 } }, "gamma is -1" },
    { { .gamma = NAN, .rest = { .lr = 1 } }, "gamma is nan" },
    { { .threshold = -1, .rest = { .lr = 1 } }, "threshold is -1" },
    { { .threshold = INFINITY, .rest = { .lr = 1 } }, "threshold is inf" },
    { { .rest = { .beta1 = 1, .lr = 1 } }, "beta1 is 1" },
    { { .gamma = 0.1f }, "lr is 0" },
    { { .rest = { .lr = 1 } }, NULL },          /* legal with a parameter that flips */
};

static void refused(qg_optim *o, const char *message)
{
    assert_null(o);
    assert_message(message);
}

static void bad_specs_are_refused(void **state)
{
    qg_params p, bare = { 0 };
    small_declare(&p);
    for (int i = 0; i < COUNT(bad_sgd); i++) refused(qg_sgd(&p, bad_sgd[i].sgd), bad_sgd[i].message);
    for (int i = 0; i < COUNT(bad_adam); i++) refused(qg_adam(&p, bad_adam[i].adam), bad_adam[i].message);
    refused(bop(&p), "bop: no parameter flips; give a weight the scheme bop");
    p.item[B_WEIGHT]->flips = true;
    refused(adam(&p), "adam: the values of b.weight can only flip; use the optimizer bop");
    refused(plain(&p), "sgd: the values of b.weight can only flip");
    for (int i = 0; i < COUNT(bad_bop); i++) {
        qg_optim *o = qg_bop(&p, bad_bop[i].bop);
        if (bad_bop[i].message) refused(o, bad_bop[i].message);
        else assert_non_null(o);
        qg_optim_free(o);
    }
    refused(momentum(&bare), "sgd: the parameters are not allocated");
    qg_params_release(&p);
}

static void null_flows(void **state)
{
    qg_fail(QG_EARG, "why the net was not built");
    for (int i = 0; i < COUNT(families); i++) assert_null(families[i].make(NULL));
    qg_optim_set_lr(NULL, 1);
    qg_optim_set_clip_norm(NULL, 1);
    assert_true(qg_optim_norm(NULL) == 0);
    qg_optim_set_group(NULL, QG_BIASES, (qg_group_spec){ .lr_scale = 1 });
    qg_optim_state(NULL, NULL);
    qg_optim_free(NULL);
    assert_string_equal(qg_errmsg(), "why the net was not built");
    qg_fail(QG_EARG, "adam: lr is 0");
    assert_failed(qg_optim_step(NULL), QG_ESTATE,
                  "optimizer: it is NULL; the last failure was: adam: lr is 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_parameters_are_no_trouble),
        cmocka_unit_test(a_frozen_group_keeps_values_and_moments),
        cmocka_unit_test(a_rate_of_zero_gathers_momentum),
        cmocka_unit_test(bounds_follow_the_step),
        cmocka_unit_test(a_projection_follows_the_step),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test_teardown(instruction_sets_do_not_matter, restore_variables),
        cmocka_unit_test(a_resumed_run_has_the_same_bits),
        cmocka_unit_test(a_gradient_that_is_not_finite_changes_nothing),
        cmocka_unit_test(adam_stops_a_weight_whose_square_overflows),
        cmocka_unit_test(gradients_are_clipped_by_their_norm),
        cmocka_unit_test(clipping_is_scaling_and_nothing_else),
        cmocka_unit_test(the_norm_is_a_sum_in_this_order),
        cmocka_unit_test(threads_do_not_change_the_norm),
        cmocka_unit_test(squares_of_the_largest_floats_do_not_overflow),
        cmocka_unit_test(the_largest_floats_are_finite),
        cmocka_unit_test(a_bad_setting_changes_nothing_and_heals),
        cmocka_unit_test(bad_specs_are_refused),
        cmocka_unit_test(null_flows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
