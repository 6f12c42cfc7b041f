#include "quant/reduce.h"

#include "core/kernels/parallel.h"

/* Block sums that are kept until they are added in order; more blocks take several rounds. */
enum { BLOCKS_AT_ONCE = 64 };

struct blocks {
    size_t    count, block;
    qg__block run;
    void     *context;
};

static void run_block(void *context, int piece, int worker)
{
    const struct blocks *k = context;
    const size_t         first = (size_t)piece * k->block;
    k->run(k->context, first, qg__smaller(k->count - first, k->block));
}

void qg__in_blocks(size_t count, size_t block, qg__block run, void *context)
{
    struct blocks k = { count, block, run, context };
    qg_parallel((int)((count + block - 1) / block), run_block, &k);
}

/* The result of a block, and of all blocks. */
struct part {
    double value, other;
    size_t count;
};

/* A reduction: how it reads a block, and how it combines the results. */
struct reduction {
    void (*block)(const struct reduction *r, size_t first, size_t n, struct part *out);
    void (*fold)(struct part *all, const struct part *block);
    const qg_reduce_kernels *kernels;
    const float             *x;
    float                    d;
    qg_terms                 terms;
    qg_run                   run;
    const void              *context;
    size_t                   from; /* where this round of blocks begins */
    struct part              parts[BLOCKS_AT_ONCE];
};

static void reduce_block(void *context, size_t first, size_t n)
{
    struct reduction *r = context;
    r->block(r, r->from + first, n, &r->parts[first / QG_BLOCK]);
}

static struct part reduce(struct reduction *r, size_t n)
{
    const size_t at_once = (size_t)BLOCKS_AT_ONCE * QG_BLOCK;
    struct part  all = { 0 };
    r->kernels = QG_KERNELS(qg__reduce);
    for (r->from = 0; r->from < n; r->from += at_once) {
        const size_t round = qg__smaller(n - r->from, at_once);
        qg__in_blocks(round, QG_BLOCK, reduce_block, r);
        for (size_t b = 0; b * QG_BLOCK < round; b++) r->fold(&all, &r->parts[b]);
    }
    return all;
}

static void add(struct part *all, const struct part *block)
{
    all->value += block->value;
    all->other += block->other;
    all->count += block->count;
}

static void keep_larger(struct part *all, const struct part *block)
{
    /* A NaN is kept from either side: no comparison with it is true. */
    if (block->value > all->value || block->value != block->value) all->value = block->value;
}

static void sum_abs(const struct reduction *r, size_t first, size_t n, struct part *out)
{
    *out = (struct part){ .value = r->kernels->sum_abs(n, r->x + first) };
}

static void max_abs(const struct reduction *r, size_t first, size_t n, struct part *out)
{
    *out = (struct part){ .value = (double)r->kernels->max_abs(n, r->x + first) };
}

static void sum_abs_above(const struct reduction *r, size_t first, size_t n, struct part *out)
{
    out->value = r->kernels->sum_abs_above(n, r->x + first, r->d, &out->count);
}

static void sum_terms(const struct reduction *r, size_t first, size_t n, struct part *out)
{
    double sum = 0.0;
    for (size_t at = 0; at < n; at += QG_CHUNK) {
        const size_t m = qg__smaller(n - at, QG_CHUNK);
        float        term[QG_CHUNK];
        r->terms(r->context, first + at, m, term);
        sum += r->kernels->sum(m, term);
    }
    *out = (struct part){ .value = sum };
}

static void sum_runs(const struct reduction *r, size_t first, size_t n, struct part *out)
{
    double sum[2] = { 0.0, 0.0 };
    for (size_t at = 0; at < n; at += QG_CHUNK)
        r->run(r->context, first + at, qg__smaller(n - at, QG_CHUNK), sum);
    *out = (struct part){ .value = sum[0], .other = sum[1] };
}

double qg__sum_abs(size_t n, const float *x)
{
    struct reduction r = { .block = sum_abs, .fold = add, .x = x };
    return reduce(&r, n).value;
}

float qg__max_abs(size_t n, const float *x)
{
    struct reduction r = { .block = max_abs, .fold = keep_larger, .x = x };
    return (float)reduce(&r, n).value;
}

double qg__sum_abs_above(size_t n, const float *x, float d, size_t *count)
{
    struct reduction  r = { .block = sum_abs_above, .fold = add, .x = x, .d = d };
    const struct part all = reduce(&r, n);
    *count = all.count;
    return all.value;
}

double qg__sum_terms(size_t count, qg_terms terms, const void *context)
{
    struct reduction r = { .block = sum_terms, .fold = add, .terms = terms, .context = context };
    return reduce(&r, count).value;
}

void qg__sum_runs(size_t count, qg_run run, const void *context, double sum[2])
{
    struct reduction  r = { .block = sum_runs, .fold = add, .run = run, .context = context };
    const struct part all = reduce(&r, count);
    sum[0] = all.value;
    sum[1] = all.other;
}
