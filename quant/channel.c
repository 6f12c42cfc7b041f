#include "quant/channel.h"

#include "quant/map.h"
#include "quant/reduce.h"

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
    return c.outer == 1 ? c.inner : QG_CHUNK;
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
