#include "infer/kernels/geometry.h"

#include <string.h>

enum { MOST = 1 << 30 };

/* Doubles have products up to 2^53 exactly. */
static bool product_fits(int a, int b, int c, int d) { return (double)a * b * c * d <= INT32_MAX; }

bool qg__geometry_valid(const qg__geometry *g)
{
    const int sizes[] = { g->h, g->w, g->c, g->oh, g->ow, g->oc, g->kh, g->kw, g->stride };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] < 1 || sizes[i] > MOST) return false;
    if (g->top < 0 || g->top > MOST || g->left < 0 || g->left > MOST) return false;
    return (int64_t)g->oh * g->stride + g->kh <= MOST && (int64_t)g->ow * g->stride + g->kw <= MOST &&
           product_fits(g->h, g->w, g->c, 1) && product_fits(g->oh, g->ow, g->oc, 1) &&
           product_fits(g->oc, g->kh, g->kw, g->c);
}

static int limit(int value, int least, int most)
{
    return value < least ? least : value > most ? most : value;
}

/* Outputs first <= r < end along one axis whose windows have the same taps [from, to) inside the image. */
typedef struct span {
    int first, end, from, to;
} span;

/* The span that begins at output `first`. */
static span span_at(int first, int outputs, int inputs, int taps, int stride, int before)
{
    span s = { first, first, 0, 0 };
    for (; s.end < outputs; s.end++) {
        const int at = s.end * stride - before;         /* of tap 0 */
        int       from = limit(-at, 0, taps), to = limit(inputs - at, from, taps);
        if (from == to) from = to = 0;                  /* no tap is inside */
        if (s.end > first && (from != s.from || to != s.to)) break;
        s.from = from;
        s.to   = to;
        /* All taps are inside up to the last window that ends inside: no need to look at each. */
        if (from == 0 && to == taps) {
            s.end = limit((inputs - taps + before) / stride + 1, first + 1, outputs);
            break;
        }
    }
    return s;
}

/* One rectangle of outputs in every image. */
static void visit_rectangle(const qg__geometry *g, int n, span rows, span columns,
                            void (*visit)(void *context, const qg__line *line), void *context)
{
    const ptrdiff_t image = (ptrdiff_t)qg__pixels(g), results = (ptrdiff_t)qg__results(g);
    const int       count[3]  = { n, rows.end - rows.first, columns.end - columns.first };
    const ptrdiff_t x_step[3] = { image, (ptrdiff_t)g->stride * g->w, g->stride };
    const ptrdiff_t y_step[3] = { results, g->ow, 1 };
    int             along     = 2;
    for (int axis = 1; axis >= 0; axis--)
        if (count[axis] > count[along]) along = axis;
    const int a = along == 0 ? 1 : 0, b = along == 2 ? 1 : 2;
    /* A window without taps has no pixel; its x is not read. */
    const ptrdiff_t row    = (ptrdiff_t)rows.first * g->stride - g->top + rows.from;
    const ptrdiff_t column = (ptrdiff_t)columns.first * g->stride - g->left + columns.from;
    const ptrdiff_t x = rows.from < rows.to && columns.from < columns.to ? row * g->w + column : 0;
    const ptrdiff_t y = (ptrdiff_t)rows.first * g->ow + columns.first;
    for (int s = 0; s < count[a]; s++)
        for (int t = 0; t < count[b]; t++) {
            const qg__line line = {
                .outputs = count[along],
                .x = (size_t)(x + s * x_step[a] + t * x_step[b]), .x_step = x_step[along],
                .y = (size_t)(y + s * y_step[a] + t * y_step[b]), .y_step = y_step[along],
                .i0 = rows.from, .i1 = rows.to, .j0 = columns.from, .j1 = columns.to,
            };
            visit(context, &line);
        }
}

void qg__lines(const qg__geometry *g, int n, void (*visit)(void *context, const qg__line *line),
               void *context)
{
    span rows, columns;
    for (int r = 0; r < g->oh; r = rows.end) {
        rows = span_at(r, g->oh, g->h, g->kh, g->stride, g->top);
        for (int q = 0; q < g->ow; q = columns.end) {
            columns = span_at(q, g->ow, g->w, g->kw, g->stride, g->left);
            visit_rectangle(g, n, rows, columns, visit, context);
        }
    }
}

typedef struct window_sums {
    const qg__geometry *g;
    const int32_t      *x;
    int32_t            *sums;
} window_sums;

static void sum_line(void *context, const qg__line *line)
{
    const window_sums *s = context;
    if (line->x_step == 1 && line->y_step == 1) {       /* along a row: the compiler adds neighbours
                                                           together */
        const int32_t *x    = s->x + line->x;
        int32_t       *sums = s->sums + line->y;
        memset(sums, 0, (size_t)line->outputs * sizeof *sums);
        for (int i = line->i0; i < line->i1; i++, x += s->g->w)
            for (int j = 0; j < line->j1 - line->j0; j++)
                for (int p = 0; p < line->outputs; p++) sums[p] += x[j + p];
        return;
    }
    for (int p = 0; p < line->outputs; p++) {
        const int32_t *x   = s->x + (ptrdiff_t)line->x + p * line->x_step;
        int32_t        sum = 0;
        for (int i = line->i0; i < line->i1; i++, x += s->g->w)
            for (int j = 0; j < line->j1 - line->j0; j++) sum += x[j];
        s->sums[(ptrdiff_t)line->y + p * line->y_step] = sum;
    }
}

void qg__window_sums(const qg__geometry *g, int n, const int32_t *x, int32_t *sums)
{
    qg__lines(g, n, sum_line, &(window_sums){ g, x, sums });
}
