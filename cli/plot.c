/* qgrad plot: a scheme as a picture or a table.
 *
 * The quantizer reads one tensor: numbers of a normal distribution, from which it takes its scale or range, as it does in a
 * net, and among them evenly spaced ones, for which values and slopes are shown.
 */
#include "cli/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/config/config.h"
#include "cli/print.h"
#include "cli/run/output.h"
#include "cli/svg.h"
#include "core/io/json_write.h"
#include "core/io/number.h"
#include "layers/layer.h"
#include "quant/quantizer.h"
#include "quant/scheme.h"

/* The sample is repeated: evenly spaced numbers are one in 1,600, and change no scale that is printed. */
enum { ONCE = 20000, TIMES = 64, SAMPLE = ONCE * TIMES, GRID = 801, NUMBERS = SAMPLE + GRID };

/* Deviation of the numbers: weights are smaller than inputs, which a batch norm has scaled. */
static float deviation(qg_role role) { return role == QG_WEIGHT ? 0.5f : 1.0f; }

typedef enum figure { BOTH, VALUES, SLOPE } figure;

typedef struct curves {
    const char *text;           /* of the scheme */
    qg_role     role;
    figure      figure;
    const char *scale[2];       /* names of the learned scales of negative and positive codes; NULL: there is one, a */
    double      x[GRID], q[GRID], surrogate[GRID], slope[GRID];
    double      from, to;       /* what the picture shows of the axis */
    bool        random;         /* q is drawn */
} curves;

/* --- the numbers ---------------------------------------------------------------------------- */

/* The quantile p of the standard normal distribution, by bisection of its integral. */
static double normal_quantile(double p)
{
    double below = -10, above = 10;
    for (int i = 0; i < 60; i++) {
        const double mid = (below + above) / 2;
        if (erfc(-mid / sqrt(2)) / 2 < p) below = mid;
        else above = mid;
    }
    return (below + above) / 2;
}

/* The sample, and the grid on [-range, range]; 0: zeros in its place. */
static void fill(const float *sample, double range, float *x)
{
    memcpy(x, sample, SAMPLE * sizeof *x);
    for (int i = 0; i < GRID; i++) x[SAMPLE + i] = (float)(range * (2.0 * i / (GRID - 1) - 1));
}

/* For gradients y is what becomes of dL/dy = x. */
static qg_status quantize(qg_quantizer *z, qg_role role, const float *x, float *y)
{
    const qg_status s = qg_quantizer_forward(z, QG_TRAIN, x, y);
    return s || role != QG_GRADIENT ? s : qg_quantizer_backward(z, x, y);
}

/* dL/dx where dL/dy is 1 on the grid and 0 elsewhere.  The grid is symmetric, so what couples the gradients through a scale adds
 * up to nothing. */
static qg_status slopes(qg_quantizer *z, float *dy)
{
    memset(dy, 0, SAMPLE * sizeof *dy);
    for (int i = 0; i < GRID; i++) dy[SAMPLE + i] = 1;
    return qg_quantizer_backward(z, dy, dy);
}

/* q on the grid, its constants being those of the sample. */
static qg_status evaluate(qg_quant q, qg_role role, const float *sample, double range, float *x, float *y, curves *c)
{
    const qg_shape shape = role == QG_WEIGHT ? (qg_shape){ 1, 1, 1, NUMBERS } : (qg_shape){ 1, 1, NUMBERS, 1 };
    qg_quantizer *z      = qg_quantizer_new(q, role, shape);
    if (!z) return qg_errcode();
    qg_quantizer_freeze(z);                 /* an observed range stays that of the first numbers */
    fill(sample, 0, x);
    qg_status s = quantize(z, role, x, y);
    for (int side = 0; side < 2 && qg_quantizer_learned(z, 1).gradient; side++)
        c->scale[side] = qg_quantizer_learned(z, 1 - side).name;
    fill(sample, range, x);
    if (!s) s = quantize(z, role, x, y);
    for (int i = 0; i < GRID && !s; i++) {
        c->x[i]      = x[SAMPLE + i];
        c->q[i]      = y[SAMPLE + i];
        c->slope[i]  = NAN;
    }
    if (!s && role != QG_GRADIENT) {
        s = slopes(z, y);
        for (int i = 0; i < GRID && !s; i++) c->slope[i] = y[SAMPLE + i];
    }
    qg_quantizer_free(z);
    return s;
}

/* Whether q or its slope changes between i and i + 1, as far as a picture shows. */
static bool changes(const curves *c, int i) { return c->q[i] != c->q[i + 1] || fabs(c->slope[i] - c->slope[i + 1]) > 1e-3; }

/* Whether the gradient is cut off well before both ends, and q constant from there. */
static bool is_cut(const curves *c)
{
    for (int i = 0; i < GRID / 20; i++)
        if (changes(c, i) || changes(c, GRID - 2 - i)) return false;
    return fabs(c->slope[0]) < 0.01 && fabs(c->slope[GRID - 1]) < 0.01;
}

/* Where a gradient is cut off, the picture ends a little later. */
static void set_view(curves *c)
{
    int first = 0, last = GRID - 2;
    c->from = c->x[0];
    c->to   = c->x[GRID - 1];
    if (!is_cut(c)) return;
    while (first < last && !changes(c, first)) first++;
    while (last > first && !changes(c, last)) last--;
    const double room = 0.3 * (c->x[last + 1] - c->x[first]);
    c->from = fmax(c->from, c->x[first] - room);
    c->to   = fmin(c->to, c->x[last + 1] + room);
}

/* The surrogate is the integral of its slope, 0 at 0. */
static void integrate(curves *c)
{
    double sum = 0;
    for (int i = 0; i < GRID; i++) {
        if (i > 0) sum += (c->x[i] - c->x[i - 1]) * (c->slope[i - 1] + c->slope[i]) / 2;
        c->surrogate[i] = sum;
    }
    const double at_0 = c->surrogate[GRID / 2];
    for (int i = 0; i < GRID; i++) c->surrogate[i] -= at_0;
    for (int i = 1; i < GRID; i++) c->random |= c->q[i] < c->q[i - 1];
}

/* The shortest of some ranges at whose ends the gradient is cut off, in deviations; the first if there is none. */
static qg_status draw(qg_quant q, qg_role role, curves *c)
{
    static const double ranges[] = { 3, 5, 7, 13, 20, 40, 3 };
    enum { N = sizeof ranges / sizeof *ranges };
    float    *numbers = malloc(3 * NUMBERS * sizeof *numbers);
    qg_status s       = numbers ? QG_OK : qg_fail(QG_EMEM, "out of memory");
    for (int i = 0; i < ONCE && !s; i++)
        numbers[i] = deviation(role) * (float)normal_quantile((i + 0.5) / ONCE);
    for (int i = 1; i < TIMES && !s; i++) memcpy(numbers + i * ONCE, numbers, ONCE * sizeof *numbers);
    for (int i = 0; i < N && !s; i++) {
        s = evaluate(q, role, numbers, ranges[i] * deviation(role), numbers + NUMBERS, numbers + 2 * NUMBERS, c);
        if (is_cut(c)) break;
    }
    if (!s) set_view(c);
    /* The same number of points in less room. */
    if (!s && is_cut(c)) {
        const double from = c->from, to = c->to;
        s = evaluate(q, role, numbers, fmax(-from, to), numbers + NUMBERS, numbers + 2 * NUMBERS, c);
        c->from = from, c->to = to;
    }
    free(numbers);
    if (!s) integrate(c);
    return s;
}

/* --- pictures and tables -------------------------------------------------------------------- */

enum { MARK_BYTES = 32, MOST_JUMPS = 16 };

/* Dashed lines where q jumps, unless there are many.  Those of -a, 0, a are named D.  Their names are written to text. */
static void mark_jumps(const curves *c, svg_chart *to, bool named, char (*text)[MARK_BYTES])
{
    int jump[MOST_JUMPS], n = 0;
    for (int i = 0; i + 1 < GRID; i++) {
        if (c->q[i] == c->q[i + 1] || c->x[i] < c->from || c->x[i + 1] > c->to) continue;
        if (n == MOST_JUMPS) return;
        jump[n++] = i;
    }
    const bool ternary = named && n == 2 && c->q[jump[0] + 1] == 0;
    for (int k = 0; k < n; k++) {
        const double at = (c->x[jump[k]] + c->x[jump[k] + 1]) / 2;
        snprintf(text[k], MARK_BYTES, "%s %.2g", k ? "D =" : "-D =", at);
        to->mark[to->n_marks++] = (svg_mark){ .at = at, .name = ternary ? text[k] : NULL, .low = k == 0 };
    }
}

/* The levels of two or three values as a and -a, or what they are called if they are learned. */
static void mark_levels(const curves *c, svg_chart *to, char (*text)[MARK_BYTES])
{
    const double end[] = { c->q[0], c->q[GRID - 1] };
    for (int i = 0; i < GRID; i++)
        if (c->q[i] != end[0] && c->q[i] != end[1] && c->q[i] != 0) return;
    for (int side = 0; side < 2 && end[0] < 0 && end[1] > 0; side++) {
        const char *name = c->scale[side] ? c->scale[side] : "a";
        snprintf(text[side], MARK_BYTES, "%s%s = %.3g", side ? "" : "-", name, end[side]);
        to->mark[to->n_marks++] = (svg_mark){ .at = end[side], .name = text[side], .horizontal = true };
    }
}

/* The points of the view, without those on a straight line between their neighbours.  Returns how many. */
static int thin(const curves *c, const double *y, double *tx, double *ty)
{
    double least = INFINITY, most = -INFINITY;
    int    n = 0, first = 0, last = GRID - 1;
    while (first < last && c->x[first] < c->from) first++;
    while (last > first && c->x[last] > c->to) last--;
    for (int i = first; i <= last; i++) least = fmin(least, y[i]), most = fmax(most, y[i]);
    const double seen = 1e-6 * (most - least);          /* far below a pixel, and far above roundings */
    for (int i = first; i <= last; i++) {
        if (i > first && i < last && fabs(y[i - 1] + y[i + 1] - 2 * y[i]) <= seen) continue;
        tx[n]   = c->x[i];
        ty[n++] = y[i];
    }
    return n;
}

static qg_status print_svg(const void *what, FILE *out)
{
    const curves *c = what;
    enum { WIDTH = 420, HEIGHT = 260, EVERY = 5, POINTS = (GRID + EVERY - 1) / EVERY };
    char      title[PLOT_TEXT_BYTES + 32];
    svg_chart values = { .title = title, .width = WIDTH, .height = HEIGHT,
                         .x = { .label = c->role == QG_WEIGHT ? "weight w" : "input x", .min = c->from, .max = c->to },
                         .series = { { "q", c->random ? SVG_POINTS : SVG_LINE, GRID, c->x, c->q, 1, NULL },
                                     { "surrogate s", SVG_DASHES, GRID, c->x, c->surrogate, 2, NULL } },
                         .n_series = 2 };
    svg_chart slope  = { .title = c->figure == SLOPE ? title : "slopes", .width = WIDTH, .height = HEIGHT, .x = values.x, .y = { .from_zero = true },
                         .series = { { "of s, used in the backward pass", SVG_DASHES, GRID, c->x, c->slope, 2, NULL },
                                     { "of q: 0, and none at a jump", SVG_LINE, 2, (double[]){ c->from, c->to }, (double[]){ 0, 0 }, 1, NULL } },
                         .n_series = c->random ? 1 : 2 };
    double tx[3][GRID], ty[3][GRID];
    char   marks[2 + 2 * MOST_JUMPS][MARK_BYTES];
    const double *const curve[] = { c->q, c->surrogate, c->slope };
    svg_series *const   series[] = { &values.series[0], &values.series[1], &slope.series[0] };
    for (int i = 0; i < 3; i++) {
        series[i]->n = thin(c, curve[i], tx[i], ty[i]);
        series[i]->x = tx[i];
        series[i]->y = ty[i];
    }
    const bool gradient = c->role == QG_GRADIENT;
    double     x[POINTS], q[POINTS];
    for (int i = 0; i < POINTS; i++) x[i] = c->x[EVERY * i], q[i] = c->q[EVERY * i];
    if (c->random) values.series[0].n = POINTS, values.series[0].x = x, values.series[0].y = q;
    snprintf(title, sizeof title, "%s, %ss%s", c->text, qg_role_name(c->role),
             c->figure == SLOPE ? ": slopes" : "");
    if (gradient) {
        values.x.label  = "dL/dy";
        values.n_series = 1;
        values.series[0].name = "q, with noise";
    } else if (!c->random) {
        mark_levels(c, &values, marks);
        mark_jumps(c, &values, true, marks + 2);
        mark_jumps(c, &slope, false, marks + 2 + MOST_JUMPS);
    }
    if (c->figure == SLOPE) svg_picture(out, &slope, NULL);
    else svg_picture(out, &values, gradient || c->figure == VALUES ? NULL : &slope);
    return QG_OK;
}

static void write_csv(const curves *c, FILE *out)
{
    fprintf(out, "x,q,surrogate,slope\n");
    for (int i = 0; i < GRID; i++) {
        const double row[] = { c->x[i], c->q[i], c->surrogate[i], c->slope[i] };
        for (int k = 0; k < 4; k++) {
            char text[QG_NUMBER_BYTES] = "";
            if (isfinite(row[k])) qg__number_print(text, 9, row[k]);
            fprintf(out, "%s%c", text, k < 3 ? ',' : '\n');
        }
    }
}

static void write_json(const curves *c, FILE *out)
{
    const struct { const char *name; const double *values; } all[] = {
        { "x", c->x }, { "q", c->q }, { "surrogate", c->surrogate }, { "slope", c->slope }
    };
    qg__json j = qg__json_begin(out);
    qg__json_text(&j, "scheme", c->text);
    qg__json_text(&j, "role", qg_role_name(c->role));
    for (int k = 0; k < (c->role == QG_GRADIENT ? 2 : 4); k++) {
        qg__json_open(&j, all[k].name, '[');
        for (int i = 0; i < GRID; i++) qg__json_real(&j, NULL, all[k].values[i]);
        qg__json_close(&j, ']');
    }
    qg__json_end(&j);
}

/* --- the command ---------------------------------------------------------------------------- */

bool plot_of(const scheme_text *s, char text[PLOT_TEXT_BYTES], char file[PLOT_TEXT_BYTES])
{
    if (!s->quant.scheme) return false;
    const qg_key *keys = qg_scheme_keys(s->quant.scheme, s->use);
    const int     bits = qg_keys_find(keys, "bits", strlen("bits"));
    const bool    many = bits >= 0 && keys[bits].fallback > 4;
    snprintf(text, PLOT_TEXT_BYTES, "%s%s", s->spelling, !many ? "" : strchr(s->spelling, ':') ? ",bits=3" : ":bits=3");
    snprintf(file, PLOT_TEXT_BYTES, "%s-%s.svg", qg_role_name((qg_role)s->use), s->spelling);
    for (char *c = file; *c; c++)
        if (strchr(":,=", *c)) *c = '-';
    return true;
}

/* Reads the scheme for one of the words of --role: any, the first role that has a scheme of this name, or that role. */
static qg_status parse(const char *text, int asked, qg_quant *q, qg_role *role)
{
    if (asked) return qg_quant_parse(text, *role = qg_roles[asked - 1], q);
    const size_t n = strcspn(text, ":");
    for (int i = 0; i < QG_ROLES; i++) {
        const qg_scheme *scheme;
        unsigned         of;
        for (int k = 0; scheme_in_role(k, &scheme, &of); k++)
            if (of == (unsigned)qg_roles[i] && strlen(scheme->name) == n && !strncmp(scheme->name, text, n))
                return qg_quant_parse(text, *role = qg_roles[i], q);
    }
    *role = QG_WEIGHT;
    const bool is_float = n == strlen("float") && !strncmp(text, "float", n);
    return is_float ? qg_quant_parse(text, *role, q) : scheme_unknown(text);
}

static qg_status write_all(const char *dir)
{
    scheme_text s;
    curves     *c      = malloc(sizeof *c);
    qg_status   status = c ? qg__path_make(dir, NULL) : qg_fail(QG_EMEM, "out of memory");
    for (int i = 0; scheme_at(i, &s) && !status; i++) {
        char     text[PLOT_TEXT_BYTES], file[PLOT_TEXT_BYTES], path[QG__PATH_BYTES];
        qg_quant q;
        if (!plot_of(&s, text, file)) continue;
        *c     = (curves){ .text = text, .role = (qg_role)s.use };
        status = qg__path_join(dir, file, path);
        if (!status) status = qg_quant_parse(text, c->role, &q);
        if (!status) status = draw(q, c->role, c);
        if (!status) status = output_print(path, OUTPUT_PICTURE, print_svg, c);
    }
    free(c);
    return status;
}

static int plot_main(config *asked)
{
    const char  *out  = config_text(asked, "out"), *scheme = asked->word;
    const bool   csv  = config_flag(asked, "csv"), json = config_flag(asked, "json");
    const figure view = (figure)config_word(asked, "figure");
    qg_quant     q;
    qg_role      role;
    if (out && (csv || json))
        return refuse(asked, "--out writes pictures, and takes neither --csv nor --json");
    if (csv && json) return refuse(asked, "--csv and --json exclude each other");
    if (view && (csv || json)) return refuse(asked, "--figure selects a picture, and tables have all columns");
    if (view && !scheme) return refuse(asked, "--figure needs a scheme");
    if (!scheme && config_word(asked, "role")) return refuse(asked, "--role needs a scheme");
    if (out && !scheme) return write_all(out) ? print_failure(asked) : EXIT_DONE;
    if (!scheme) return refuse(asked, "the scheme is missing; qgrad explain lists them");
    qg_status s = parse(scheme, config_word(asked, "role"), &q, &role);
    if (s) return print_failure(asked);
    if (role == QG_GRADIENT && view == SLOPE)
        return refuse(asked, "gradients have no slope: --figure slope is for weights and inputs");
    curves *c = malloc(sizeof *c);
    s         = c ? QG_OK : qg_fail(QG_EMEM, "out of memory");
    if (c) *c = (curves){ .text = scheme, .role = role, .figure = view };
    if (!s) s = draw(q, role, c);
    if (!s && out) s = output_print(out, OUTPUT_PICTURE, print_svg, c);
    else if (!s && csv) write_csv(c, stdout);
    else if (!s && json) write_json(c, stdout);
    else if (!s) s = print_svg(c, stdout);
    free(c);
    return s ? print_failure(asked) : EXIT_DONE;
}

static const verb_option own_options[] = {
    { "out", "the picture; without a scheme, a directory for pictures of all", .first = true }, { "role", .first = true }, { "figure", .first = true },
    { "csv", .first = true }, { NULL }
};

const verb plot_verb = {
    .name = "plot", .about = "Draw a quantization scheme: its values, its surrogate and the slope",
    .usage = "plot SCHEME[:options] [--role ROLE] [--csv | --json | --out FILE], or plot --out DIR", .run = plot_main,
    .has_operand = true, .lists_schemes = true,
    .options = (const verb_option *const[]){ common_options, own_options, NULL },
};
