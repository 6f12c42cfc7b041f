/* Statistics of a whole tensor, on every thread, or of one of its channels, on this one. */
#include "quant/channel.h"
#include "quant/form.h"
#include "quant/reduce.h"
#include "quant/scheme.h"

qg_split qg_spans(qg_quant q, qg_shape x)
{
    const size_t n = qg_count(x), c = (size_t)x.c;
    if (!q.per_channel) return (qg_split){ 1, 1, n };
    return qg_quant_role(q) == QG_WEIGHT ? (qg_split){ 1, (size_t)x.n, qg_row(x) } : (qg_split){ n / c, c, 1 };
}

qg_span qg_span_at(qg_isa isa, qg_split split, size_t channel, const float *x)
{
    return (qg_span){ .x = x, .split = split, .channel = channel, .n = qg__channel_size(split), .isa = isa };
}

/* The next run of a channel from `at` on, copied together if it does not stand together. */
static const float *run_at(qg_span s, size_t at, size_t *n, float part[QG_CHUNK])
{
    *n = qg__smaller(s.n - at, qg__part_size(s.split));
    return qg__part(s.split, s.channel, at, *n, s.x, part);
}

double qg_span_sum_abs(qg_span s)
{
    if (s.split.depth == 1) return qg__sum_abs(s.n, s.x);
    const qg_reduce_kernels *reduce = QG_KERNELS_OF(s.isa, qg__reduce);
    double                   sum = 0.0;
    for (size_t at = 0, n; at < s.n; at += n) {
        float        part[QG_CHUNK];
        const float *x = run_at(s, at, &n, part);
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
        const float *x = run_at(s, at, &n, part);
        sum += reduce->sum_abs_above(n, x, d, &more);
        *count += more;
    }
    return sum;
}

float qg_span_mean_abs(qg_span s) { return s.n ? (float)(qg_span_sum_abs(s) / (double)s.n) : 0.0f; }

float qg_span_max_abs(qg_span s)
{
    if (s.split.depth == 1) return qg__max_abs(s.n, s.x);
    const qg_reduce_kernels *reduce = QG_KERNELS_OF(s.isa, qg__reduce);
    float                    most = 0.0f;
    for (size_t at = 0, n; at < s.n; at += n) {
        float       part[QG_CHUNK];
        const float m = reduce->max_abs(n, run_at(s, at, &n, part));
        if (m > most || m != m) most = m;       /* a NaN stays: nothing is larger */
    }
    return most;
}
