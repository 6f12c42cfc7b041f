/* Averages of weights: formula, legal values, swap, files. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernels/parallel.h"
#include "optim/ema.h"
#include "optim/optim.h"
#include "tests/support/nets.h"
#include "tests/support/room.h"
#include "tests/support/small_params.h"

static qg_ema *ema_of(qg_params *p, qg_ema_spec spec)
{
    qg_ema *e = qg_ema_new(p, spec);
    if (!e) fail_msg("%s", qg_errmsg());
    return e;
}

/* To the bit, from the weights that the averages were made of. */
static void averages_by_formula(void **state)
{
    enum { WEIGHTS = 37, UPDATES = 100 };
    static const qg_ema_spec specs[] = { { 0 }, { .decay = 0.9f, .no_warmup = true }, { .decay = 0.2f } };
    for (int r = 0; r < COUNT(specs); r++) {
        const double decay = specs[r].decay == 0 ? (double)0.999f : (double)specs[r].decay;
        float        a[WEIGHTS], w[WEIGHTS];
        qg_params    p = { 0 };
        qg_param    *x = declare(&p, "x", (qg_shape){ 1, 1, 1, WEIGHTS });
        assert_ok(qg_params_allocate(&p));
        fill_uniform(a, WEIGHTS, -4, 4, 0);
        memcpy(x->value, a, sizeof a);
        qg_ema *e = ema_of(&p, specs[r]);
        for (int n = 1; n <= UPDATES; n++) {
            const double d = specs[r].no_warmup ? decay : fmin(decay, (1.0 + n) / (10.0 + n));
            fill_uniform(w, WEIGHTS, -4, 4, (uint64_t)n);
            memcpy(x->value, w, sizeof w);
            assert_ok(qg_ema_update(e));
            for (int i = 0; i < WEIGHTS; i++) a[i] += (float)(1 - d) * (w[i] - a[i]);
            assert_ok(qg_ema_swap(e));
            for (int i = 0; i < WEIGHTS; i++) assert_true(x->value[i] == a[i]);
            assert_ok(qg_ema_swap(e));
            assert_memory_equal(x->value, w, sizeof w);
        }
        qg_ema_free(e);
        qg_params_release(&p);
    }
}

/* The weights of step s. */
static void move(qg_params *p, int s)
{
    for (int i = 0; i < ITEMS; i++)
        if (p->item[i]->group != QG_TRACKED && !p->item[i]->frozen)
            fill_uniform(p->item[i]->value, qg_count(p->item[i]->shape), -0.6f, 0.6f, (uint64_t)(10 * s + i));
}

/* After a restart it cannot be told from a new one. */
static void a_restart_forgets_everything(void **state)
{
    qg_params p, q;
    small_declare(&p), small_declare(&q);
    qg_ema *a = ema_of(&p, (qg_ema_spec){ 0 });
    for (int s = 0; s < 3; s++) move(&p, s), assert_ok(qg_ema_update(a));
    move(&p, 3), move(&q, 3);
    assert_ok(qg_ema_restart(a));
    qg_ema *b = ema_of(&q, (qg_ema_spec){ 0 });
    for (int s = 4; s < 6; s++) {
        move(&p, s), assert_ok(qg_ema_update(a));
        move(&q, s), assert_ok(qg_ema_update(b));
    }
    assert_ok(qg_ema_swap(a)), assert_ok(qg_ema_swap(b));
    assert_memory_equal(p.value, q.value, p.length * sizeof(float));
    assert_failed(qg_ema_restart(a), QG_ESTATE, "ema: the averages are swapped in");
    assert_failed(qg_ema_restart(NULL), QG_ESTATE, "ema: it is NULL");
    qg_ema_free(a), qg_ema_free(b);
    qg_params_release(&p), qg_params_release(&q);
}

static void threads_change_no_bit(void **state)
{
    uint64_t first = 0;
    for (int threads = 1; threads <= 3; threads++) {
        qg_params p;
        qg_set_threads(threads);
        small_declare(&p);
        qg_ema *e = ema_of(&p, (qg_ema_spec){ 0 });
        for (int s = 0; s < 5; s++) move(&p, s), assert_ok(qg_ema_update(e));
        assert_ok(qg_ema_swap(e));
        const uint64_t digest = qg_params_digest(&p);
        if (threads == 1) first = digest;
        assert_true(digest == first);
        qg_ema_free(e);
        qg_params_release(&p);
    }
    qg_set_threads(0);
}

/* Frozen weights are their own average, tracked arrays are left alone, signs stay signs, clips hold. */
static void averages_are_legal_values(void **state)
{
    qg_params p;
    small_declare(&p);
    qg_param    *signs = p.item[B_WEIGHT], *clipped = p.item[A_WEIGHT];
    const size_t n     = qg_count(signs->shape);
    float       *start = small_copy(&p);
    signs->flips       = true;
    qg_ema *e          = ema_of(&p, (qg_ema_spec){ .decay = 1e-6f, .no_warmup = true });
    for (int s = 0; s < 5; s++) {
        move(&p, s);
        for (size_t i = 0; i < n; i++) signs->value[i] = signs->value[i] < 0 ? -1 : 1;
        for (size_t i = 0; i < qg_count(clipped->shape); i++)
            clipped->value[i] = i % 2 == (size_t)s % 2 ? 0.6f : -0.6f;
        assert_ok(qg_ema_update(e));
    }
    float *latest = small_copy(&p);
    assert_ok(qg_ema_swap(e));
    assert_memory_equal(signs->value, latest + signs->offset, n * sizeof(float));
    for (size_t i = 0; i < qg_count(clipped->shape); i++) assert_true(fabsf(clipped->value[i]) <= 0.6f);
    const qg_param *frozen = p.item[LAST];
    assert_memory_equal(frozen->value, start + frozen->offset, qg_count(frozen->shape) * sizeof(float));
    assert_memory_equal(p.tracked, latest + 2 * p.length, p.tracked_length * sizeof(float));
    free(start), free(latest);
    qg_ema_free(e);
    qg_params_release(&p);
}

/* Rows of mean 0. */
static void centre(const qg_param *p, float *row)
{
    double       sum = 0;
    const size_t n   = qg_row(p->shape);
    for (size_t i = 0; i < n; i++) sum += (double)row[i];
    for (size_t i = 0; i < n; i++) row[i] -= (float)(sum / (double)n);
}

static void projections_hold_for_averages(void **state)
{
    qg_params p;
    small_declare(&p);
    qg_param *w = p.item[A_WEIGHT];
    w->project  = centre;
    qg_ema *e   = ema_of(&p, (qg_ema_spec){ 0 });
    move(&p, 1);                                        /* the rows' means are not 0 */
    assert_ok(qg_ema_update(e));
    assert_ok(qg_ema_swap(e));
    for (int r = 0; r < w->shape.n; r++) {
        double sum = 0;
        for (size_t i = 0; i < qg_row(w->shape); i++)
            sum += (double)w->value[(size_t)r * qg_row(w->shape) + i];
        assert_true(fabs(sum) < 31 * 6e-8);             /* one rounding of each of 31 numbers below 1 */
    }
    qg_ema_free(e);
    qg_params_release(&p);
}

/* An average that an earlier version left below its bound returns to it at once; 0 is not known yet. */
static void bounds_hold_for_averages(void **state)
{
    qg_params p;
    small_declare(&p);
    qg_param *scale = p.item[SCALE];
    scale->value[0] = -878, scale->value[1] = 0, scale->value[2] = 0.5f;
    qg_ema *e       = ema_of(&p, (qg_ema_spec){ .decay = 0.5f, .no_warmup = true });
    scale->least    = 0.25f, scale->greatest = INFINITY;
    scale->value[0] = 0.25f, scale->value[2] = 0.75f;
    assert_ok(qg_ema_update(e));
    assert_ok(qg_ema_swap(e));
    assert_true(scale->value[0] == 0.25f && scale->value[1] == 0 && scale->value[2] == 0.625f);
    qg_ema_free(e);
    qg_params_release(&p);
}

/* No condition moves the averages of what is frozen. */
static void frozen_averages_keep_their_bits(void **state)
{
    qg_params p;
    small_declare(&p);
    qg_param *w = p.item[A_WEIGHT], *last = p.item[LAST];
    w->project = centre, w->frozen = true;
    last->least = last->greatest = 7, last->clip = 0.1f;
    float  *start = small_copy(&p);
    qg_ema *e     = ema_of(&p, (qg_ema_spec){ 0 });
    assert_ok(qg_ema_update(e));
    assert_ok(qg_ema_swap(e));
    assert_memory_equal(p.value, start, p.length * sizeof(float));
    free(start);
    qg_ema_free(e);
    qg_params_release(&p);
}

static void a_file_in_between_changes_no_bit(void **state)
{
    qg_params p, q;
    small_declare(&p), small_declare(&q);
    qg_ema *a = ema_of(&p, (qg_ema_spec){ 0 }), *b = ema_of(&q, (qg_ema_spec){ 0 });
    for (int s = 0; s < 3; s++) move(&p, s), assert_ok(qg_ema_update(a));
    qg_state *saved = qg_state_new(), *loaded = qg_state_new();
    qg_ema_state(a, saved), qg_ema_state(b, loaded);
    assert_ok(qg_state_save(saved, in_room("ema")));
    assert_ok(qg_state_load(loaded, in_room("ema")));
    for (int s = 3; s < 6; s++) {
        move(&p, s), assert_ok(qg_ema_update(a));
        move(&q, s), assert_ok(qg_ema_update(b));
    }
    assert_ok(qg_ema_swap(a)), assert_ok(qg_ema_swap(b));
    assert_memory_equal(p.value, q.value, p.length * sizeof(float));
    qg_state_free(saved), qg_state_free(loaded);
    qg_ema_free(a), qg_ema_free(b);
    qg_params_release(&p), qg_params_release(&q);
}

static void a_loaded_count_out_of_range_is_refused(void **state)
{
    int64_t steps = -1;
    float   w     = 1;
    qg_params p   = { 0 };
    declare(&p, "x", (qg_shape){ 1, 1, 1, 1 });
    assert_ok(qg_params_allocate(&p));
    qg_ema   *e    = ema_of(&p, (qg_ema_spec){ 0 });
    qg_state *file = qg_state_new(), *s = qg_state_new();
    qg_state_add(file, "ema.x", (qg_array){ .dtype = QG_F32, .rank = 4, .dims = { 1, 1, 1, 1 }, .data = &w });
    qg_state_add(file, "ema.steps", (qg_array){ .dtype = QG_I64, .data = &steps });
    qg_ema_state(e, s);
    assert_ok(qg_state_save(file, in_room("bad")));
    assert_ok(qg_state_load(s, in_room("bad")));
    assert_failed(qg_ema_update(e), QG_ESTATE, "ema: the count of updates is -1");
    qg_state_free(file), qg_state_free(s);
    qg_ema_free(e);
    qg_params_release(&p);
}

static void mistakes_are_told(void **state)
{
    const float bad[] = { 1, -0.1f, NAN, INFINITY };
    qg_params   p, bare = { 0 };
    small_declare(&p);
    for (int i = 0; i < COUNT(bad); i++)
        assert_none(qg_ema_new(&p, (qg_ema_spec){ .decay = bad[i] }), "ema: decay is");
    assert_none(qg_ema_new(&bare, (qg_ema_spec){ 0 }), "ema: the parameters are not allocated");
    qg_ema *e = ema_of(&p, (qg_ema_spec){ 0 });
    assert_ok(qg_ema_swap(e));
    assert_failed(qg_ema_update(e), QG_ESTATE, "ema: the averages are swapped in; call qg_ema_swap first");
    assert_ok(qg_ema_swap(e));
    assert_ok(qg_ema_update(e));
    qg_ema_free(e);
    qg_fail(QG_EARG, "why the net was not built");
    assert_null(qg_ema_new(NULL, (qg_ema_spec){ 0 }));
    qg_ema_state(NULL, NULL);
    qg_ema_free(NULL);
    assert_string_equal(qg_errmsg(), "why the net was not built");
    assert_failed(qg_ema_update(NULL), QG_ESTATE, "ema: it is NULL");
    assert_failed(qg_ema_swap(NULL), QG_ESTATE, "ema: it is NULL");
    qg_params_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(averages_by_formula),
        cmocka_unit_test(a_restart_forgets_everything),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(averages_are_legal_values),
        cmocka_unit_test(projections_hold_for_averages),
        cmocka_unit_test(bounds_hold_for_averages),
        cmocka_unit_test(frozen_averages_keep_their_bits),
        cmocka_unit_test(a_file_in_between_changes_no_bit),
        cmocka_unit_test(a_loaded_count_out_of_range_is_refused),
        cmocka_unit_test(mistakes_are_told),
    };
    return cmocka_run_group_tests(tests, room_enter, room_leave);
}
