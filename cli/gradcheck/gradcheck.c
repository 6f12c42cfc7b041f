/* qgrad gradcheck: is every derivative the derivative of what it says it is? */
#include "cli/gradcheck/gradcheck.h"

#include <stdio.h>

#include "cli/config/config.h"
#include "core/io/json_write.h"
#include "core/rng.h"
#include "quant/quant.h"

struct gradcheck_report {
    const char *title;
    int         passed, failed;         /* failed: against expectation */
    int         unstated;               /* not checked */
    bool        as_json;
    qg__json    j;
};

void gradcheck_fill(float *x, size_t n, float centre, float spread, uint64_t key)
{
    /* The middles of equal parts, an even number of them, so that none is the centre. */
    const float part = 2 * spread / (float)(n + n % 2);
    for (size_t i = 0; i < n; i++) x[i] = centre - spread + part * ((float)i + 0.5f);
    for (size_t i = n; i > 1; i--) {
        const size_t j = (size_t)(qg_bits(key, i) % i);
        const float  v = x[i - 1];
        x[i - 1]       = x[j];
        x[j]           = v;
    }
}

/* A gradient of 0 would agree with differences of 0, and say nothing. */
static bool passes(const gradcheck_line *line)
{
    return line->result.pass && line->result.least > 0;
}

/* A formula that is no derivative has to fail. */
static bool is_expected(const gradcheck_line *line) { return passes(line) != (line->why != NULL); }

static void print_json(qg__json *j, const char *table, const gradcheck_line *line)
{
    qg__json_open(j, NULL, '{');
    qg__json_text(j, "table", table);
    qg__json_text(j, "name", line->name);
    qg__json_flag(j, "checked", !line->unstated);
    if (line->unstated) {
        qg__json_close(j, '}');
        return;
    }
    qg__json_text(j, "against", line->against);
    qg__json_text(j, "worst", line->result.worst);
    qg__json_real(j, "error", line->result.error);
    qg__json_real(j, "tolerance", line->result.tolerance);
    qg__json_text(j, "reason", line->result.reason);
    qg__json_flag(j, "pass", passes(line));
    qg__json_flag(j, "expected", is_expected(line));
    if (line->why) qg__json_text(j, "why", line->why);
    qg__json_close(j, '}');
}

static void print_line(const gradcheck_line *line)
{
    const qg_gradcheck_result *r = &line->result;
    if (line->unstated) {
        printf("  %-46s not checked: the scheme states no surrogate for it\n", line->name);
        return;
    }
    printf("  %-46s %-11s  %-6s %8.1e  %8.1e  %s\n", line->name, line->against, r->worst, r->error,
           r->tolerance, passes(line) ? "pass" : "FAIL");
    if (!line->why) return;
    printf("      ");
    for (const char *c = line->why; *c; c++) printf(*c == '\n' ? "\n      " : "%c", *c);
    printf(is_expected(line) ? "\n" : "\n      It was expected to fail.\n");
}

void gradcheck_add(gradcheck_report *r, const gradcheck_line *line)
{
    if (line->unstated) r->unstated++;
    else if (is_expected(line)) r->passed++;
    else r->failed++;
    if (r->as_json) print_json(&r->j, r->title, line);
    else print_line(line);
}

static const struct {
    const char      *title;
    gradcheck_table *run;
    unsigned         role;
} tables[] = {
    { "ops", gradcheck_ops, 0 },
    { "batch norm", gradcheck_norms, 0 },
    { "schemes for weights", gradcheck_schemes, QG_WEIGHT },
    { "schemes for inputs", gradcheck_schemes, QG_INPUT },
    { "schemes for gradients", gradcheck_schemes, QG_GRADIENT },
    { "formulas as printed", gradcheck_papers, QG_WEIGHT },        /* with --paper */
};

static qg_status run_table(int i, gradcheck_report *r)
{
    r->title = tables[i].title;
    if (!r->as_json)
        printf("%s%s\n  %-46s %-11s  %-6s %8s  %8s\n", i ? "\n" : "", r->title, "gradient of", "against", "in", "error", "limit");
    return tables[i].run(r, tables[i].role);
}

static int gradcheck_main(config *asked)
{
    const int        count = config_flag(asked, "paper") ? 6 : 5;
    gradcheck_report sum   = { .as_json = config_flag(asked, "json") };
    qg_status        s     = QG_OK;
    if (sum.as_json) {
        sum.j = qg__json_begin(stdout);
        qg__json_open(&sum.j, "checks", '[');
    }
    for (int i = 0; i < count && !s; i++) s = run_table(i, &sum);
    if (sum.as_json) {
        qg__json_close(&sum.j, ']');
        qg__json_integer(&sum.j, "as_expected", (uint64_t)sum.passed);
        qg__json_integer(&sum.j, "not_as_expected", (uint64_t)sum.failed);
        qg__json_integer(&sum.j, "not_checked", (uint64_t)sum.unstated);
        qg__json_end(&sum.j);
    }
    if (s) return print_failure(asked);
    if (sum.as_json) return sum.failed ? EXIT_FAILED : EXIT_DONE;
    printf("\n%d as expected, %d not", sum.passed, sum.failed);
    if (sum.unstated) printf("; %d not checked", sum.unstated);
    printf("\n");
    return sum.failed ? EXIT_FAILED : EXIT_DONE;
}

static const verb_option own_options[] = {
    { "paper" }, { NULL }
};

const verb gradcheck_verb = {
    .name = "gradcheck", .about = "Compare gradients with finite differences or with the surrogate",
    .usage = "gradcheck [--paper] [options]", .run = gradcheck_main,
    .options = (const verb_option *const[]){ common_options, own_options, NULL },
};
