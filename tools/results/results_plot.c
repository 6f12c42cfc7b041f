/* The picture of a protocol: accuracy against the bytes of the packed net, and against the engine's speed. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/svg.h"
#include "core/io/file.h"
#include "core/io/number.h"
#include "tools/results/results.h"

enum { WIDTH = 460, HEIGHT = 300, ROWS = SVG_COLOURS, SPEEDS_BYTES = 4096, RESULT_BYTES = 1 << 20 };

/* The runs of one row.  x of the two ends of a bar is the same.  A bar is the deviation over the seeds, or that due to
 * the test images if there is one seed. */
typedef struct dot {
    const char *name;                       /* of the row, behind that of the protocol */
    double      bytes[2], speed[2];         /* images per second; NaN: not measured */
    double      accuracy, bar[2];
} dot;

/* As tests/protocol_speed.sh measured it: lines "ROW IMAGES-PER-SECOND". */
static double speed_of(const char *speeds, const char *row)
{
    char   name[QG_RECIPE_VALUE_BYTES];
    double speed;
    for (const char *line = speeds; line && *line; line = qg__lines_next(line))
        if (sscanf(line, "%255s %lf", name, &speed) == 2 && !strcmp(name, row) && speed > 0) return speed;
    return NAN;
}

/* Of the packed net, which the member "packed_bytes" of result.json tells also where no net is kept. */
static qg_status read_bytes(const logged_run *r, double *bytes)
{
    static const char member[] = "\"packed_bytes\":";
    char              path[QG__PATH_BYTES], *text;
    size_t            n;
    snprintf(path, sizeof path, RESULTS "/%s/seed-%" PRIu64 "/result.json", r->row, r->seed);
    const qg_status status = qg__text_read(QG_BY_PATH, path, RESULT_BYTES, &text, &n);
    if (status) return status;
    const char *at = strstr(text, member);
    at = at ? at + strlen(member) : "";
    if (!qg__number_read(at, strcspn(at, ",}"), bytes)) *bytes = NAN;
    free(text);
    return QG_OK;
}

static double accuracy(const logged_run *r) { return r->result.test_accuracy; }

static qg_status fill(dot *d, const logged_run *r, int runs, const char *speeds)
{
    double          bytes = NAN, deviation;
    const qg_status status = read_bytes(r, &bytes);
    const double    mean   = results_mean(r, runs, accuracy, &deviation), speed = speed_of(speeds, r->row);
    /* Logs of the time before the net had a packed form do not tell. */
    if (isnan(bytes) && r->net.bytes) bytes = (double)r->net.bytes;
    const double    bar    = runs > 1 ? deviation : r->result.test_accuracy_stderr;
    *d = (dot){ .name = r->row + strlen(PROTOCOL), .bytes = { bytes, bytes }, .speed = { speed, speed },
                .accuracy = mean, .bar = { mean - bar, mean + bar } };
    return status;
}

static bool belongs(const logged_run *r) { return !strncmp(r->row, PROTOCOL, strlen(PROTOCOL)); }

bool results_have_protocol(const results *all)
{
    for (int i = 0; i < all->runs; i++)
        if (belongs(&all->run[i])) return true;
    return false;
}

static svg_chart chart_of(const dot d[], int n, bool against_speed)
{
    svg_chart c = { .title = against_speed ? "Accuracy and speed" : "Accuracy and size",
                    .width = WIDTH, .height = HEIGHT,
                    .x = { .label = against_speed ? "images per second" : "bytes of the packed net", .log = true },
                    .y = { .label = "test accuracy", .percent = true } };
    c.x.min = INFINITY;
    for (int i = 0; i < n; i++) {
        const double *x = against_speed ? d[i].speed : d[i].bytes;
        if (isnan(*x)) continue;                            /* it has no packed net, or its speed is not measured */
        c.x.min         = fmin(c.x.min, 0.8 * *x);          /* so that no dot is on the frame */
        c.x.max         = fmax(c.x.max, 1.25 * *x);
        c.series[c.n_series++] = (svg_series){ d[i].name, SVG_POINTS, 1, x, &d[i].accuracy, .colour = i + 1 };
        c.series[c.n_series++] = (svg_series){ NULL, SVG_LINE, 2, x, d[i].bar, .colour = i + 1 };
    }
    return c;
}

qg_status results_plot(const void *what, FILE *out)
{
    const results *all = what;
    dot            d[ROWS];
    char          *speeds = NULL;
    int            n      = 0;
    size_t         bytes;
    bool           has;
    qg_status      status = qg__file_exists_in(QG_BY_PATH, SPEEDS, &has);
    if (!status && has) status = qg__text_read(QG_BY_PATH, SPEEDS, SPEEDS_BYTES, &speeds, &bytes);
    for (int i = 0, next; i < all->runs && !status; i = next) {
        next = results_row_end(all, i);
        if (belongs(&all->run[i]) && n == ROWS) status = qg_fail(QG_EARG, "more than %d rows of " PROTOCOL, (int)ROWS);
        else if (belongs(&all->run[i])) status = fill(&d[n++], &all->run[i], next - i, speeds);
    }
    const svg_chart size = chart_of(d, n, false), speed = chart_of(d, n, true);
    if (!status) svg_picture(out, &size, has ? &speed : NULL);
    free(speeds);
    return status;
}
