#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernels/parallel.h"
#include "optim/optim.h"
#include "tests/support/environment.h"
#include "tests/support/room.h"
#include "tests/support/small_params.h"

static qg_optim *make_sgd(qg_params *p)
{
    return qg_sgd(p, (qg_sgd_spec){ .lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.05f });
}

static qg_optim *make_adam(qg_params *p)
{
    return qg_adam(p, (qg_adam_spec){ .lr = 0.01f, .weight_decay = 0.05f });
}

static void train(qg_optim *o, qg_params *p, int from, int to)
{
    for (int step = from; step < to; step++) {
        small_set_gradients(p, step);
        assert_int_equal(qg_optim_step(o), QG_OK);
    }
}

/* --- what is kept ------------------------------------------------------------------------- */

static void no_parameters_are_no_trouble(void **state)
{
    (void)state;
    qg_params p = { 0 };
    assert_int_equal(qg_params_allocate(&p), QG_OK);
    qg_optim *o = make_adam(&p);
    assert_non_null(o);
    assert_int_equal(qg_optim_step(o), QG_OK);
    qg_optim_free(o);
    qg_params_release(&p);
}

/* Frozen: neither value nor moment moves, so after thawing the group starts as if new. */
static void a_frozen_group_keeps_values_and_moments(void **state)
{
    (void)state;
    qg_params p, twin;
    small_declare(&p);
    small_declare(&twin);
    qg_optim *o     = make_sgd(&p);
    qg_optim *other = make_sgd(&twin);
    float    *start = small_copy(&p);
    qg_optim_set_group(o, QG_WEIGHTS, (qg_group_spec){ .weight_decay = 0.05f, .frozen = true });
    train(o, &p, 0, 3);
    const qg_param *w = p.item[B_WEIGHT];
    assert_memory_equal(w->value, start + w->offset, qg_count(w->shape) * sizeof(float));
    assert_true(p.item[A_BIAS]->value[0] != start[p.item[A_BIAS]->offset]);
    for (size_t k = 0; k < p.length; k++) assert_true(p.grad[k] == 0);

    qg_optim_set_group(o, QG_WEIGHTS, (qg_group_spec){ .lr_scale = 1, .weight_decay = 0.05f });
    train(o, &p, 3, 5);
    train(other, &twin, 3, 5);
    assert_memory_equal(w->value, twin.item[B_WEIGHT]->value, qg_count(w->shape) * sizeof(float));
    free(start);
    qg_optim_free(other);
    qg_optim_free(o);
    qg_params_release(&twin);
    qg_params_release(&p);
}

/* A warm-up begins with lr 0: nothing moves but the moments. */
static void a_rate_of_zero_gathers_momentum(void **state)
{
    (void)state;
    qg_params p;
    small_declare(&p);
    qg_optim *o     = make_sgd(&p);
    float    *start = small_copy(&p);
    qg_optim_set_lr(o, 0);
    train(o, &p, 0, 1);
    const size_t at = p.item[A_BIAS]->offset;
    assert_memory_equal(p.value + at, start + at, 33 * sizeof(float));
    qg_optim_set_lr(o, 1);
    assert_int_equal(qg_optim_step(o), QG_OK);      /* gradients are zero */
    small_set_gradients(&p, 0);
    for (size_t k = 0; k < 33; k++)
        assert_true(p.value[at + k] == start[at + k] - 0.9f * p.grad[at + k]);
    free(start);
    qg_optim_free(o);
    qg_params_release(&p);
}

/* A row starts from 0. */
static void from_first(const qg_param *p, float *row)
{
    for (size_t i = qg_row(p->shape); i-- > 0;) row[i] -= row[0];
}

/* The projection follows the whole step, in every row once; the clip is left to it. */
static void a_projection_follows_the_step(void **state)
{
    (void)state;
    qg_params p, twin;
    small_declare(&p), small_declare(&twin);
    qg_param *w = p.item[A_WEIGHT], *free_w = twin.item[A_WEIGHT];
    w->project   = from_first;
    free_w->clip = 0;
    qg_optim *o = make_adam(&p), *other = make_adam(&twin);
    train(o, &p, 0, 1), train(other, &twin, 0, 1);
    for (int row = 0; row < w->shape.n; row++) from_first(free_w, free_w->value + (size_t)row * qg_row(w->shape));
    assert_memory_equal(p.value, twin.value, p.length * sizeof(float));

    qg_optim_set_group(o, QG_WEIGHTS, (qg_group_spec){ .frozen = true });
    w->value[0] = 7;
    train(o, &p, 1, 2);
    assert_true(w->value[0] == 7);              /* frozen: not projected either */
    qg_optim_free(o), qg_optim_free(other);
    qg_params_release(&p), qg_params_release(&twin);
}

/* --- the same bits ------------------------------------------------------------------------ */

static uint64_t digest_after(qg_optim *(*make)(qg_params *p))
{
    qg_params p;
    small_declare(&p);
    qg_optim *o = make(&p);
    assert_non_null(o);
    train(o, &p, 0, 4);
    const uint64_t digest = qg_params_digest(&p);
    qg_optim_free(o);
    qg_params_release(&p);
    return digest;
}

static void threads_do_not_matter(void **state)
{
    (void)state;
    qg_set_threads(1);
    const uint64_t sgd  = digest_after(make_sgd);
    const uint64_t adam = digest_after(make_adam);
    for (int n = 2; n <= 3; n++) {
        qg_set_threads(n);
        assert_true(digest_after(make_sgd) == sgd);
        assert_true(digest_after(make_adam) == adam);
    }
    qg_set_threads(0);
}

static void instruction_sets_do_not_matter(void **state)
{
    (void)state;
    use_path(0);
    const uint64_t sgd  = digest_after(make_sgd);
    const uint64_t adam = digest_after(make_adam);
    for (int i = 1; i < PATHS; i++) {
        use_path(i);
        assert_true(digest_after(make_sgd) == sgd);
        assert_true(digest_after(make_adam) == adam);
    }
}

/* --- checkpoints -------------------------------------------------------------------------- */

static void assert_array(const qg_archive *a, const char *name, qg_dtype dtype, int rank,
                         const size_t *dims)
{
    const qg_named_array *e = qg_archive_find(a, name);
    if (!e) fail_msg("no %s", name);
    assert_int_equal(e->array.dtype, dtype);
    assert_int_equal(e->array.rank, rank);
    for (int i = 0; i < rank; i++) assert_int_equal(e->array.dims[i], dims[i]);
}

static void save(qg_optim *o, const char *path)
{
    qg_state *s = qg_state_new();
    qg_optim_state(o, s);
    assert_int_equal(qg_state_save(s, path), QG_OK);
    qg_state_free(s);
}

static void resume(qg_optim *(*make)(qg_params *p), const char *path)
{
    qg_params p, later;
    small_declare(&p);
    small_declare(&later);
    qg_optim *o = make(&p);
    train(o, &p, 0, 3);
    save(o, path);
    memcpy(later.value, p.value, small_bytes(&p));
    train(o, &p, 3, 5);

    qg_optim *resumed = make(&later);
    qg_state *s       = qg_state_new();
    qg_optim_state(resumed, s);
    assert_int_equal(qg_state_load(s, path), QG_OK);
    qg_state_free(s);
    train(resumed, &later, 3, 5);
    assert_memory_equal(p.value, later.value, small_bytes(&p));
    qg_optim_free(resumed);
    qg_optim_free(o);
    qg_params_release(&later);
    qg_params_release(&p);
}

static void a_resumed_run_has_the_same_bits(void **state)
{
    (void)state;
    const char *path = scratch_file();
    resume(make_sgd, path);
    resume(make_adam, path);

    qg_archive *a     = qg_archive_open(path);
    size_t      count = 0;
    assert_non_null(a);
    qg_archive_entries(a, &count);
    assert_int_equal(count, 2 * (ITEMS - 1) + 1);       /* two moments of all but the tracked one */
    assert_array(a, "optim.m.a.weight", QG_F32, 4, (size_t[]){ 33, 1, 1, 31 });
    assert_array(a, "optim.v.b.weight", QG_F32, 4, (size_t[]){ 65, 3, 3, 63 });
    assert_array(a, "optim.step", QG_I64, 0, NULL);
    assert_int_equal(*(const int64_t *)qg_archive_find(a, "optim.step")->array.data, 3);
    qg_archive_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_parameters_are_no_trouble),
        cmocka_unit_test(a_frozen_group_keeps_values_and_moments),
        cmocka_unit_test(a_rate_of_zero_gathers_momentum),
        cmocka_unit_test(a_projection_follows_the_step),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test_teardown(instruction_sets_do_not_matter, restore_variables),
        cmocka_unit_test(a_resumed_run_has_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
