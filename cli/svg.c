#include "cli/svg.h"

#include <math.h>
#include <string.h>

#include "core/io/number.h"
#include "core/io/utf8.h"

/* Pixels. */
enum { WIDTH = 420, HEIGHT = 240, LEFT = 52, RIGHT = 14, TITLE = 20, LEGEND = 16, TICKS = 18, LABEL = 15, LETTER = 6 };
enum { BETWEEN_X = 60, BETWEEN_Y = 24 };        /* ticks, at least about so many */

typedef struct frame {
    const svg_chart *c;
    double           left, right, top, bottom;      /* of the plot */
    svg_axis         x, y;                          /* with their ends set; of a log axis as powers of ten */
} frame;

/* Colours that people with any colour vision can tell apart (Okabe and Ito 2008); lighter on dark pages. */
static const char *const colour[2][SVG_COLOURS] = {
    { "#0072b2", "#d55e00", "#009e73", "#b0568c", "#8a6d00", "#3f8fc4", "#666666", "#7a3fb0" },
    { "#56b4e9", "#ff9248", "#3fd0a4", "#e59bc6", "#e6c34a", "#9bd3f5", "#b0b0b0", "#c39bf0" },
};

/* --- text ----------------------------------------------------------------------------------- */

void svg_text(FILE *out, const char *text)
{
    char shown[QG_SHOWN_BYTES];
    for (size_t n = strlen(text); n > 0;) {
        const size_t used = qg__utf8_show(text, n, shown);
        switch (*shown) {
        case '&': fputs("&amp;", out); break;
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '"': fputs("&quot;", out); break;
        case '\'': fputs("&#39;", out); break;
        default: fputs(shown, out);
        }
        text += used;
        n -= used;
    }
}

/* A tenth of a pixel is finer than a line is wide.  before 0: nothing. */
static void pixel(FILE *out, char before, double v)
{
    char text[QG_NUMBER_BYTES];
    qg__number_print(text, 6, round(10 * v) / 10);
    if (before) fputc(before, out);
    fputs(text, out);
}

static void number(FILE *out, double v)
{
    char text[QG_NUMBER_BYTES];
    qg__number_print(text, 5, v);
    fputs(text, out);
}

static void colours(FILE *out, const char *const of[SVG_COLOURS])
{
    for (int i = 0; i < SVG_COLOURS; i++)
        fprintf(out, ".qg path.qg-l%d{stroke:%s}.qg path.qg-f%d{fill:%s}", i + 1, of[i], i + 1, of[i]);
}

void svg_style(FILE *out)
{
    fputs(".qg text{font:11px system-ui,-apple-system,'Segoe UI',sans-serif;fill:#333}.qg .qg-t{font-weight:600;font-size:12px}"
          ".qg path{fill:none;stroke-width:1.5;stroke-linejoin:round}.qg path.qg-g{stroke:#e4e4e4;stroke-width:1}"
          ".qg path.qg-a{stroke:#999;stroke-width:1}.qg path.qg-m{stroke:#888;stroke-width:1;stroke-dasharray:4 3}"
          ".qg path.qg-v{stroke:#333;stroke-width:2.5}.qg path.qg-d{stroke-dasharray:5 4}"
          ".qg path.qg-o{stroke-dasharray:1.5 3}.qg path.qg-x{stroke-dasharray:8 3 1.5 3}"
          ".qg path.qg-b{stroke:none;fill-opacity:.35}.qg path.qg-s{stroke:none;fill-opacity:.16}", out);
    colours(out, colour[0]);
    fputs("@media(prefers-color-scheme:dark){.qg text{fill:#ccc}.qg path.qg-g{stroke:#333}.qg path.qg-a{stroke:#777}"
          ".qg path.qg-m{stroke:#999}.qg path.qg-v{stroke:#ccc}", out);
    colours(out, colour[1]);
    fputs("}\n", out);
}

/* --- axes ----------------------------------------------------------------------------------- */

static double scaled(const svg_axis *a, double v) { return a->log ? (v > 0 ? log10(v) : NAN) : v; }

static double px(const frame *f, double v)
{
    return f->left + (scaled(&f->x, v) - f->x.min) / (f->x.max - f->x.min) * (f->right - f->left);
}

static double py(const frame *f, double v)
{
    return f->bottom - (scaled(&f->y, v) - f->y.min) / (f->y.max - f->y.min) * (f->bottom - f->top);
}

static bool has_edges(svg_kind k) { return k == SVG_STEPS || k == SVG_BARS; }

static void widen(svg_axis *a, double v)
{
    v = scaled(a, v);
    if (!isfinite(v)) return;
    a->min = fmin(a->min, v);
    a->max = fmax(a->max, v);
}

/* The ends of both axes.  false: there is nothing to show. */
static bool set_ends(frame *f)
{
    const svg_chart *c    = f->c;
    const bool       x_is = c->x.min != c->x.max, y_is = c->y.min != c->y.max;
    f->x.min = f->y.min = INFINITY;
    f->x.max = f->y.max = -INFINITY;
    for (int s = 0; s < c->n_series; s++) {
        const svg_series *p = &c->series[s];
        for (int i = 0; i < p->n; i++)
            if (isfinite(scaled(&c->x, p->x[i])) && isfinite(scaled(&c->y, p->y[i]))) {
                widen(&f->x, p->x[i]);
                if (has_edges(p->kind)) widen(&f->x, p->x[i + 1]);
                widen(&f->y, p->y[i]);
                if (p->kind == SVG_BAND) widen(&f->y, p->to[i]);
            }
    }
    if (f->x.min > f->x.max) return false;
    if (c->y.from_zero && !c->y.log) widen(&f->y, 0);
    if (x_is) f->x.min = scaled(&c->x, c->x.min), f->x.max = scaled(&c->x, c->x.max);
    if (y_is) f->y.min = scaled(&c->y, c->y.min), f->y.max = scaled(&c->y, c->y.max);
    svg_axis *const axis[] = { &f->x, &f->y };
    for (int i = 0; i < 2; i++) {
        const double room = axis[i]->max - axis[i]->min, at = fabs(axis[i]->max);
        if (room > 0) continue;
        axis[i]->min -= at > 0 ? at / 2 : 1;
        axis[i]->max += at > 0 ? at / 2 : 1;
    }
    if (!y_is) {                /* so that curves do not touch the frame */
        const double room = (f->y.max - f->y.min) / 25;
        if (!(c->y.from_zero && f->y.min == 0)) f->y.min -= room;
        if (!(c->y.from_zero && f->y.max == 0)) f->y.max += room;
    }
    return true;
}

enum { TICKS_MOST = 40 };

/* Round numbers within the axis, as they are scaled: multiples of 1, 2 or 5 times a power of ten, at most about n of them.  A
 * log axis has powers of ten, and 2 and 5 times these if it spans less than two of them. */
static int round_numbers(const svg_axis *a, int n, double at[TICKS_MOST])
{
    static const double between[] = { 0, 0.3010299956639812, 0.6989700043360188 };     /* log10 of 1, 2 and 5 */
    const double        room  = a->max - a->min, least = room / n;
    const bool          fine  = a->log && room < 2;
    double              step  = pow(10, floor(log10(least)));
    int                 found = 0;
    if (step * 5 < least) step *= 10;
    else if (step * 2 < least) step *= 5;
    else if (step < least) step *= 2;
    if ((a->log || a->whole) && step < 1) step = 1;
    /* Counted, since a step may be too small to change a large number. */
    for (int i = 0; i <= TICKS_MOST && found < TICKS_MOST - 3; i++)
        for (int k = 0; k < (fine ? 3 : 1); k++) {
            const double t = (floor(a->min / step) + i) * step + (k ? between[k] : 0);
            if (t < a->min - 1e-9 * step || t > a->max + 1e-9 * step) continue;
            at[found++] = fabs(t) < 1e-9 * room ? 0 : t;
        }
    return found;
}

/* The same; a log axis that has fewer than two of them gets those of its values. */
static int ticks(const svg_axis *a, int n, double at[TICKS_MOST])
{
    const int found = round_numbers(a, n, at);
    if (!a->log || found > 1) return found;
    const svg_axis values = { .min = pow(10, a->min), .max = pow(10, a->max) };
    const int      more   = round_numbers(&values, n, at);
    for (int i = 0; i < more; i++) at[i] = log10(at[i]);
    return more;
}

static void tick_label(FILE *out, const svg_axis *a, double at)
{
    const double v = (a->log ? pow(10, at) : at) * (a->percent ? 100 : 1);
    const int    e = v != 0 ? (int)floor(log10(fabs(v)) + 1e-9) : 0;
    if (e < -4 || e > 5) number(out, round(v / pow(10, e))), fprintf(out, "e%d", e);
    else number(out, v);
    if (a->percent) fputs(" %", out);
}

static void axis_x(FILE *out, const frame *f)
{
    double at[TICKS_MOST];
    if (f->c->x.bare) return;
    for (int i = 0, n = ticks(&f->x, (int)((f->right - f->left) / BETWEEN_X), at); i < n; i++) {
        const double x = f->left + (at[i] - f->x.min) / (f->x.max - f->x.min) * (f->right - f->left);
        fputs("<path class=\"qg-g\" d=\"", out);
        pixel(out, 'M', x), pixel(out, ' ', f->bottom), pixel(out, 'V', f->top);
        fputs("\"/><text text-anchor=\"middle\" x=\"", out);
        pixel(out, 0, x);
        fprintf(out, "\" y=\"%d\">", (int)f->bottom + 14);
        tick_label(out, &f->x, at[i]);
        fputs("</text>", out);
    }
    if (!f->c->x.label) return;
    fprintf(out, "<text text-anchor=\"middle\" x=\"%d\" y=\"%d\">", (int)(f->left + f->right) / 2,
            (int)f->bottom + TICKS + 11);
    svg_text(out, f->c->x.label);
    fputs("</text>", out);
}

static void axis_y(FILE *out, const frame *f)
{
    double at[TICKS_MOST];
    if (f->c->y.bare) return;
    for (int i = 0, n = ticks(&f->y, (int)fmax(2, (f->bottom - f->top) / BETWEEN_Y), at); i < n; i++) {
        const double y = f->bottom - (at[i] - f->y.min) / (f->y.max - f->y.min) * (f->bottom - f->top);
        fputs("<path class=\"qg-g\" d=\"", out);
        pixel(out, 'M', f->left), pixel(out, ' ', y), pixel(out, 'H', f->right);
        fprintf(out, "\"/><text text-anchor=\"end\" x=\"%d\" y=\"", LEFT - 5);
        pixel(out, 0, y + 4);
        fputs("\">", out);
        tick_label(out, &f->y, at[i]);
        fputs("</text>", out);
    }
    if (!f->c->y.label) return;
    const double mid = (f->top + f->bottom) / 2;
    fprintf(out, "<text text-anchor=\"middle\" transform=\"translate(11 %d) rotate(-90)\">", (int)mid);
    svg_text(out, f->c->y.label);
    fputs("</text>", out);
}

/* --- curves --------------------------------------------------------------------------------- */

/* Of how many points one is drawn. */
static int stride(const svg_chart *c, const svg_series *p)
{
    return c->most && p->n > c->most ? (p->n + c->most - 1) / c->most : 1;
}

static double clamp(double v, double a, double b) { return v < a ? a : v > b ? b : v; }

static void line(FILE *out, const frame *f, const svg_series *p)
{
    bool      down = false;
    const int k    = stride(f->c, p);
    for (int i = 0; i < p->n; i = i + 1 < p->n && i + k >= p->n ? p->n - 1 : i + k) {
        const double x = px(f, p->x[i]), y = py(f, p->y[i]);
        if (!isfinite(x) || !isfinite(y) || x < f->left - 0.5 || x > f->right + 0.5) {
            down = false;
            continue;
        }
        pixel(out, down ? 'L' : 'M', x);
        pixel(out, ' ', clamp(y, f->top, f->bottom));
        down = true;
    }
}

static void edge(FILE *out, const frame *f, const svg_series *p, const double *y, int i, char before)
{
    const double at = py(f, y[i]);
    pixel(out, before, px(f, p->x[i]));
    pixel(out, ' ', isfinite(at) ? clamp(at, f->top, f->bottom) : f->bottom);      /* below a logarithmic axis */
}

/* Where both edges are numbers: along y, and back along to. */
static void band(FILE *out, const frame *f, const svg_series *p)
{
    const int k = stride(f->c, p), drawn = p->n ? (p->n - 1 + k - 1) / k + 1 : 0;
    for (int from = 0, end; from < drawn; from = end + 1) {
        for (end = from; end < drawn; end++) {
            const int i = end * k < p->n ? end * k : p->n - 1;
            if (!isfinite(p->y[i]) || !isfinite(p->to[i]) || !isfinite(px(f, p->x[i]))) break;
            edge(out, f, p, p->y, i, end > from ? 'L' : 'M');
        }
        for (int j = end - 1; j >= from; j--) edge(out, f, p, p->to, j * k < p->n ? j * k : p->n - 1, 'L');
        if (end > from) fputc('Z', out);
    }
}

static void points(FILE *out, const frame *f, const svg_series *p)
{
    for (int i = 0; i < p->n; i++) {
        const double x = px(f, p->x[i]), y = py(f, p->y[i]);
        if (!(x >= f->left && x <= f->right && y >= f->top && y <= f->bottom)) continue;
        pixel(out, 'M', x - 2.5), pixel(out, ' ', y);
        fputs("a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0", out);
    }
}

static void stairs(FILE *out, const frame *f, const svg_series *p)
{
    const double base = clamp(py(f, 0), f->top, f->bottom);
    bool         down = false;
    for (int i = 0; i < p->n; i++) {
        const double a = clamp(px(f, p->x[i]), f->left, f->right);
        const double b = clamp(px(f, p->x[i + 1]), f->left, f->right);
        const double y = clamp(py(f, p->y[i]), f->top, f->bottom);
        if (!isfinite(y) || !(b > a)) continue;
        if (!down) pixel(out, 'M', a), pixel(out, ' ', p->kind == SVG_BARS ? base : y);
        pixel(out, 'V', y), pixel(out, 'H', b);
        down = true;
    }
    if (down && p->kind == SVG_BARS) pixel(out, 'V', base), fputc('Z', out);
}

static int colour_of(const svg_chart *c, int s)
{
    return c->series[s].colour ? c->series[s].colour : s % SVG_COLOURS + 1;
}

static const char *dashes_of(const svg_series *p)
{
    return p->kind == SVG_DASHES ? "qg-d " : p->kind == SVG_DOTS ? "qg-o " : p->kind == SVG_DASH_DOTS ? "qg-x " : "";
}

static void curve(FILE *out, const frame *f, int s)
{
    const svg_series *p = &f->c->series[s];
    if (p->kind == SVG_POINTS) fprintf(out, "<path class=\"qg-l%d\" d=\"", colour_of(f->c, s));
    else if (p->kind == SVG_BARS) fprintf(out, "<path class=\"qg-b qg-f%d\" d=\"", colour_of(f->c, s));
    else if (p->kind == SVG_BAND) fprintf(out, "<path class=\"qg-s qg-f%d\" d=\"", colour_of(f->c, s));
    else fprintf(out, "<path class=\"%sqg-l%d\" d=\"", dashes_of(p), colour_of(f->c, s));
    if (has_edges(p->kind)) stairs(out, f, p);
    else if (p->kind == SVG_POINTS) points(out, f, p);
    else if (p->kind == SVG_BAND) band(out, f, p);
    else line(out, f, p);
    fputs("\"/>", out);
}

static void level(FILE *out, const frame *f, const svg_mark *m, double at)
{
    enum { LENGTH = 12 };
    fputs("<path class=\"qg-v\" d=\"", out);
    pixel(out, 'M', at), pixel(out, ' ', f->bottom), pixel(out, 'V', f->bottom - LENGTH);
    fputs("\"/>", out);
    if (!m->name) return;
    fputs("<text text-anchor=\"middle\" x=\"", out), pixel(out, 0, at);
    fputs("\" y=\"", out), pixel(out, 0, f->bottom - LENGTH - 3), fputs("\">", out);
    svg_text(out, m->name);
    fputs("</text>", out);
}

static void mark(FILE *out, const frame *f, const svg_mark *m)
{
    const double at = m->horizontal ? py(f, m->at) : px(f, m->at);
    if (!(m->horizontal ? at >= f->top && at <= f->bottom : at >= f->left && at <= f->right)) return;
    if (m->level) {
        level(out, f, m, at);
        return;
    }
    fputs("<path class=\"qg-m\" d=\"", out);
    if (m->horizontal) pixel(out, 'M', f->left), pixel(out, ' ', at), pixel(out, 'H', f->right);
    else pixel(out, 'M', at), pixel(out, ' ', f->bottom), pixel(out, 'V', f->top);
    fputs("\"/>", out);
    if (!m->name) return;
    const bool flips = !m->horizontal && at > f->right - 60;        /* so that the name stays inside */
    fprintf(out, "<text text-anchor=\"%s\" x=\"", m->horizontal || flips ? "end" : "start");
    pixel(out, 0, m->horizontal ? f->right - 2 : flips ? at - 3 : at + 3);
    fputs("\" y=\"", out);
    pixel(out, 0, m->horizontal ? at - 3 : m->low ? f->bottom - 5 : f->top + 10);
    fputs("\">", out);
    svg_text(out, m->name);
    fputs("</text>", out);
}

/* Names of the series side by side, in as many rows as they need.  out NULL: only counts the rows. */
static int legend(FILE *out, const svg_chart *c, int width, int top)
{
    int at = LEFT, rows = 0;
    for (int s = 0; s < c->n_series; s++) {
        const char *name = c->series[s].name;
        if (!name) continue;
        const int most = width - RIGHT - LEFT, wants = 22 + LETTER * (int)strlen(name);
        const int room = wants < most ? wants : most;
        if (!rows) rows = 1;
        if (at > LEFT && at + room > width - RIGHT) at = LEFT, rows++;
        if (out) {
            const int y = top + LEGEND * rows - 5;
            if (c->series[s].kind == SVG_BARS)
                fprintf(out, "<path class=\"qg-b qg-f%d\" d=\"M%d %dh12v8h-12Z\"/>", colour_of(c, s), at, y - 8);
            else
                fprintf(out, "<path class=\"%sqg-l%d\" d=\"M%d %dh12\"/>", dashes_of(&c->series[s]), colour_of(c, s), at, y - 4);
            fprintf(out, "<text x=\"%d\" y=\"%d\"", at + 16, y);
            if (room < wants) fprintf(out, " textLength=\"%d\" lengthAdjust=\"spacingAndGlyphs\"", room - 22);
            fputc('>', out);
            svg_text(out, name);
            fputs("</text>", out);
        }
        at += room;
    }
    return rows;
}

void svg_write(FILE *out, const svg_chart *c)
{
    const int width = c->width ? c->width : WIDTH, height = c->height ? c->height : HEIGHT;
    const int title = c->title ? TITLE : 6, rows = legend(NULL, c, width, 0);
    frame     f     = { .c      = c,
                        .left   = LEFT,
                        .right  = width - RIGHT,
                        .top    = title + LEGEND * rows + 4,
                        .bottom = height - TICKS - (c->x.label ? LABEL : 0),
                        .x      = c->x,
                        .y      = c->y };
    fprintf(out, "<svg class=\"qg\" %sviewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">",
            c->alone ? "xmlns=\"http://www.w3.org/2000/svg\" " : "", width, height, width, height);
    if (c->title) fputs("<title>", out), svg_text(out, c->title), fputs("</title>", out);
    if (c->alone) fputs("<style>", out), svg_style(out), fputs("</style>", out);
    if (c->title) fputs("<text class=\"qg-t\" x=\"6\" y=\"14\">", out), svg_text(out, c->title), fputs("</text>", out);
    legend(out, c, width, title);
    if (set_ends(&f)) {
        axis_x(out, &f);
        axis_y(out, &f);
        for (int s = 0; s < c->n_series; s++) curve(out, &f, s);
        for (int m = 0; m < c->n_marks; m++) mark(out, &f, &c->mark[m]);
    } else {
        fprintf(out, "<text text-anchor=\"middle\" x=\"%d\" y=\"%d\">no numbers yet</text>", width / 2, height / 2);
    }
    fputs("<path class=\"qg-a\" d=\"", out);
    pixel(out, 'M', f.left), pixel(out, ' ', f.top), pixel(out, 'V', f.bottom), pixel(out, 'H', f.right);
    fputs("\"/></svg>\n", out);
}
