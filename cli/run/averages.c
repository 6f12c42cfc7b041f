#include "cli/run/averages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run/table.h"
#include "core/io/number.h"

static const struct { const char *title, *member; bool is_share; } measure[AVERAGES] = {
    [AVERAGES_VALID]   = { "valid %", "validation_accuracy", true },
    [AVERAGES_TEST]    = { "test %", "test_accuracy", true },
    [AVERAGES_BEST]    = { "best %", "best_test_accuracy", true },
    [AVERAGES_SECONDS] = { "minutes", "seconds", false },
};

/* --- computing ---------------------------------------------------------------------------- */

static double measured(const listed *r, int m)
{
    const double of[AVERAGES] = { r->result.validation_accuracy, r->result.test_accuracy, r->result.best_test_accuracy,
                                  r->result.seconds };
    return r->state == LISTED_FINISHED ? of[m] : (double)NAN;
}

/* Whether the combinations one and other differ in their seeds alone. */
static bool are_together(const config *asked, int one, int other)
{
    for (int i = 0; i < OPTIONS; i++) {
        const option *o = option_at(i);
        if (strcmp(o->name, "seed") && lists_index(asked, one, o) != lists_index(asked, other, o)) return false;
    }
    return true;
}

/* In two passes, because accuracies are much larger than their deviations. */
static void measure_group(const config *asked, const int *combination, const listing *runs, average *g)
{
    for (int m = 0; m < AVERAGES; m++) {
        double sum = 0, squares = 0;
        int    n = 0;
        for (int pass = 0; pass < 2; pass++)
            for (size_t i = 0; i < runs->count; i++) {
                const double x = measured(&runs->item[i], m);
                if (isnan(x) || !are_together(asked, combination[i], g->combination)) continue;
                if (pass == 0) sum += x, n++;
                else squares += (x - sum / n) * (x - sum / n);
            }
        g->mean[m]      = n ? sum / n : (double)NAN;
        g->deviation[m] = n > 1 ? sqrt(squares / (n - 1)) : (double)NAN;
    }
}

qg_status averages_of(const config *asked, const int *combination, const listing *runs, averages *a)
{
    *a = (averages){ .asked = asked, .item = calloc(runs->count + 1, sizeof *a->item) };
    if (!a->item) return qg_fail(QG_EMEM, "out of memory for the table");
    for (int i = 0; i < OPTIONS; i++)
        if (lists_count(asked, option_at(i)) > 1 && strcmp(option_at(i)->name, "seed")) a->shown[a->options++] = option_at(i);
    for (size_t i = 0; i < runs->count; i++) {
        int at = 0;
        while (at < a->count && !are_together(asked, a->item[at].combination, combination[i])) at++;
        if (at == a->count) a->item[a->count++] = (average){ .combination = combination[i] };
        a->item[at].runs++;
        a->item[at].finished += runs->item[i].state == LISTED_FINISHED;
    }
    for (int i = 0; i < a->count; i++) measure_group(asked, combination, runs, &a->item[i]);
    return QG_OK;
}

void averages_free(averages *a)
{
    free(a->item);
    *a = (averages){ 0 };
}

/* --- printing ----------------------------------------------------------------------------- */

/* A column that no run has is left out, but for that of the test. */
static bool is_known(const averages *a, int m)
{
    bool any = m == AVERAGES_TEST;
    for (int i = 0; i < a->count; i++) any |= !isnan(a->item[i].mean[m]);
    return any;
}

static bool has_deviation(const averages *a)
{
    bool any = false;
    for (int i = 0; i < a->count; i++) any |= !isnan(a->item[i].deviation[AVERAGES_TEST]);
    return any;
}

static void spell(const average *g, int m, char text[64])
{
    const double unit   = measure[m].is_share ? 100 : 1 / 60.0;
    const int    digits = measure[m].is_share ? 2 : 1;
    if (isnan(g->mean[m])) strcpy(text, "-");
    else if (isnan(g->deviation[m])) snprintf(text, 64, "%.*f", digits, unit * g->mean[m]);
    else snprintf(text, 64, "%.*f ± %.*f", digits, unit * g->mean[m], digits, unit * g->deviation[m]);
}

static void add_row(const averages *a, const average *g, table *t)
{
    char text[QG_RECIPE_VALUE_BYTES];
    for (int i = 0; i < a->options; i++) {
        lists_value(a->asked, g->combination, a->shown[i], text);
        table_add(t, text);
    }
    snprintf(text, sizeof text, "%d/%d", g->finished, g->runs);
    table_add(t, text);
    for (int m = 0; m < AVERAGES; m++) {
        spell(g, m, text);
        if (is_known(a, m)) table_add(t, text);
    }
}

qg_status averages_print(const averages *a, FILE *out)
{
    int columns = 1 + a->options;
    for (int m = 0; m < AVERAGES; m++) columns += is_known(a, m);
    table t = table_begin(columns);
    for (int i = 0; i < a->options; i++) table_title(&t, a->shown[i]->name, false);
    table_title(&t, "runs", true);
    for (int m = 0; m < AVERAGES; m++)
        if (is_known(a, m)) table_title(&t, measure[m].title, true);
    for (int i = 0; i < a->count; i++) add_row(a, &a->item[i], &t);
    const qg_status status = table_print(&t, out);
    if (!status && has_deviation(a))
        fputs("± is the standard deviation over runs; divided by sqrt(n), the standard error of a mean of "
              "n.\n", out);
    return status;
}

static void put_number(double x, FILE *out)
{
    char text[QG_NUMBER_BYTES];
    qg__number_print(text, 9, x);
    fprintf(out, ",%s", isnan(x) ? "" : text);
}

void averages_print_csv(const averages *a, FILE *out)
{
    char value[QG_RECIPE_VALUE_BYTES];
    for (int i = 0; i < a->options; i++) fprintf(out, "%s,", a->shown[i]->name);
    fputs("runs,finished", out);
    for (int m = 0; m < AVERAGES; m++) fprintf(out, ",%s,%s_deviation", measure[m].member, measure[m].member);
    fputc('\n', out);
    for (const average *g = a->item; g < a->item + a->count; g++) {
        for (int i = 0; i < a->options; i++) {
            lists_value(a->asked, g->combination, a->shown[i], value);
            table_put_csv(value, out);
            fputc(',', out);
        }
        fprintf(out, "%d,%d", g->runs, g->finished);
        for (int m = 0; m < AVERAGES; m++) put_number(g->mean[m], out), put_number(g->deviation[m], out);
        fputc('\n', out);
    }
}

static void put_average(qg__json *j, const averages *a, const average *g)
{
    char text[QG_RECIPE_VALUE_BYTES];
    qg__json_open(j, NULL, '{');
    qg__json_open(j, "options", '{');
    for (int i = 0; i < a->options; i++) {
        lists_value(a->asked, g->combination, a->shown[i], text);
        qg__json_text(j, a->shown[i]->name, text);
    }
    qg__json_close(j, '}');
    qg__json_integer(j, "runs", (uint64_t)g->runs);
    qg__json_integer(j, "finished", (uint64_t)g->finished);
    for (int m = 0; m < AVERAGES; m++) {
        qg__json_real(j, measure[m].member, g->mean[m]);
        snprintf(text, sizeof text, "%s_deviation", measure[m].member);
        qg__json_real(j, text, g->deviation[m]);
    }
    qg__json_close(j, '}');
}

void averages_put(qg__json *j, const averages *a)
{
    qg__json_open(j, "groups", '[');
    for (int i = 0; i < a->count; i++) put_average(j, a, &a->item[i]);
    qg__json_close(j, ']');
}
