#include "tests/support/conv_ref.h"

#include <stdlib.h>

#include "tests/support/testing.h"

static qg_shape y_shape(const shapes *s)
{
    const int stride = s->spec.stride ? s->spec.stride : 1;
    return (qg_shape){ s->x.n, (s->x.h + 2 * s->spec.pad_h + s->spec.extra_h - s->w.h) / stride + 1,
                       (s->x.w + 2 * s->spec.pad_w + s->spec.extra_w - s->w.w) / stride + 1, s->w.n };
}

float *floats(size_t n)
{
    float *p = calloc(n, sizeof *p);
    assert_non_null(p);
    return p;
}

result result_new(const shapes *s)
{
    result r = { .y = y_shape(s) };
    r.out = floats(qg_count(r.y)), r.dy = floats(qg_count(r.y));
    r.dx = floats(qg_count(s->x)), r.dw = floats(qg_count(s->w)), r.db = floats((size_t)s->w.n);
    fill_uniform(r.dy, qg_count(r.y), -1, 1, 77);
    return r;
}

void result_free(result r) { free(r.out), free(r.dy), free(r.dx), free(r.dw), free(r.db); }

/* Everything that one output pixel of one channel contributes. */
static void pixel(const shapes *s, const float *x, const float *w, size_t at[4], double dy, double *y,
                  double *dx, double *dw)
{
    const int    stride = s->spec.stride ? s->spec.stride : 1, groups = s->spec.groups ? s->spec.groups : 1;
    const size_t group  = at[3] / ((size_t)s->w.n / (size_t)groups);
    for (int p = 0; p < s->w.h; p++)
        for (int q = 0; q < s->w.w; q++)
            for (int k = 0; k < s->w.c; k++) {
                const int    row = (int)at[1] * stride + p - s->spec.pad_h;
                const int    col = (int)at[2] * stride + q - s->spec.pad_w;
                const bool   in  = row >= 0 && row < s->x.h && col >= 0 && col < s->x.w;
                const size_t wi  = ((at[3] * (size_t)s->w.h + (size_t)p) * (size_t)s->w.w + (size_t)q) *
                                      (size_t)s->w.c + (size_t)k;
                const size_t xi  = in ? ((at[0] * (size_t)s->x.h + (size_t)row) * (size_t)s->x.w +
                                         (size_t)col) * (size_t)s->x.c + group * (size_t)s->w.c + (size_t)k : 0;
                const double xv  = (double)(in ? x[xi] : s->spec.pad_value);
                *y += (double)w[wi] * xv;
                dw[wi] += dy * xv;
                if (in) dx[xi] += dy * (double)w[wi];
            }
}

void conv_ref(const shapes *s, const float *x, const float *w, const float *b, result *r)
{
    const size_t nx = qg_count(s->x), nw = qg_count(s->w), no = (size_t)s->w.n;
    double      *dx = calloc(nx + nw + no, sizeof *dx), *dw = dx + nx, *db = dw + nw;
    size_t       i  = 0, at[4];
    assert_non_null(dx);
    for (at[0] = 0; at[0] < (size_t)r->y.n; at[0]++)
        for (at[1] = 0; at[1] < (size_t)r->y.h; at[1]++)
            for (at[2] = 0; at[2] < (size_t)r->y.w; at[2]++)
                for (at[3] = 0; at[3] < no; at[3]++, i++) {
                    double y = b ? (double)b[at[3]] : 0;
                    pixel(s, x, w, at, (double)r->dy[i], &y, dx, dw);
                    db[at[3]] += (double)r->dy[i];
                    r->out[i] = (float)y;
                }
    for (i = 0; i < nx; i++) r->dx[i] = (float)dx[i];
    for (i = 0; i < nw; i++) r->dw[i] = (float)dw[i];
    for (i = 0; i < no; i++) r->db[i] = (float)db[i];
    free(dx);
}
