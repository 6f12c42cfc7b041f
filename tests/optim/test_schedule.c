#include "tests/support/testing.h"

#include <math.h>
#include <string.h>

#include "optim/schedule.h"
#include "tests/support/nets.h"

static qg_schedule parsed(const char *text)
{
    qg_schedule s;
    memset(&s, 0xAA, sizeof s);
    if (qg_schedule_parse(text, &s)) fail_msg("%s", qg_errmsg());
    return s;
}

/* --- values ------------------------------------------------------------------------------- */

/* Learning rates at a base rate of 0.2.  tolerance: relative; factors are floats, so values agree with
 * decimals to 2^-24 = 6e-8 per factor. */
static const struct { const char *text; double progress, lr, tolerance; } rates[] = {
    { "constant", 0, 0.2, 0 },
    { "constant", 0.7, 0.2, 0 },
    { "constant", 1, 0.2, 0 },
    { "step:at=0.5+0.8", 0, 0.2, 0 },
    { "step:at=0.5+0.8", 0.4999, 0.2, 0 },
    { "step:at=0.5+0.8", 0.5, 0.02, 3e-7 },
    { "step:at=0.5+0.8", 0.7999, 0.02, 3e-7 },
    { "step:at=0.5+0.8", 8.0 / 10, 0.002, 3e-7 },       /* 0.8f is greater than 0.8 */
    { "step:at=0.5+0.8", 1, 0.002, 3e-7 },
    { "step:at=0.25,factor=0.5", 0.25, 0.1, 0 },
    { "step:every=0.1", 0.29999, 0.002, 3e-7 },
    { "exponential:factor=0.0001", 0, 0.2, 0 },
    { "exponential:factor=0.0001", 0.25, 0.02, 3e-7 },
    { "exponential:factor=0.0001", 0.5, 0.002, 3e-7 },
    { "exponential:factor=0.0001", 1, 0.00002, 3e-7 },
    { "exponential:factor=100", 0.5, 2, 3e-7 },
    { "cosine", 0, 0.2, 0 },
    { "cosine", 1.0 / 3, 0.15, 3e-7 },                  /* cos 60 degrees = 1/2 */
    { "cosine", 0.5, 0.1, 3e-7 },
    { "cosine", 1, 0, 0 },
    { "cosine:factor=0.5", 0.5, 0.15, 3e-7 },
    { "cosine:factor=0.5", 1, 0.1, 0 },
    { "linear", 0, 0.2, 0 },
    { "linear", 0.25, 0.15, 3e-16 },                    /* 0.2 * 0.75 rounds otherwise than 0.15 */
    { "linear", 1, 0, 0 },
    { "linear:factor=0.5", 0.5, 0.15, 3e-16 },
    { "linear:factor=0.5", 1, 0.1, 0 },
    { "linear:warmup=0.5", 0.25, 0.075, 3e-16 },        /* half way up, a quarter down */
    { "constant:warmup=0.1", 0, 0, 0 },
    { "constant:warmup=0.1", 0.025, 0.05, 3e-7 },
    { "constant:warmup=0.1", 0.1, 0.2, 0 },
    { "constant:warmup=0.1", 0.5, 0.2, 0 },
    { "constant:warmup=1", 0.5, 0.1, 3e-7 },
    { "constant:warmup=1", 1, 0.2, 0 },
    { "step:at=0.25,warmup=0.5", 0.125, 0.05, 3e-7 },
    { "step:at=0.25,warmup=0.5", 0.25, 0.01, 3e-7 },    /* half way up, one step down */
    { "step:at=0.25,warmup=0.5", 0.75, 0.02, 3e-7 },
    { "cosine:factor=0.5", -0.5, 0.2, 0 },              /* progress is clamped */
    { "cosine:factor=0.5", 1.5, 0.1, 0 },
};

static void assert_lr(const char *text, double progress, double expected, double tolerance)
{
    const qg_schedule s  = parsed(text);
    const double      lr = qg_schedule_lr(&s, 0.2, progress);
    if (!(fabs(lr - expected) <= tolerance * expected))
        fail_msg("%s at %g: %.17g, not %.17g", text, progress, lr, expected);
}

static void rates_are_those_of_the_formulas(void **state)
{
    for (int i = 0; i < COUNT(rates); i++)
        assert_lr(rates[i].text, rates[i].progress, rates[i].lr, rates[i].tolerance);
    /* 25 steps of 0.04; in float, 3 * 0.1 is more than 0.3. */
    for (int epoch = 0; epoch < 1000; epoch++)
        assert_lr("step:every=0.04,factor=0.5", epoch / 1000.0, 0.2 * pow(0.5, epoch / 40), 3e-7);
    for (int epoch = 0; epoch < 10; epoch++)
        assert_lr("step:every=0.1", epoch / 10.0, 0.2 * pow(0.1, epoch), 3e-7);
    const qg_schedule cosine = { .kind = QG_COSINE, .factor = 0.5f }, none = { .kind = QG_EXPONENTIAL };
    assert_true(qg_schedule_lr(&none, 0.2, 0) == 0.2);
    assert_true(qg_schedule_lr(&none, 0.2, 0.5) == 0);
    assert_true(isnan(qg_schedule_lr(&cosine, 0.2, NAN)));
    assert_true(qg_schedule_lr(NULL, 0.2, 0.7) == 0.2);
}

static void only_a_constant_rate_needs_no_progress(void **state)
{
    static const char *const depend[] = { "step:at=0.5", "step:every=0.1", "step:at=0.5,warmup=0.1", "linear",
                                          "cosine", "exponential:factor=0.1", "constant:warmup=0.1" };
    for (int i = 0; i < COUNT(depend); i++) {
        const qg_schedule s = parsed(depend[i]);
        if (!isnan(qg_schedule_lr(&s, 0.2, NAN))) fail_msg("%s", depend[i]);
    }
    const qg_schedule constant = parsed("constant");
    assert_true(qg_schedule_lr(&constant, 0.2, NAN) == 0.2 && qg_schedule_lr(NULL, 0.2, NAN) == 0.2);
}

/* --- texts -------------------------------------------------------------------------------- */

#define TENTHS { 0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 0.8f }

/* What each text means, and how it is printed again; NULL: as it was. */
static const struct { const char *text; qg_schedule means; const char *printed; } texts[] = {
    { "constant", { 0 }, NULL },
    { "constant:warmup=0.05", { .warmup = 0.05f }, NULL },
    { "step:at=0.5+0.8", { QG_STEP, .milestone = { 0.5f, 0.8f }, .n_milestones = 2 }, NULL },
    { "step:at=0.5+0.8,factor=0.2,warmup=1",
      { QG_STEP, .factor = 0.2f, .milestone = { 0.5f, 0.8f }, .n_milestones = 2, .warmup = 1 }, NULL },
    { "step:at=.1+.2+.3+.4+.5+.6+.7+.8", { QG_STEP, .milestone = TENTHS, .n_milestones = QG_MILESTONES },
      "step:at=0.1+0.2+0.3+0.4+0.5+0.6+0.7+0.8" },
    { "step:every=0.04,factor=0.5", { QG_STEP, .factor = 0.5f, .every = 0.04f }, NULL },
    { "exponential:factor=3e-3", { QG_EXPONENTIAL, .factor = 0.003f }, "exponential:factor=0.003" },
    { "exponential:factor=1e-05", { QG_EXPONENTIAL, .factor = 1e-5f }, NULL },
    { "exponential:factor=1e+10,warmup=0.1", { QG_EXPONENTIAL, .factor = 1e10f, .warmup = 0.1f }, NULL },
    { "exponential:factor=0.10000000000000000000000000000001", { QG_EXPONENTIAL, .factor = 0.1f },
      "exponential:factor=0.1" },
    { "cosine", { .kind = QG_COSINE }, NULL },
    { "cosine:warmup=0.05", { QG_COSINE, .warmup = 0.05f }, NULL },
    { "cosine:warmup=0.05,factor=0.01", { QG_COSINE, .factor = 0.01f, .warmup = 0.05f },
      "cosine:factor=0.01,warmup=0.05" },
    { "linear", { .kind = QG_LINEAR }, NULL },
    { "linear:factor=0.25,warmup=0.1", { QG_LINEAR, .factor = 0.25f, .warmup = 0.1f }, NULL },
};

static void assert_same(const char *text, const qg_schedule *a, const qg_schedule *b)
{
    if (a->kind != b->kind || a->factor != b->factor || a->n_milestones != b->n_milestones ||
        a->every != b->every || a->warmup != b->warmup ||
        memcmp(a->milestone, b->milestone, sizeof a->milestone))
        fail_msg("%s: another schedule", text);
}

static void assert_printed(const qg_schedule *s, const char *expected)
{
    char      text[256];
    const int length = qg_schedule_print(s, text, sizeof text);
    if (expected) assert_string_equal(text, expected);
    assert_int_equal(length, strlen(text));
    const qg_schedule back = parsed(text);
    if (s) assert_same(text, &back, s);
}

static void texts_and_schedules_become_each_other(void **state)
{
    for (int i = 0; i < COUNT(texts); i++) {
        const qg_schedule s = parsed(texts[i].text);
        assert_same(texts[i].text, &s, &texts[i].means);
        assert_printed(&s, texts[i].printed ? texts[i].printed : texts[i].text);
    }
    assert_printed(NULL, "constant");
    qg_schedule longest = { .kind = QG_STEP, .factor = 0x1.fffffep-100f, .warmup = 0x1.fffffep-2f };
    for (int i = 0; i < QG_MILESTONES; i++)
        longest.milestone[longest.n_milestones++] = (float)(i + 1) * 0x1.fffffep-4f * 0.9f;
    assert_printed(&longest, NULL);
}

static void print_is_like_snprintf(void **state)
{
    const qg_schedule s = parsed("cosine:factor=0.25");
    char              text[8] = "#######";
    assert_int_equal(qg_schedule_print(&s, text, 7), 18);
    assert_memory_equal(text, "cosine\0", 8);
    assert_int_equal(qg_schedule_print(&s, NULL, 0), 18);
}

/* Schedules that no text gives. */
static void schedules_by_hand_are_bounded(void **state)
{
    const qg_schedule s     = { .kind = QG_STEP, .factor = 0.999f, .every = 1e-12f };
    const qg_schedule least = { .kind = QG_STEP, .factor = 0.999f, .every = 0.0001f };
    const qg_schedule many  = { .kind = QG_STEP, .n_milestones = 1000, .milestone = TENTHS };
    char              text[256];
    assert_true(qg_schedule_lr(&s, 1, 1) == qg_schedule_lr(&least, 1, 1));
    assert_int_equal(qg_schedule_print(&many, text, sizeof text),
                     strlen("step:at=0.1+0.2+0.3+0.4+0.5+0.6+0.7+0.8"));
}

/* --- refusals ----------------------------------------------------------------------------- */

#define KINDS "unknown schedule '"
#define KEYS  "; available: factor, warmup"

static const struct { const char *text, *message; } refusals[] = {
    { "", KINDS "'; available: constant, step, exponential, cosine, linear" },
    { "cosin", KINDS "cosin'; available: constant, step, exponential, cosine, linear" },
    { "cosines:factor=1", KINDS "cosines'" },
    { "Step:at=0.5", KINDS "Step'" },
    { "cosine:facto=0.1", "cosine: unknown option 'facto'" KEYS },
    { "cosine:", "cosine: unknown option ''" KEYS },
    { "cosine:factor=0.1,", "cosine: unknown option ''" KEYS },
    { "cosine:at=0.5", "cosine: unknown option 'at'" KEYS },
    { "linear:at=0.5", "linear: unknown option 'at'" KEYS },
    { "constant:factor=0.5", "constant: unknown option 'factor'; available: warmup" },
    { "step:at=0.5,warm=0.1", "step: unknown option 'warm'; available: at, every, factor, warmup" },
    { "step:factor=0.1", "step: needs at= or every=" },
    { "step", "step: needs at= or every=" },
    { "step:at=0.5,every=0.1", "step: needs at= or every=, not both" },
    { "exponential:every=0.1", "exponential: unknown option 'every'" KEYS },
    { "step:every=0", "step: every is 0, not in [0.0001, 1)" },
    { "step:every=0.00009", "step: every is 9e-05, not in [0.0001, 1)" },
    { "step:every=1", "step: every is 1, not in [0.0001, 1)" },
    { "step:every=0.99999999999", "step: every is 1, not in [0.0001, 1)" },
    { "exponential", "exponential: factor is missing: last rate" },
    { "exponential:warmup=0.1", "exponential: factor is missing: last rate" },
    { "cosine:factor=0.1,factor=0.2", "cosine: factor is given twice" },
    { "cosine:warmup=0,warmup=0", "cosine: warmup is given twice" },
    { "step:at=0.5,factor=0", "step: factor is 0, must be positive" },
    { "exponential:factor=-0.1", "exponential: factor is -0.1, must be positive" },
    { "exponential:factor=1e-99", "exponential: factor is 1e-99, must be positive" },
    { "exponential:factor", "exponential: factor needs a value" },
    { "exponential:factor=0.1x", "exponential: factor '0.1x' is not a number" },
    { "exponential:factor=inf", "exponential: factor 'inf' is not a number" },
    { "exponential:factor=1e99", "exponential: factor is 1e+99, which is too large" },
    { "exponential:factor=nan", "exponential: factor 'nan' is not a number" },
    { "exponential:factor= 1", "exponential: factor ' 1' is not a number" },
    { "exponential:factor=0x1", "exponential: factor '0x1' is not a number" },
    { "cosine:factor=-1", "cosine: factor is -1, not 0 or more" },
    { "cosine:factor=1=2", "cosine: factor '1=2' is not a number" },
    { "cosine:warmup=1.01", "cosine: warmup is 1.01, not in 0..1" },
    { "cosine:warmup=-0.01", "cosine: warmup is -0.01, not in 0..1" },
    { "step:at=", "step: at '' is not a number" },
    { "step:at", "step: at needs a value" },
    { "step:at=0", "step: at is 0, not in (0, 1)" },
    { "step:at=1", "step: at is 1, not in (0, 1)" },
    { "step:at=0.5+", "step: at '' is not a number" },
    { "step:at=0.8+0.5", "step: at has 0.5 after 0.8; its numbers must increase" },
    { "step:at=0.5+0.5", "step: at has 0.5 after 0.5; its numbers must increase" },
    { "step:at=.1+.2+.3+.4+.5+.6+.7+.8+.9", "step: at has 9 numbers, more than 8" },
};

static void assert_refused(const char *text, const char *message)
{
    qg_schedule s, before;
    memset(&s, 0xAA, sizeof s);
    memcpy(&before, &s, sizeof s);
    if (qg_schedule_parse(text, &s) != QG_EARG) fail_msg("'%s' is accepted", text);
    assert_memory_equal(&s, &before, sizeof s);
    if (!strstr(qg_errmsg(), message)) fail_msg("'%s': '%s' does not say %s", text, qg_errmsg(), message);
}

static void refusals_name_the_culprit(void **state)
{
    for (int i = 0; i < COUNT(refusals); i++)
        assert_refused(refusals[i].text, refusals[i].message);
    char text[1000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    assert_refused(text, KINDS "xxx");
    assert_int_equal(qg_schedule_parse("constant", NULL), QG_EARG);
}

static void assert_illegal(qg_schedule s, const char *message)
{
    assert_int_equal(qg_schedule_check(&s), QG_EARG);
    if (!strstr(qg_errmsg(), message)) fail_msg("'%s' does not say %s", qg_errmsg(), message);
}

static void schedules_by_hand_are_checked(void **state)
{
    char text[8];
    assert_int_equal(qg_schedule_check(NULL), QG_OK);
    for (int kind = 0; qg_schedules[kind].name; kind++) {
        const qg_schedule s = { .kind = (qg_schedule_kind)kind,
                                .factor = 0.5f,
                                .every = kind == QG_STEP ? 0.25f : 0 };
        assert_int_equal(qg_schedule_check(&s), QG_OK);
        assert_illegal((qg_schedule){ .kind = s.kind, .factor = 0.5f, .every = s.every, .warmup = 2 },
                       "warmup is 2, not in 0..1");
    }
    assert_illegal((qg_schedule){ .kind = (qg_schedule_kind)77 }, "77 is not a kind of schedule");
    assert_illegal((qg_schedule){ .kind = (qg_schedule_kind)-1 }, "-1 is not a kind of schedule");
    assert_illegal((qg_schedule){ .kind = QG_STEP }, "schedule step: step: needs at= or every=");
    assert_illegal((qg_schedule){ .kind = QG_LINEAR, .factor = NAN },
                   "schedule linear:factor=nan: linear: factor");
    assert_illegal((qg_schedule){ .kind = QG_EXPONENTIAL, .factor = -1 }, "factor is -1");
    assert_int_equal(qg_schedule_print(&(qg_schedule){ .kind = (qg_schedule_kind)77 }, text, sizeof text), 2);
    assert_string_equal(text, "77");
}

/* Epoch by epoch, whatever the batches, except for a warm-up over a number of epochs that is not doubled. */
static void an_extended_schedule_has_its_steps_in_the_same_epochs(void **state)
{
    static const struct { const char *from, *to; int epochs, more; } of[] = {
        { "constant", "constant", 10, 17 },
        { "step:at=0.5+0.8", "step:at=0.25+0.4", 10, 20 },
        { "step:at=0.8", "step:at=0.53333336", 10, 15 },
        { "step:every=0.1,factor=0.5", "step:every=0.05,factor=0.5", 10, 20 },
        { "step:at=0.04+0.08+0.48,warmup=0.02", "step:at=0.01+0.02+0.12,warmup=0.005", 25, 100 },
        { "step:every=0.04", "step:every=0.03846154", 25, 26 },
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const qg_schedule from = parsed(of[i].from), to = qg_schedule_extend(&from, of[i].epochs, of[i].more);
        char              text[256];
        qg_schedule_print(&to, text, sizeof text);
        assert_string_equal(text, of[i].to);
        for (int batches = 1; batches <= 41; batches += 8)
            for (int k = 0; k < batches * of[i].epochs; k++) {
                const double a = qg_schedule_lr(&from, 0.1, k / ((double)batches * of[i].epochs));
                const double b = qg_schedule_lr(&to, 0.1, k / ((double)batches * of[i].more));
                assert_true((float)a == (float)b);
            }
    }
    assert_true(qg_schedule_extend(NULL, 1, 2).kind == QG_CONSTANT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_those_of_the_formulas),
        cmocka_unit_test(only_a_constant_rate_needs_no_progress),
        cmocka_unit_test(texts_and_schedules_become_each_other),
        cmocka_unit_test(print_is_like_snprintf),
        cmocka_unit_test(schedules_by_hand_are_bounded),
        cmocka_unit_test(refusals_name_the_culprit),
        cmocka_unit_test(schedules_by_hand_are_checked),
        cmocka_unit_test(an_extended_schedule_has_its_steps_in_the_same_epochs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
