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
    static const char        special[] = "&<>\"'";
    static const char *const entity[]  = { "&amp;", "&lt;", "&gt;", "&quot;", "&#39;" };
    char                     shown[QG_SHOWN_BYTES];
    for (size_t n = strlen(text); n > 0;) {
        const size_t used = qg__utf8_show(text, n, shown);
        const char  *at   = *shown ? strchr(special, *shown) : NULL;
        fputs(at ? entity[at - special] : shown, out);
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

/* anchor: which end of the text is at x. */
static void label(FILE *out, const char *anchor, double x, double y, const char *text)
{
    fprintf(out, "<text text-anchor=\"%s\" x=\"", anchor);
    pixel(out, 0, x);
    fputs("\" y=\"", out), pixel(out, 0, y);
    fputs("\">", out), svg_text(out, text);
    fputs("</text>", out);
}

/* A line of this class from (x, y) to another x or y: along is H or V. */
static void rule(FILE *out, const char *class, double x, double y, char along, double to)
{
    fprintf(out, "<path class=\"%s\" d=\"", class);
    pixel(out, 'M', x), pixel(out, ' ', y), pixel(out, along, to);
    fputs("\"/>", out);
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
                if (p->kind == SVG_STEPS || p->kind == SVG_BARS) widen(&f->x, p->x[i + 1]);
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

enum { TICK_BYTES = QG_NUMBER_BYTES + 16 };

static const char *tick_text(const svg_axis *a, double at, char text[TICK_BYTES])
{
    const double v    = (a->log ? pow(10, at) : at) * (a->percent ? 100 : 1);
    const int    e    = v != 0 ? (int)floor(log10(fabs(v)) + 1e-9) : 0;
    const bool   far = e < -4 || e > 5;
    qg__number_print(text, 5, far ? v / pow(10, e) : v);
    char *end = text + strlen(text);
    if (far) end += snprintf(end, 12, "e%d", e);
    if (a->percent) strcpy(end, " %");
    return text;
}

static void axis_x(FILE *out, const frame *f)
{
    double at[TICKS_MOST];
    char   text[TICK_BYTES];
    if (f->c->x.bare) return;
    for (int i = 0, n = ticks(&f->x, (int)((f->right - f->left) / BETWEEN_X), at); i < n; i++) {
        const double x = f->left + (at[i] - f->x.min) / (f->x.max - f->x.min) * (f->right - f->left);
        rule(out, "qg-g", x, f->bottom, 'V', f->top);
        label(out, "middle", x, (int)f->bottom + 14, tick_text(&f->x, at[i], text));
    }
    if (f->c->x.label) label(out, "middle", (int)(f->left + f->right) / 2, (int)f->bottom + TICKS + 11, f->c->x.label);
}

static void axis_y(FILE *out, const frame *f)
{
    double at[TICKS_MOST];
    char   text[TICK_BYTES];
    if (f->c->y.bare) return;
    for (int i = 0, n = ticks(&f->y, (int)fmax(2, (f->bottom - f->top) / BETWEEN_Y), at); i < n; i++) {
        const double y = f->bottom - (at[i] - f->y.min) / (f->y.max - f->y.min) * (f->bottom - f->top);
        rule(out, "qg-g", f->left, y, 'H', f->right);
        label(out, "end", LEFT - 5, y + 4, tick_text(&f->y, at[i], text));
    }
    if (!f->c->y.label) return;
    fprintf(out, "<text text-anchor=\"middle\" transform=\"translate(11 %d) rotate(-90)\">", (int)((f->top + f->bottom) / 2));
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

static void points(FILE *out, const frame *f, const svg_series *p)
{
    for (int i = 0; i < p->n; i++) {
        const double x = px(f, p->x[i]), y = py(f, p->y[i]);
        if (!(x >= f->left && x <= f->right && y >= f->top && y <= f->bottom)) continue;
        pixel(out, 'M', x - 2.5), pixel(out, ' ', y);
        fputs("a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0", out);
    }
}

/* A single point is drawn as one. */
static void line(FILE *out, const frame *f, const svg_series *p)
{
    bool      down = false;
    const int k    = stride(f->c, p);
    if (p->n == 1) {
        points(out, f, p);
        return;
    }
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

/* What draws a kind, and its class, which ends with the number of the colour. */
static const struct {
    const char *class;
    void      (*draw)(FILE *out, const frame *f, const svg_series *p);
} kinds[] = {
    [SVG_LINE]      = { "qg-l", line },
    [SVG_DASHES]    = { "qg-d qg-l", line },
    [SVG_DOTS]      = { "qg-o qg-l", line },
    [SVG_DASH_DOTS] = { "qg-x qg-l", line },
    [SVG_BAND]      = { "qg-s qg-f", band },
    [SVG_POINTS]    = { "qg-l", points },
    [SVG_STEPS]     = { "qg-l", stairs },
    [SVG_BARS]      = { "qg-b qg-f", stairs },
};

static void curve(FILE *out, const frame *f, int s)
{
    const svg_series *p = &f->c->series[s];
    fprintf(out, "<path class=\"%s%d\" d=\"", kinds[p->kind].class, colour_of(f->c, s));
    kinds[p->kind].draw(out, f, p);
    fputs("\"/>", out);
}

static void mark(FILE *out, const frame *f, const svg_mark *m)
{
    enum { LENGTH = 12 };       /* of a level */
    const double at = m->horizontal ? py(f, m->at) : px(f, m->at);
    if (!(m->horizontal ? at >= f->top && at <= f->bottom : at >= f->left && at <= f->right)) return;
    if (m->level) rule(out, "qg-v", at, f->bottom, 'V', f->bottom - LENGTH);
    else if (m->horizontal) rule(out, "qg-m", f->left, at, 'H', f->right);
    else rule(out, "qg-m", at, f->bottom, 'V', f->top);
    const bool flips = at > f->right - 60;          /* so that the name stays inside */
    if (!m->name) return;
    if (m->level) label(out, "middle", at, f->bottom - LENGTH - 3, m->name);
    else if (m->horizontal) label(out, "end", f->right - 2, at - 3, m->name);
    else label(out, flips ? "end" : "start", flips ? at - 3 : at + 3, m->low ? f->bottom - 5 : f->top + 10, m->name);
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
            const svg_kind kind = c->series[s].kind;
            fprintf(out, "<path class=\"%s%d\" d=\"M%d %dh12%s\"/>", kinds[kind].class, colour_of(c, s), at,
                    kind == SVG_BARS ? y - 8 : y - 4, kind == SVG_BARS ? "v8h-12Z" : "");
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
    fprintf(out, "<svg class=\"qg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">", width, height, width, height);
    if (c->title) fputs("<title>", out), svg_text(out, c->title), fputs("</title>", out);
    if (c->title) fputs("<text class=\"qg-t\" x=\"6\" y=\"14\">", out), svg_text(out, c->title), fputs("</text>", out);
    legend(out, c, width, title);
    if (set_ends(&f)) {
        axis_x(out, &f);
        axis_y(out, &f);
        for (int s = 0; s < c->n_series; s++) curve(out, &f, s);
        for (int m = 0; m < c->n_marks; m++) mark(out, &f, &c->mark[m]);
    } else {
        label(out, "middle", width / 2, height / 2, "no numbers yet");
    }
    fputs("<path class=\"qg-a\" d=\"", out);
    pixel(out, 'M', f.left), pixel(out, ' ', f.top), pixel(out, 'V', f.bottom), pixel(out, 'H', f.right);
    fputs("\"/></svg>\n", out);
}

void svg_picture(FILE *out, const svg_chart *left, const svg_chart *right)
{
    const int width = left->width * (right ? 2 : 1), height = left->height;
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\"><style>", width, height,
            width, height);
    svg_style(out);
    fprintf(out, "</style>\n");
    svg_write(out, left);
    if (right) {
        fprintf(out, "<g transform=\"translate(%d 0)\">", left->width);
        svg_write(out, right);
        fprintf(out, "</g>");
    }
    fprintf(out, "</svg>\n");
}
