#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "optim/schedule.h"

static qg_schedule parsed(const char *text)
{
    qg_schedule s;
    memset(&s, 0xAA, sizeof s);
    if (qg_schedule_parse(text, &s)) fail_msg("%s", qg_errmsg());
    return s;
}

/* Factors are floats, so values agree with decimals to 2^-24 = 6e-8 per factor. */
static void assert_lr(const qg_schedule *s, double progress, double expected)
{
    const double lr = qg_schedule_lr(s, 0.2, progress);
    if (!(fabs(lr - expected) <= 3e-7 * expected))
        fail_msg("at %g: %.9g, not %.9g", progress, lr, expected);
}

static void nothing_is_constant(void **state)
{
    (void)state;
    const qg_schedule s = { 0 };
    assert_true(qg_schedule_lr(&s, 0.2, 0) == 0.2);
    assert_true(qg_schedule_lr(&s, 0.2, 0.7) == 0.2);
    assert_true(qg_schedule_lr(&s, 0.2, 1) == 0.2);
    assert_true(qg_schedule_lr(NULL, 0.2, 0.7) == 0.2);
    char text[16];
    assert_int_equal(qg_schedule_print(NULL, text, sizeof text), 8);
    assert_string_equal(text, "constant");
}

static void steps_fall_at_their_milestones(void **state)
{
    (void)state;
    const qg_schedule s = { .kind = QG_STEP, .milestone = { 0.5f, 0.8f }, .n_milestones = 2 };
    assert_true(qg_schedule_lr(&s, 0.2, 0) == 0.2);
    assert_true(qg_schedule_lr(&s, 0.2, 0.4999) == 0.2);
    assert_lr(&s, 0.5, 0.02);
    assert_lr(&s, 0.7999, 0.02);
    assert_lr(&s, 8.0 / 10, 0.002);         /* 0.8f is greater than 0.8 */
    assert_lr(&s, 1, 0.002);
    const qg_schedule half = parsed("step:at=0.25,factor=0.5");
    assert_true(qg_schedule_lr(&half, 0.2, 0.25) == 0.1);
}

/* 25 steps of 0.04; in float, 3 * 0.1 is more than 0.3. */
static void steps_may_come_at_every_fraction(void **state)
{
    (void)state;
    const qg_schedule halves = parsed("step:every=0.04,factor=0.5"), tenths = parsed("step:every=0.1");
    for (int epoch = 0; epoch < 1000; epoch++)
        assert_lr(&halves, epoch / 1000.0, 0.2 * pow(0.5, epoch / 40));
    for (int epoch = 0; epoch < 10; epoch++) assert_lr(&tenths, epoch / 10.0, 0.2 * pow(0.1, epoch));
    assert_lr(&tenths, 0.29999, 0.2 * 0.01);
}

static void exponential_ends_at_its_factor(void **state)
{
    (void)state;
    const qg_schedule s = parsed("exponential:factor=0.0001");
    assert_true(qg_schedule_lr(&s, 0.2, 0) == 0.2);
    assert_lr(&s, 0.25, 0.02);
    assert_lr(&s, 0.5, 0.002);
    assert_lr(&s, 1, 0.00002);
    const qg_schedule up = { .kind = QG_EXPONENTIAL, .factor = 100 };
    assert_lr(&up, 0.5, 2);
}

static void cosine_is_half_a_period(void **state)
{
    (void)state;
    const qg_schedule s = { .kind = QG_COSINE };
    assert_true(qg_schedule_lr(&s, 0.2, 0) == 0.2);
    assert_lr(&s, 1.0 / 3, 0.15);           /* cos 60 degrees = 1/2 */
    assert_lr(&s, 0.5, 0.1);
    assert_true(qg_schedule_lr(&s, 0.2, 1) == 0);
    const qg_schedule floor = { .kind = QG_COSINE, .factor = 0.5f };
    assert_lr(&floor, 0.5, 0.15);
    assert_true(qg_schedule_lr(&floor, 0.2, 1) == 0.1);
}

static void warmup_is_a_ramp(void **state)
{
    (void)state;
    const qg_schedule s = { .warmup = 0.1f };
    assert_true(qg_schedule_lr(&s, 0.2, 0) == 0);
    assert_lr(&s, 0.025, 0.05);
    assert_true(qg_schedule_lr(&s, 0.2, 0.1) == 0.2);
    assert_true(qg_schedule_lr(&s, 0.2, 0.5) == 0.2);
    const qg_schedule both = parsed("step:at=0.25,warmup=0.5");
    assert_lr(&both, 0.125, 0.05);
    assert_lr(&both, 0.25, 0.01);           /* half way up, one step down */
    assert_lr(&both, 0.75, 0.02);
    const qg_schedule whole = { .warmup = 1 };
    assert_lr(&whole, 0.5, 0.1);
    assert_true(qg_schedule_lr(&whole, 0.2, 1) == 0.2);
}

static void progress_is_kept_in_range(void **state)
{
    (void)state;
    const qg_schedule s = { .kind = QG_COSINE, .factor = 0.5f };
    assert_true(qg_schedule_lr(&s, 0.2, -0.5) == 0.2);
    assert_true(qg_schedule_lr(&s, 0.2, 1.5) == 0.1);
    assert_true(isnan(qg_schedule_lr(&s, 0.2, NAN)));
}

static void texts_become_schedules(void **state)
{
    (void)state;
    qg_schedule s = parsed("constant");
    assert_int_equal(s.kind, QG_CONSTANT);
    assert_true(s.factor == 0 && s.n_milestones == 0 && s.warmup == 0);
    s = parsed("step:at=0.5+0.8,factor=0.2");
    assert_int_equal(s.kind, QG_STEP);
    assert_int_equal(s.n_milestones, 2);
    assert_true(s.milestone[0] == 0.5f && s.milestone[1] == 0.8f);
    assert_true(s.factor == 0.2f && s.warmup == 0);
    s = parsed("exponential:factor=3e-3");
    assert_true(s.kind == QG_EXPONENTIAL && s.factor == 0.003f);
    s = parsed("cosine:warmup=0.05,factor=0.01");
    assert_true(s.kind == QG_COSINE && s.factor == 0.01f && s.warmup == 0.05f);
    s = parsed("step:at=.1+.2+.3+.4+.5+.6+.7+.8");
    assert_int_equal(s.n_milestones, QG_MILESTONES);
}

static void assert_round_trip(const qg_schedule *s, const char *expected)
{
    char      text[256];
    const int length = qg_schedule_print(s, text, sizeof text);
    if (expected) assert_string_equal(text, expected);
    assert_int_equal(length, strlen(text));
    const qg_schedule back = parsed(text);
    assert_int_equal(back.kind, s->kind);
    assert_int_equal(back.n_milestones, s->n_milestones);
    assert_memory_equal(back.milestone, s->milestone, sizeof s->milestone);
    assert_true(back.factor == s->factor && back.warmup == s->warmup && back.every == s->every);
}

static void schedules_become_texts(void **state)
{
    (void)state;
    const char *const texts[] = {
        "constant",
        "constant:warmup=0.05",
        "step:at=0.5+0.8",
        "step:at=0.5+0.8,factor=0.2,warmup=1",
        "step:every=0.04,factor=0.5",
        "exponential:factor=1e-05",
        "exponential:factor=1e+10,warmup=0.1",
        "cosine",
        "cosine:factor=0.01,warmup=0.05",
        "cosine:warmup=0.05",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const qg_schedule s = parsed(texts[i]);
        assert_round_trip(&s, texts[i]);
    }
    qg_schedule longest = { .kind = QG_STEP, .factor = 0x1.fffffep-100f, .warmup = 0x1.fffffep-2f };
    for (int i = 0; i < QG_MILESTONES; i++)
        longest.milestone[longest.n_milestones++] = (float)(i + 1) * 0x1.fffffep-4f * 0.9f;
    assert_round_trip(&longest, NULL);
}

static void print_is_like_snprintf(void **state)
{
    (void)state;
    const qg_schedule s = parsed("cosine:factor=0.25");
    char              text[8] = "#######";
    assert_int_equal(qg_schedule_print(&s, text, 7), 18);
    assert_memory_equal(text, "cosine\0", 8);
    assert_int_equal(qg_schedule_print(&s, NULL, 0), 18);
}

/* What no text would give. */
static void schedules_by_hand_are_bounded(void **state)
{
    (void)state;
    qg_schedule s = { .kind = QG_STEP, .factor = 0.999f, .every = 1e-12f }, least = s;
    least.every   = 0.0001f;
    assert_true(qg_schedule_lr(&s, 1, 1) == qg_schedule_lr(&least, 1, 1));
    qg_schedule many = { .kind = QG_STEP, .n_milestones = 1000 };
    for (int i = 0; i < QG_MILESTONES; i++) many.milestone[i] = 0.1f * (float)(i + 1);
    char text[256];
    assert_int_equal(qg_schedule_print(&many, text, sizeof text), strlen("step:at=0.1+0.2+0.3+0.4+0.5+0.6+0.7+0.8"));
    assert_int_equal(qg_schedule_parse("constant", NULL), QG_EARG);
}

static void assert_refused(const char *text, const char *culprit, const char *legal)
{
    qg_schedule s, before;
    memset(&s, 0xAA, sizeof s);
    memcpy(&before, &s, sizeof s);
    assert_int_equal(qg_schedule_parse(text, &s), QG_EARG);
    assert_memory_equal(&s, &before, sizeof s);
    if (!strstr(qg_errmsg(), culprit) || !strstr(qg_errmsg(), legal))
        fail_msg("'%s' says neither %s nor %s", qg_errmsg(), culprit, legal);
}

static void wrong_words_are_named(void **state)
{
    (void)state;
    const char *const kinds = "constant, step, exponential, cosine";
    assert_refused("", "''", kinds);
    assert_refused("cosin", "'cosin'", kinds);
    assert_refused("cosines:factor=1", "'cosines'", kinds);
    assert_refused("Step:at=0.5", "'Step'", kinds);
    assert_refused("cosine:facto=0.1", "'facto'", "available: factor, warmup");
    assert_refused("cosine:", "''", "available: factor, warmup");
    assert_refused("cosine:factor=0.1,", "''", "available: factor, warmup");
    assert_refused("cosine:at=0.5", "'at'", "available: factor, warmup");
    assert_refused("constant:factor=0.5", "'factor'", "available: warmup");
    assert_refused("step:at=0.5,warm=0.1", "'warm'", "available: at, every, factor, warmup");
    assert_refused("step:factor=0.1", "step", "needs at= or every=");
    assert_refused("step", "step", "needs at= or every=");
    assert_refused("step:at=0.5,every=0.1", "step", "needs at= or every=, not both");
    assert_refused("exponential:every=0.1", "'every'", "available: factor, warmup");
    assert_refused("step:every=0", "'0'", "must be 0.0001 or more and less than 1");
    assert_refused("step:every=1", "'1'", "must be 0.0001 or more and less than 1");
    assert_refused("exponential", "exponential", "needs factor=");
    assert_refused("cosine:factor=0.1,factor=0.2", "factor", "given twice");
    assert_refused("cosine:warmup=0,warmup=0", "warmup", "given twice");
    char text[1000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    assert_refused(text, "longer", "255");
}

static void wrong_numbers_are_named(void **state)
{
    (void)state;
    const char *const more = "must be more than 0";
    const char *const span = "must be 0 to 1";
    const char *const list = "1 to 8 increasing";
    assert_refused("step:at=0.5,factor=0", "factor is '0'", more);
    assert_refused("exponential:factor=-0.1", "factor is '-0.1'", more);
    assert_refused("exponential:factor", "factor is ''", more);
    assert_refused("exponential:factor=0.1x", "factor is '0.1x'", more);
    assert_refused("exponential:factor=inf", "factor is 'inf'", more);
    assert_refused("exponential:factor=1e99", "factor is '1e99'", more);
    assert_refused("exponential:factor=nan", "factor is 'nan'", more);
    assert_refused("exponential:factor= 1", "factor is ' 1'", more);
    assert_refused("exponential:factor=0x1", "factor is '0x1'", more);
    assert_refused("cosine:factor=-1", "factor is '-1'", "0 or more");
    assert_refused("cosine:factor=1=2", "factor is '1=2'", "0 or more");
    assert_refused("cosine:warmup=1.01", "warmup is '1.01'", span);
    assert_refused("cosine:warmup=-0.01", "warmup is '-0.01'", span);
    assert_refused("step:at=", "at is ''", list);
    assert_refused("step:at", "at is ''", list);
    assert_refused("step:at=0", "at is '0'", list);
    assert_refused("step:at=1", "at is '1'", list);
    assert_refused("step:at=0.5+", "at is '0.5+'", list);
    assert_refused("step:at=0.8+0.5", "at is '0.8+0.5'", list);
    assert_refused("step:at=0.5+0.5", "at is '0.5+0.5'", list);
    assert_refused("step:at=.1+.2+.3+.4+.5+.6+.7+.8+.9", "at is '.1+.2", list);
    qg_schedule s;                              /* digits alone are no fault */
    assert_int_equal(qg_schedule_parse("exponential:factor=0.10000000000000000000000000000001", &s), QG_OK);
    assert_true(s.factor == 0.1f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_constant),
        cmocka_unit_test(steps_fall_at_their_milestones),
        cmocka_unit_test(steps_may_come_at_every_fraction),
        cmocka_unit_test(exponential_ends_at_its_factor),
        cmocka_unit_test(cosine_is_half_a_period),
        cmocka_unit_test(warmup_is_a_ramp),
        cmocka_unit_test(progress_is_kept_in_range),
        cmocka_unit_test(texts_become_schedules),
        cmocka_unit_test(schedules_become_texts),
        cmocka_unit_test(print_is_like_snprintf),
        cmocka_unit_test(schedules_by_hand_are_bounded),
        cmocka_unit_test(wrong_words_are_named),
        cmocka_unit_test(wrong_numbers_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
