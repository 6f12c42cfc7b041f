#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optim/optim.h"
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

static void assert_message(const char *part)
{
    if (!strstr(qg_errmsg(), part)) fail_msg("'%s' does not say '%s'", qg_errmsg(), part);
}

static void assert_refused(qg_optim *o, qg_params *p, qg_status status, const char *message)
{
    float *before = small_copy(p);
    assert_int_equal(qg_optim_step(o), status);
    assert_message(message);
    assert_memory_equal(p->value, before, small_bytes(p));
    free(before);
}

static void a_gradient_that_is_not_finite_touches_nothing(void **state)
{
    (void)state;
    qg_params p, twin;
    small_declare(&p);
    small_declare(&twin);
    qg_optim *o     = make_adam(&p);
    qg_optim *other = make_adam(&twin);
    train(o, &p, 0, 2);
    train(other, &twin, 0, 2);

    const size_t last = qg_count(small_specs[B_WEIGHT].shape) - 1;
    const struct {
        int         item;
        size_t      at;
        float       value;
        const char *message;
    } rows[] = {
        { A_WEIGHT, 0, NAN, "gradient 0 of a.weight is" },
        { A_WEIGHT, 1022, INFINITY, "gradient 1022 of a.weight is inf" },
        { NORM, 0, -INFINITY, "gradient 0 of n.gamma is -inf" },
        { B_WEIGHT, 20000, NAN, "gradient 20000 of b.weight is" },
        { B_WEIGHT, last, INFINITY, "of b.weight is inf" },
        { LAST, 64, INFINITY, "gradient 64 of c.bias is inf" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        small_set_gradients(&p, 2);
        p.item[rows[i].item]->grad[rows[i].at] = rows[i].value;
        assert_refused(o, &p, QG_ENAN, rows[i].message);
    }
    small_set_gradients(&p, 2);
    p.item[LAST]->grad[0]   = NAN;
    p.item[A_BIAS]->grad[5] = NAN;
    assert_refused(o, &p, QG_ENAN, "gradient 5 of a.bias");

    /* The moments and the count were not touched either: both go on alike. */
    train(o, &p, 2, 4);
    train(other, &twin, 2, 4);
    assert_memory_equal(p.value, twin.value, small_bytes(&p));
    qg_optim_free(other);
    qg_optim_free(o);
    qg_params_release(&twin);
    qg_params_release(&p);
}

static void the_largest_floats_are_finite(void **state)
{
    (void)state;
    qg_params p;
    small_declare(&p);
    qg_optim *o = qg_sgd(&p, (qg_sgd_spec){ .lr = 0x1p-127f });
    small_set_gradients(&p, 0);
    p.item[A_BIAS]->grad[0] = 0x1.fffffep127f;
    p.item[A_BIAS]->grad[1] = -0x1.fffffep127f;
    p.item[A_BIAS]->grad[2] = 0x1p-149f;
    assert_int_equal(qg_optim_step(o), QG_OK);
    qg_optim_free(o);
    qg_params_release(&p);
}

static void a_bad_setting_touches_nothing_and_heals(void **state)
{
    (void)state;
    qg_params p;
    small_declare(&p);
    qg_optim *o = make_sgd(&p);
    small_set_gradients(&p, 0);
    qg_optim_set_lr(o, NAN);
    assert_refused(o, &p, QG_EARG, "lr is");
    qg_optim_set_lr(o, -0.5f);
    assert_refused(o, &p, QG_EARG, "lr is -0.5");
    qg_optim_set_lr(o, 0.5f);
    qg_optim_set_group(o, QG_BIASES, (qg_group_spec){ .lr_scale = 1, .weight_decay = -2 });
    assert_refused(o, &p, QG_EARG, "biases have lr_scale 1, weight_decay -2");
    qg_optim_set_group(o, QG_BIASES, (qg_group_spec){ .lr_scale = 1 });
    p.item[NORM]->clip = -1;
    assert_refused(o, &p, QG_EARG, "n.gamma has");
    p.item[NORM]->clip     = 0;
    p.item[NORM]->lr_scale = INFINITY;
    assert_refused(o, &p, QG_EARG, "lr_scale inf");
    p.item[NORM]->lr_scale = 0;
    p.item[NORM]->decay    = NAN;
    assert_refused(o, &p, QG_EARG, "n.gamma has");
    p.item[NORM]->decay = 0;
    assert_int_equal(qg_optim_step(o), QG_OK);

    small_set_gradients(&p, 1);
    qg_optim_set_group(o, QG_TRACKED, (qg_group_spec){ .lr_scale = 1 });
    assert_refused(o, &p, QG_EARG, "group 4");
    qg_optim_free(o);
    qg_params_release(&p);
}

static void bad_specs_are_refused(void **state)
{
    (void)state;
    qg_params p, bare = { 0 };
    small_declare(&p);
    const struct {
        qg_sgd_spec spec;
        const char *message;
    } sgd[] = {
        { { .lr = 0 }, "sgd: lr is 0" },
        { { .lr = -1 }, "sgd: lr is -1" },
        { { .lr = NAN }, "sgd: lr is" },
        { { .lr = INFINITY }, "sgd: lr is inf" },
        { { .lr = 1, .momentum = 1 }, "sgd: momentum is 1" },
        { { .lr = 1, .momentum = -0.5f }, "sgd: momentum is -0.5" },
        { { .lr = 1, .nesterov = true }, "sgd: nesterov needs a momentum" },
        { { .lr = 1, .weight_decay = -3 }, "sgd: weight_decay is -3" },
    };
    for (size_t i = 0; i < sizeof sgd / sizeof *sgd; i++) {
        assert_null(qg_sgd(&p, sgd[i].spec));
        assert_message(sgd[i].message);
    }
    const struct {
        qg_adam_spec spec;
        const char  *message;
    } adam[] = {
        { { .lr = 0 }, "adam: lr is 0" },
        { { .lr = 1, .beta1 = 1 }, "adam: beta1 is 1" },
        { { .lr = 1, .beta1 = NAN }, "adam: beta1 is" },
        { { .lr = 1, .beta2 = 1.5f }, "adam: beta2 is 1.5" },
        { { .lr = 1, .eps = -1 }, "adam: eps is -1" },
        { { .lr = 1, .weight_decay = INFINITY }, "adam: weight_decay is inf" },
    };
    for (size_t i = 0; i < sizeof adam / sizeof *adam; i++) {
        assert_null(qg_adam(&p, adam[i].spec));
        assert_message(adam[i].message);
    }
    assert_null(make_sgd(&bare));
    assert_message("sgd: the parameters are not allocated");
    qg_params_release(&p);
}

static void null_flows(void **state)
{
    (void)state;
    qg_fail(QG_EARG, "why the net was not built");
    assert_null(make_sgd(NULL));
    assert_null(make_adam(NULL));
    qg_optim_set_lr(NULL, 1);
    qg_optim_set_group(NULL, QG_BIASES, (qg_group_spec){ .lr_scale = 1 });
    qg_optim_state(NULL, NULL);
    qg_optim_free(NULL);
    assert_string_equal(qg_errmsg(), "why the net was not built");
    qg_fail(QG_EARG, "adam: lr is 0");
    assert_int_equal(qg_optim_step(NULL), QG_ESTATE);
    assert_message("optimizer: it is NULL; the last failure was: adam: lr is 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gradient_that_is_not_finite_touches_nothing),
        cmocka_unit_test(the_largest_floats_are_finite),
        cmocka_unit_test(a_bad_setting_touches_nothing_and_heals),
        cmocka_unit_test(bad_specs_are_refused),
        cmocka_unit_test(null_flows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
