#include "quant/channel.h"

#include "quant/engine.h"
#include "quant/reduce.h"

#include <math.h>
#include <string.h>

/* The run of a channel that holds its element `at`: where it stands in x, and how much is left. */
static size_t run_at(qg_split c, size_t channel, size_t at, size_t *left)
{
    const size_t o = at / c.inner;
    const size_t i = at % c.inner;
    *left = c.inner - i;
    return (o * c.depth + channel) * c.inner + i;
}

void qg__gather(qg_split c, size_t channel, size_t from, size_t n, const float *x, float *part)
{
    if (c.inner == 1) { /* strided: no runs to speak of */
        for (size_t i = 0; i < n; i++) part[i] = x[(from + i) * c.depth + channel];
        return;
    }
    for (size_t i = 0, left; i < n; i += left) {
        const size_t at = run_at(c, channel, from + i, &left);
        left = qg__smaller(left, n - i);
        memcpy(part + i, x + at, left * sizeof *part);
    }
}

void qg__scatter(qg_split c, size_t channel, size_t from, size_t n, const float *part, float *x)
{
    if (c.inner == 1) {
        for (size_t i = 0; i < n; i++) x[(from + i) * c.depth + channel] = part[i];
        return;
    }
    for (size_t i = 0, left; i < n; i += left) {
        const size_t at = run_at(c, channel, from + i, &left);
        left = qg__smaller(left, n - i);
        memcpy(x + at, part + i, left * sizeof *part);
    }
}

size_t qg__part_size(qg_split c)
{
    return c.outer == 1 ? qg__smaller(c.inner, QG_BLOCK) : QG_CHUNK;
}

const float *qg__part(qg_split c, size_t channel, size_t from, size_t n, const float *x,
                      float *part)
{
    if (c.outer == 1) return x + channel * c.inner + from;
    qg__gather(c, channel, from, n, x, part);
    return part;
}

float *qg__open_part(qg_split c, size_t channel, size_t from, size_t n, float *x, float *part)
{
    if (c.outer == 1) return x + channel * c.inner + from;
    qg__gather(c, channel, from, n, x, part);
    return part;
}

void qg__close_part(qg_split c, size_t channel, size_t from, size_t n, const float *part, float *x)
{
    if (c.outer != 1) qg__scatter(c, channel, from, n, part, x);
}

/* --- statistics of a span: of a whole tensor on every thread, of one of its channels on this one --- */

qg_split qg__spans(qg_quant q, qg_shape x)
{
    const size_t n = qg_count(x), c = (size_t)x.c;
    if (!q.per_channel) return (qg_split){ 1, 1, n };
    return qg__quant_role(q) == QG_WEIGHT ? (qg_split){ 1, (size_t)x.n, qg_row(x) } : (qg_split){ n / c, c, 1 };
}

qg_span qg__span_at(qg_isa isa, qg_split split, size_t channel, const float *x)
{
    return (qg_span){ .x = x, .split = split, .channel = channel, .n = qg__channel_size(split), .isa = isa };
}

/* The next run of a channel from `at` on, copied together if it does not stand together. */
static const float *span_run(qg_span s, size_t at, size_t *n, float part[QG_CHUNK])
{
    *n = qg__smaller(s.n - at, qg__part_size(s.split));
    return qg__part(s.split, s.channel, at, *n, s.x, part);
}

double qg__span_sum_abs(qg_span s)
{
    if (s.split.depth == 1) return qg__sum_abs(s.n, s.x);
    const qg_reduce_kernels *reduce = QG_KERNELS_OF(s.isa, qg__reduce);
    double                   sum = 0.0;
    for (size_t at = 0, n; at < s.n; at += n) {
        float        part[QG_CHUNK];
        const float *x = span_run(s, at, &n, part);
        sum += reduce->sum_abs(n, x);
    }
    return sum;
}

double qg_span_sum_abs_above(qg_span s, float d, size_t *count)
{
    if (s.split.depth == 1) return qg__sum_abs_above(s.n, s.x, d, count);
    const qg_reduce_kernels *reduce = QG_KERNELS_OF(s.isa, qg__reduce);
    double                   sum = 0.0;
    *count = 0;
    for (size_t at = 0, n; at < s.n; at += n) {
        float        part[QG_CHUNK];
        size_t       more;
        const float *x = span_run(s, at, &n, part);
        sum += reduce->sum_abs_above(n, x, d, &more);
        *count += more;
    }
    return sum;
}

float qg_span_mean_abs(qg_span s) { return s.n ? (float)(qg__span_sum_abs(s) / (double)s.n) : 0.0f; }

float qg_span_max_abs(qg_span s)
{
    if (s.split.depth == 1) return qg__max_abs(s.n, s.x);
    const qg_reduce_kernels *reduce = QG_KERNELS_OF(s.isa, qg__reduce);
    float                    most = 0.0f;
    for (size_t at = 0, n; at < s.n; at += n) {
        float        part[QG_CHUNK];
        const float *x = span_run(s, at, &n, part);     /* before n is passed on */
        const float  m = reduce->max_abs(n, x);
        if (m > most || m != m) most = m;       /* a NaN stays: nothing is larger */
    }
    return most;
}

double qg_span_mean(qg_span s, double *distance, double *squares)
{
    const qg_reduce_kernels *reduce = QG_KERNELS_OF(s.isa, qg__reduce);
    float                    part[QG_CHUNK];
    double                   sum = 0.0;
    for (size_t at = 0, n; at < s.n; at += n) {
        const float *x = span_run(s, at, &n, part);
        sum += reduce->sum(n, x);
    }
    const double mean = s.n ? sum / (double)s.n : 0.0;
    *distance = *squares = 0.0;
    for (size_t at = 0, n; at < s.n; at += n) {
        const float *x = span_run(s, at, &n, part);
        for (size_t i = 0; i < n; i++) {
            const double d = (double)x[i] - mean;
            *distance += fabs(d);
            *squares += d * d;
        }
    }
    return mean;
}

void qg_span_min_max(qg_span s, float *min, float *max)
{
    if (s.split.depth == 1) qg__min_max(s.split, 0, 1, s.x, min, max);
    else {
        const qg_reduce_kernels *reduce = QG_KERNELS_OF(s.isa, qg__reduce);
        *min = INFINITY;
        *max = -INFINITY;
        for (size_t at = 0, n; at < s.n; at += n) {
            float        part[QG_CHUNK];
            const float *x = span_run(s, at, &n, part);
            reduce->min_max(n, x, min, max);
        }
        *min += 0.0f;           /* -0 becomes +0, whichever comes first */
        *max += 0.0f;
    }
    if (*min > *max) *min = *max = 0.0f;
}
