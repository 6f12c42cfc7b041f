#include "tests/support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optim/optim.h"
#include "tests/support/nets.h"
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
static const struct {
    const char  *torch;
    qg_sgd_spec  sgd;           /* lr 0: Adam */
    qg_adam_spec adam;
    double       expected[3];
} originals[] = {
    { "SGD lr=0.1", .sgd = { .lr = 0.1f }, .expected = { 0.490000000, -0.270000000, 0.970000000 } },
    { "SGD lr=0.1, weight_decay=0.5", .sgd = { .lr = 0.1f, .weight_decay = 0.5f },
      .expected = { 0.398691875, -0.223602812, 0.788822500 } },
    { "SGD lr=0.1, momentum=0.9", .sgd = { .lr = 0.1f, .momentum = 0.9f },
      .expected = { 0.465160000, -0.270810000, 0.895480000 } },
    { "SGD lr=0.1, momentum=0.9, weight_decay=0.5", .sgd = { .lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.5f },
      .expected = { 0.259743125, -0.167257187, 0.488582500 } },
    { "SGD lr=0.1, momentum=0.9, weight_decay=0.5, nesterov=True",
      .sgd = { .lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.5f, .nesterov = true },
      .expected = { 0.204524527, -0.158605448, 0.376497999 } },
    { "Adam lr=0.01", .adam = { .lr = 0.01f }, .expected = { 0.478878455, -0.247295979, 0.978878453 } },
    { "Adam lr=0.01, betas=(0.5, 0.75), eps=0.1", .adam = { .lr = 0.01f, .beta1 = 0.5f, .beta2 = 0.75f, .eps = 0.1f },
      .expected = { 0.491944098, -0.251960178, 0.987750961 } },
    { "AdamW lr=0.01, weight_decay=0.5", .adam = { .lr = 0.01f, .weight_decay = 0.5f },
      .expected = { 0.469157997, -0.242446217, 0.959232746 } },
};

static qg_optim *make(qg_params *p, qg_sgd_spec sgd, qg_adam_spec adam)
{
    qg_optim *o = sgd.lr > 0 ? qg_sgd(p, sgd) : qg_adam(p, adam);
    if (!o) fail_msg("%s", qg_errmsg());
    return o;
}

static void updates_are_torchs(void **state)
{
    for (int row = 0; row < COUNT(originals); row++) {
        qg_params p = { 0 };
        assert_non_null(qg_params_declare(&p, (qg_param){ .name = "w", .shape = { 1, 1, 1, 3 } }));
        assert_ok(qg_params_allocate(&p));
        memcpy(p.item[0]->value, (float[]){ 0.5f, -0.25f, 1.0f }, 3 * sizeof(float));
        qg_optim *o = make(&p, originals[row].sgd, originals[row].adam);
        for (int k = 0; k < 4; k++) {
            for (int i = 0; i < 3; i++)
                p.item[0]->grad[i] = 0.1f * (float)(i + 1) * ((i + k) % 2 == 0 ? 1.0f : -0.5f);
            assert_ok(qg_optim_step(o));
        }
        /* Four steps of a few roundings each, of values up to 1: 2^-24 apiece. */
        for (int i = 0; i < 3; i++)
            if (!(fabs((double)p.item[0]->value[i] - originals[row].expected[i]) < 1e-6))
                fail_msg("%s: w[%d] is %.9f", originals[row].torch, i, (double)p.item[0]->value[i]);
        qg_optim_free(o);
        qg_params_release(&p);
    }
}

/* --- against a loop in double, with everything switched on --------------------------------- */

typedef struct reference {
    qg_group_spec group[QG_GROUPS];
    double        w[ITEMS][MOST_FLOATS], m[ITEMS][MOST_FLOATS], v[ITEMS][MOST_FLOATS];
} reference;

typedef double rule(double g, double *m, double *v, double lr, double decay, double w, int t);

static double plain_ref(double g, double *m, double *v, double lr, double decay, double w, int t)
{
    return w - lr * (g + decay * w);
}

static double momentum_ref(double g, double *m, double *v, double lr, double decay, double w, int t)
{
    *m = 0.9 * *m + g + decay * w;
    return w - lr * *m;
}

static double nesterov_ref(double g, double *m, double *v, double lr, double decay, double w, int t)
{
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

/* tolerance: of the largest difference over all values.
 *
 * SGD's weights and velocities stay below 4, where a rounding moves a float by 2^-23 at most: three in each
 * of five steps.  Adam has five roundings of 2^-24, and 0.999f: its 1 - beta2 is 0.001 less 1.3e-5 of it,
 * which moves v' by as much at most and so a step of 0.03 by 2e-7. */
static const struct definition {
    const char  *name;
    qg_sgd_spec  sgd;
    qg_adam_spec adam;
    rule        *update;
    double       tolerance;
} definitions[] = {
    { "plain", .sgd = { .lr = 0.1f, .weight_decay = 0.05f }, .update = plain_ref, .tolerance = 15 * 0x1p-23 },
    { "momentum", .sgd = { .lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.05f }, .update = momentum_ref,
      .tolerance = 15 * 0x1p-23 },
    { "nesterov", .sgd = { .lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.05f, .nesterov = true },
      .update = nesterov_ref, .tolerance = 15 * 0x1p-23 },
    { "adam", .adam = { .lr = 0.01f, .weight_decay = 0.05f }, .update = adam_ref, .tolerance = 1.3e-6 },
};

static void follow_definition(const struct definition *d)
{
    qg_params p;
    small_declare(&p);
    qg_optim  *o  = make(&p, d->sgd, d->adam);
    reference *r  = calloc(1, sizeof *r);
    float      lr = d->sgd.lr > 0 ? d->sgd.lr : d->adam.lr;
    assert_non_null(r);
    for (int g = 0; g < QG_GROUPS; g++) r->group[g].lr_scale = 1;
    r->group[QG_WEIGHTS].weight_decay = 0.05f;
    r->group[QG_SCALES]               = (qg_group_spec){ .lr_scale = 0.5f, .weight_decay = 0.1f };
    r->group[QG_BIASES]               = (qg_group_spec){ .lr_scale = 2 };
    qg_optim_set_group(o, QG_SCALES, r->group[QG_SCALES]);
    qg_optim_set_group(o, QG_BIASES, r->group[QG_BIASES]);
    for (int i = 0; i < ITEMS; i++)
        for (size_t k = 0; k < qg_count(small_specs[i].shape); k++) r->w[i][k] = (double)p.item[i]->value[k];
    for (int step = 1; step <= 5; step++) {
        small_set_gradients(&p, step);
        step_ref(r, &p, d->update, (double)lr, step);
        assert_ok(qg_optim_step(o));
        for (size_t k = 0; k < p.length; k++) assert_true(p.grad[k] == 0);
        if (step == 3) qg_optim_set_lr(o, lr = 0.5f * lr);
    }
    double worst = 0;
    for (int i = 0; i < ITEMS; i++)
        for (size_t k = 0; k < qg_count(small_specs[i].shape); k++)
            worst = fmax(worst, fabs((double)p.item[i]->value[k] - r->w[i][k]));
    if (!(worst < d->tolerance)) fail_msg("%s: off by %g", d->name, worst);
    assert_padding_is_zero(&p);
    free(r);
    qg_optim_free(o);
    qg_params_release(&p);
}

static void updates_follow_their_definitions(void **state)
{
    for (int i = 0; i < COUNT(definitions); i++) follow_definition(&definitions[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_are_torchs),
        cmocka_unit_test(updates_follow_their_definitions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
