/* An optimizer of the user's own: a loop and a constant. */
#include "tests/support/testing.h"

#include "qgrad.h"

/* signSGD: w = w - lr sign(g).                                               [1802.04434] */
static void update(const void *spec, const qg_stretch *s)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->g[i] != 0) s->w[i] = qg_clipped(s->w[i] - (s->g[i] > 0 ? s->lr : -s->lr), s->clip);
        s->g[i] = 0;
    }
}

static const qg_rule sign_rule = { .name = "signsgd", .update = update };

static void a_rule_is_all_there_is_to_it(void **state)
{
    qg_params p = { 0 };
    qg_param *w = declare(&p, "w", (qg_shape){ 1, 1, 1, 3 });
    w->clip     = 0.75f;
    assert_ok(qg_params_allocate(&p));
    qg_optim *o = qg_optim_new(&p, &sign_rule, NULL, 0, 0.5f, 0);
    if (!o) fail_msg("%s", qg_errmsg());
    for (int step = 0; step < 2; step++) {
        w->grad[0] = 3, w->grad[1] = -1e-9f, w->grad[2] = 0;
        assert_ok(qg_optim_step(o));
    }
    assert_true(w->value[0] == -0.75f && w->value[1] == 0.75f && w->value[2] == 0);
    assert_true(w->grad[0] == 0);
    qg_optim_free(o);
    qg_params_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_rule_is_all_there_is_to_it) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
