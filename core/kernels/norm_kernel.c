#include "core/kernels/norm_kernel.h"

#include "core/kernels/fma.h"

static inline const uint8_t *bytes_at(const uint8_t *which, int k) { return which ? which + k : NULL; }

/* Every pass walks the channels one vector at a time and, inside, the rows of the block: the constants and sums of
 * a channel stay in registers, and a block is small enough to come from the cache on each of its c / VL visits.
 * n is VL except for the last, partial vector. */

static inline void sums_lane(size_t rows, int c, int n, const float *x, float *sums)
{
    const vf shift = load(x, n);
    vf       s = { 0 }, s1 = { 0 }, q = { 0 }, q1 = { 0 };      /* two chains hide the latency */
    size_t   r = 0;
    for (; r + 2 <= rows; r += 2) {
        const vf d = load(x + r * (size_t)c, n) - shift, e = load(x + (r + 1) * (size_t)c, n) - shift;
        s += d;
        q = fma_of(d, d, q);
        s1 += e;
        q1 = fma_of(e, e, q1);
    }
    if (r < rows) {
        const vf d = load(x + r * (size_t)c, n) - shift;
        s += d;
        q = fma_of(d, d, q);
    }
    store(sums, shift, n);
    store(sums + c, s + s1, n);
    store(sums + 2 * c, q + q1, n);
}

static void sums(size_t rows, int c, const float *x, float *out)
{
    for (size_t r = 0; r < rows; r += QG__NORM_PART, x += QG__NORM_PART * (size_t)c, out += 3 * c) {
        const size_t part = rows - r < QG__NORM_PART ? rows - r : QG__NORM_PART;
        int          k    = 0;
        for (; k + VL <= c; k += VL) sums_lane(part, c, VL, x + k, out + k);
        if (k < c) sums_lane(part, c, c - k, x + k, out + k);
    }
}

static inline vf at_least(vf z, vf lo) { return pick(z < lo, lo, z); }      /* NaN stays */

static inline void forward_lane(qg__window g, int pool, int n, const float *x, vf mean, vf a, vf b,
                                const float *add, vf lo, float *y, uint8_t *which)
{
    const size_t c = (size_t)g.c, line = (size_t)g.w * c;
    if (pool == 1) {
        for (size_t r = 0, rows = (size_t)g.h * (size_t)g.w; r < rows; r++) {
            vf z = fma_of(a, load(x + r * c, n) - mean, b);
            if (add) z += load(add + r * c, n);
            store(y + r * c, at_least(z, lo), n);
        }
        return;
    }
    const int oh = g.h / pool, ow = g.w / pool;
    for (int i = 0; i < oh; i++)
        for (int j = 0; j < ow; j++, y += c, which += c) {
            const float *corner = x + (size_t)(i * pool) * line + (size_t)(j * pool) * c;
            vf           best   = fma_of(a, load(corner, n) - mean, b);
            vi           at     = { 0 };
            for (int t = 1, u = 0, v = 1; t < pool * pool; t++, v++) {
                if (v == pool) u++, v = 0;
                const vf z    = fma_of(a, load(corner + (size_t)u * line + (size_t)v * c, n) - mean, b);
                const vi more = (z > best) | (z != z);          /* NaN wins, and stays */
                best          = pick(more, z, best);
                at            = (more & t) | (~more & at);
            }
            store(y, at_least(best, lo), n);
            const vb bytes = __builtin_convertvector(at, vb);
            if (n == VL) *(vb *)which = bytes;
            else memcpy(which, &bytes, (size_t)n);
        }
}

/* Windows of 2 x 2, by far the most common, get loops that the compiler unrolls. */
static inline void forward_channels(qg__window g, int pool, const float *x, const float *mean,
                                    const float *a, const float *b, const float *add, float lo,
                                    float *y, uint8_t *which)
{
    for (int k = 0; k < g.c; k += VL) {
        const float *to = add ? add + k : NULL;
        uint8_t     *at = which ? which + k : NULL;
        const int    n  = g.c - k;
        if (n >= VL)
            forward_lane(g, pool, VL, x + k, load(mean + k, VL), load(a + k, VL), load(b + k, VL), to,
                         splat(lo), y + k, at);
        else
            forward_lane(g, pool, n, x + k, load(mean + k, n), load(a + k, n), load(b + k, n), to,
                         splat(lo), y + k, at);
    }
}

static void forward(qg__window g, const float *x, const float *mean, const float *a, const float *b,
                    const float *add, float lo, float *y, uint8_t *which)
{
    if (g.pool == 1 && add) forward_channels(g, 1, x, mean, a, b, add, lo, y, which);
    else if (g.pool == 1) forward_channels(g, 1, x, mean, a, b, NULL, lo, y, which);
    else if (g.pool == 2) forward_channels(g, 2, x, mean, a, b, NULL, lo, y, which);
    else forward_channels(g, g.pool, x, mean, a, b, NULL, lo, y, which);
}

/* The byte lanes of which, widened. */
static inline vi load_which(const uint8_t *which, int n)
{
    vb v = { 0 };
    if (n == VL) v = *(const vb *)which;
    else memcpy(&v, which, (size_t)n);
    return __builtin_convertvector(v, vi);
}

static inline void grad_sums_lane(qg__window g, int pool, int n, const float *x, const float *dz,
                                  const uint8_t *which, vf mean, float *out)
{
    const size_t c = (size_t)g.c, line = (size_t)g.w * c;
    const int    oh = g.h / pool, ow = g.w / pool;
    vf           s = { 0 }, q = { 0 };
    if (pool == 1) {
        for (size_t r = 0, rows = (size_t)g.h * (size_t)g.w; r < rows; r++) {
            const vf d = load(dz + r * c, n);
            s += d;
            q = fma_of(d, load(x + r * c, n) - mean, q);
        }
    } else {
        for (int i = 0; i < oh; i++)
            for (int j = 0; j < ow; j++, dz += c, which += c) {
                const float *corner = x + (size_t)(i * pool) * line + (size_t)(j * pool) * c;
                const vi     at     = load_which(which, n);
                const vf     d      = load(dz, n);
                vf           top    = load(corner, n);
                for (int t = 1, u = 0, v = 1; t < pool * pool; t++, v++) {
                    if (v == pool) u++, v = 0;
                    top = pick(at == t, load(corner + (size_t)u * line + (size_t)v * c, n), top);
                }
                s += d;
                q = fma_of(d, top - mean, q);
            }
    }
    store(out, s, n);
    store(out + c, q, n);
}

static inline void grad_sums_channels(qg__window g, int pool, const float *x, const float *dz,
                                      const uint8_t *which, const float *mean, float *out)
{
    for (int k = 0; k < g.c; k += VL) {
        const uint8_t *at = bytes_at(which, k);
        const int      n  = g.c - k;
        if (n >= VL) grad_sums_lane(g, pool, VL, x + k, dz + k, at, load(mean + k, VL), out + k);
        else grad_sums_lane(g, pool, n, x + k, dz + k, at, load(mean + k, n), out + k);
    }
}

static void grad_sums(qg__window g, const float *x, const float *dz, const uint8_t *which,
                      const float *mean, float *out)
{
    if (g.pool == 1) grad_sums_channels(g, 1, x, dz, which, mean, out);
    else if (g.pool == 2) grad_sums_channels(g, 2, x, dz, which, mean, out);
    else grad_sums_channels(g, g.pool, x, dz, which, mean, out);
}

static inline void put(float *dx, vf v, bool accumulate, int n)
{
    if (accumulate) v += load(dx, n);
    store(dx, v, n);
}

static inline void grad_input_lane(qg__window g, int pool, int n, const float *x, const float *dz,
                                   const uint8_t *which, vf mean, vf a, vf p, vf q, bool accumulate,
                                   float *dx)
{
    const size_t c = (size_t)g.c, line = (size_t)g.w * c;
    if (pool == 1) {
        for (size_t r = 0, rows = (size_t)g.h * (size_t)g.w; r < rows; r++)
            put(dx + r * c, fma_of(a, load(dz + r * c, n), fma_of(p, load(x + r * c, n) - mean, q)), accumulate, n);
        return;
    }
    const int oh = g.h / pool, ow = g.w / pool;
    for (int i = 0; i < oh; i++)
        for (int j = 0; j < ow; j++, dz += c, which += c) {
            const size_t corner = (size_t)(i * pool) * line + (size_t)(j * pool) * c;
            const vi     at     = load_which(which, n);
            const vf     d      = load(dz, n);
            for (int t = 0, u = 0, v = 0; t < pool * pool; t++, v++) {
                if (v == pool) u++, v = 0;
                const size_t k    = corner + (size_t)u * line + (size_t)v * c;
                const vf     rest = fma_of(p, load(x + k, n) - mean, q);
                put(dx + k, pick(at == t, fma_of(a, d, rest), rest), accumulate, n);
            }
        }
    /* Rows and columns that no window reaches still moved the batch mean. */
    for (int i = 0; i < g.h; i++)
        for (int j = i < oh * pool ? ow * pool : 0; j < g.w; j++) {
            const size_t k = (size_t)i * line + (size_t)j * c;
            put(dx + k, fma_of(p, load(x + k, n) - mean, q), accumulate, n);
        }
}

static inline void grad_input_channels(qg__window g, int pool, const float *x, const float *dz,
                                       const uint8_t *which, const float *mean, const float *a,
                                       const float *p, const float *q, bool accumulate, float *dx)
{
    for (int k = 0; k < g.c; k += VL) {
        const uint8_t *at = bytes_at(which, k);
        const int      n  = g.c - k;
        if (n >= VL)
            grad_input_lane(g, pool, VL, x + k, dz + k, at, load(mean + k, VL), load(a + k, VL),
                            load(p + k, VL), load(q + k, VL), accumulate, dx + k);
        else
            grad_input_lane(g, pool, n, x + k, dz + k, at, load(mean + k, n), load(a + k, n),
                            load(p + k, n), load(q + k, n), accumulate, dx + k);
    }
}

static void grad_input(qg__window g, const float *x, const float *dz, const uint8_t *which,
                       const float *mean, const float *a, const float *p, const float *q,
                       bool accumulate, float *dx)
{
    if (g.pool == 1) grad_input_channels(g, 1, x, dz, which, mean, a, p, q, accumulate, dx);
    else if (g.pool == 2) grad_input_channels(g, 2, x, dz, which, mean, a, p, q, accumulate, dx);
    else grad_input_channels(g, g.pool, x, dz, which, mean, a, p, q, accumulate, dx);
}

const qg__norm_kernels QG_PER_ISA(qg__norm_kernels) = { sums, forward, grad_sums, grad_input };
