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

/* --- against torch ------------------------------------------------------------------------ */

/* Python with torch 1.13, in float64, w.tolist() after
 *
 *     w = torch.tensor([0.5, -0.25, 1.0], dtype=torch.float64, requires_grad=True)
 *     for k in range(4):
 *         g = [0.1 * (i + 1) * (1 if (i + k) % 2 == 0 else -0.5) for i in range(3)]
 *         w.grad = torch.tensor(g, dtype=torch.float64)
 *         optimizer.step()
 */
static void follow_torch(qg_optim *(*make)(qg_params *p, int which), int which,
                         const double expected[3])
{
    qg_params p = { 0 };
    assert_non_null(qg_params_declare(&p, (qg_param){ .name = "w", .shape = { 1, 1, 1, 3 } }));
    assert_int_equal(qg_params_allocate(&p), QG_OK);
    memcpy(p.item[0]->value, (float[]){ 0.5f, -0.25f, 1.0f }, 3 * sizeof(float));
    qg_optim *o = make(&p, which);
    assert_non_null(o);
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < 3; i++)
            p.item[0]->grad[i] = 0.1f * (float)(i + 1) * ((i + k) % 2 == 0 ? 1.0f : -0.5f);
        assert_int_equal(qg_optim_step(o), QG_OK);
    }
    /* Four steps of a few roundings each, of values up to 1: 2^-24 apiece. */
    for (int i = 0; i < 3; i++) assert_true(fabs((double)p.item[0]->value[i] - expected[i]) < 1e-6);
    qg_optim_free(o);
    qg_params_release(&p);
}

static qg_optim *torch_sgd(qg_params *p, int which)
{
    const qg_sgd_spec s[] = {
        { .lr = 0.1f },
        { .lr = 0.1f, .weight_decay = 0.5f },
        { .lr = 0.1f, .momentum = 0.9f },
        { .lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.5f },
        { .lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.5f, .nesterov = true },
    };
    return qg_sgd(p, s[which]);
}

static void sgd_is_torchs(void **state)
{
    (void)state;
    const double expected[][3] = {
        { 0.490000000, -0.270000000, 0.970000000 },     /* SGD([w], lr=0.1) */
        { 0.398691875, -0.223602812, 0.788822500 },     /* lr=0.1, weight_decay=0.5 */
        { 0.465160000, -0.270810000, 0.895480000 },     /* lr=0.1, momentum=0.9 */
        { 0.259743125, -0.167257187, 0.488582500 },     /* lr=0.1, momentum=0.9, weight_decay=0.5 */
        { 0.204524527, -0.158605448, 0.376497999 },     /* the same with nesterov=True */
    };
    for (int i = 0; i < 5; i++) follow_torch(torch_sgd, i, expected[i]);
}

static qg_optim *torch_adam(qg_params *p, int which)
{
    const qg_adam_spec s[] = {
        { .lr = 0.01f },
        { .lr = 0.01f, .beta1 = 0.5f, .beta2 = 0.75f, .eps = 0.1f },
        { .lr = 0.01f, .weight_decay = 0.5f },
    };
    return qg_adam(p, s[which]);
}

static void adam_is_torchs(void **state)
{
    (void)state;
    const double expected[][3] = {
        { 0.478878455, -0.247295979, 0.978878453 },     /* Adam([w], lr=0.01) */
        { 0.491944098, -0.251960178, 0.987750961 },     /* betas=(0.5, 0.75), eps=0.1 */
        { 0.469157997, -0.242446217, 0.959232746 },     /* AdamW([w], lr=0.01, weight_decay=0.5) */
    };
    for (int i = 0; i < 3; i++) follow_torch(torch_adam, i, expected[i]);
}

/* --- against a loop in double, with everything switched on --------------------------------- */

typedef struct reference {
    qg_group_spec group[QG_GROUPS];
    double        w[ITEMS][MOST_FLOATS], m[ITEMS][MOST_FLOATS], v[ITEMS][MOST_FLOATS];
} reference;

typedef double rule(double g, double *m, double *v, double lr, double decay, double w, int t);

static double plain_ref(double g, double *m, double *v, double lr, double decay, double w, int t)
{
    (void)m, (void)v, (void)t;
    return w - lr * (g + decay * w);
}

static double momentum_ref(double g, double *m, double *v, double lr, double decay, double w, int t)
{
    (void)v, (void)t;
    *m = 0.9 * *m + g + decay * w;
    return w - lr * *m;
}

static double nesterov_ref(double g, double *m, double *v, double lr, double decay, double w, int t)
{
    (void)v, (void)t;
    *m = 0.9 * *m + g + decay * w;
    return w - lr * (g + decay * w + 0.9 * *m);
}

static double adam_ref(double g, double *m, double *v, double lr, double decay, double w, int t)
{
    *m = 0.9 * *m + 0.1 * g;
    *v = 0.999 * *v + 0.001 * g * g;
    const double m_hat = *m / (1 - pow(0.9, t));
    const double v_hat = *v / (1 - pow(0.999, t));
    return w - lr * decay * w - lr * m_hat / (sqrt(v_hat) + 1e-8);
}

static void step_ref(reference *r, const qg_params *p, rule *update, double lr, int step)
{
    for (int i = 0; i < ITEMS; i++) {
        const qg_param      *s = &small_specs[i];
        const qg_group_spec *g = &r->group[s->group];
        if (s->group == QG_TRACKED || s->frozen || g->lr_scale == 0) continue;
        const double own   = s->lr_scale == 0 ? 1 : (double)s->lr_scale;
        const double rate  = lr * (double)g->lr_scale * own;
        const double decay = (double)(s->decay == 0 ? g->weight_decay : s->decay);
        for (size_t k = 0; k < qg_count(s->shape); k++) {
            const double dw = (double)p->item[i]->grad[k];
            double       w  = update(dw, &r->m[i][k], &r->v[i][k], rate, decay, r->w[i][k], step);
            if (s->clip > 0) w = fmax(-(double)s->clip, fmin((double)s->clip, w));
            r->w[i][k] = w;
        }
    }
}

static void assert_padding_is_zero(const qg_params *p)
{
    for (size_t k = 0; k < p->length; k++) {
        bool inside = false;
        for (int i = 0; i < ITEMS; i++)
            if (p->item[i]->grad && k >= p->item[i]->offset)
                inside |= k < p->item[i]->offset + qg_count(p->item[i]->shape);
        if (!inside) assert_true(p->value[k] == 0);
    }
}

/* tolerance: of the largest difference over all floats. */
static void follow_reference(qg_optim *(*make)(qg_params *p), rule *update, float lr,
                             double tolerance)
{
    qg_params p;
    small_declare(&p);
    qg_optim  *o = make(&p);
    reference *r = calloc(1, sizeof *r);
    assert_non_null(o);
    assert_non_null(r);
    for (int g = 0; g < QG_GROUPS; g++) r->group[g].lr_scale = 1;
    r->group[QG_WEIGHTS].weight_decay = 0.05f;
    r->group[QG_SCALES]           = (qg_group_spec){ .lr_scale = 0.5f, .weight_decay = 0.1f };
    r->group[QG_BIASES]               = (qg_group_spec){ .lr_scale = 2 };
    qg_optim_set_group(o, QG_SCALES, r->group[QG_SCALES]);
    qg_optim_set_group(o, QG_BIASES, r->group[QG_BIASES]);
    for (int i = 0; i < ITEMS; i++)
        for (size_t k = 0; k < qg_count(small_specs[i].shape); k++)
            r->w[i][k] = (double)p.item[i]->value[k];
    for (int step = 1; step <= 5; step++) {
        small_set_gradients(&p, step);
        step_ref(r, &p, update, (double)lr, step);
        assert_int_equal(qg_optim_step(o), QG_OK);
        for (size_t k = 0; k < p.length; k++) assert_true(p.grad[k] == 0);
        if (step == 3) qg_optim_set_lr(o, lr = 0.5f * lr);
    }
    double worst = 0;
    for (int i = 0; i < ITEMS; i++)
        for (size_t k = 0; k < qg_count(small_specs[i].shape); k++)
            worst = fmax(worst, fabs((double)p.item[i]->value[k] - r->w[i][k]));
    if (!(worst < tolerance)) fail_msg("off by %g", worst);
    assert_padding_is_zero(&p);
    free(r);
    qg_optim_free(o);
    qg_params_release(&p);
}

static qg_optim *make_plain(qg_params *p)
{
    return qg_sgd(p, (qg_sgd_spec){ .lr = 0.1f, .weight_decay = 0.05f });
}

static qg_optim *make_momentum(qg_params *p)
{
    return qg_sgd(p, (qg_sgd_spec){ .lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.05f });
}

static qg_optim *make_nesterov(qg_params *p)
{
    return qg_sgd(p, (qg_sgd_spec){ .lr           = 0.1f,
                                    .momentum     = 0.9f,
                                    .weight_decay = 0.05f,
                                    .nesterov     = true });
}

static qg_optim *make_adam(qg_params *p)
{
    return qg_adam(p, (qg_adam_spec){ .lr = 0.01f, .weight_decay = 0.05f });
}

/* Weights and velocities stay below 4, where a rounding moves a float by 2^-23 at most: three in
 * each of five steps. */
static void sgd_follows_the_definition(void **state)
{
    (void)state;
    follow_reference(make_plain, plain_ref, 0.1f, 15 * 0x1p-23);
    follow_reference(make_momentum, momentum_ref, 0.1f, 15 * 0x1p-23);
    follow_reference(make_nesterov, nesterov_ref, 0.1f, 15 * 0x1p-23);
}

/* Five roundings of 2^-24, and 0.999f: its 1 - beta2 is 0.001 less 1.3e-5 of it, which moves v' by
 * as much at most and so a step of 0.03 by 2e-7. */
static void adam_follows_the_definition(void **state)
{
    (void)state;
    follow_reference(make_adam, adam_ref, 0.01f, 1.3e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_is_torchs),
        cmocka_unit_test(adam_is_torchs),
        cmocka_unit_test(sgd_follows_the_definition),
        cmocka_unit_test(adam_follows_the_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
