#include "datasets/normalise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* In units of a byte.  The deviation is larger if one image of a hundred million differs by 1, and smaller if
 * all bytes are equal and the variance is only rounding. */
static const double LEAST_DEVIATION = 1e-4;

size_t qg__sums_width(qg_normalise_kind kind, qg_shape image)
{
    return kind == QG_PER_CHANNEL ? (size_t)image.c : kind == QG_PER_PIXEL ? qg_row(image) : 0;
}

/* Value k of an image has the sums k % width. */
static void fit_moments(qg_preprocess *s, const qg__dataset *set)
{
    const qg__sums *sum   = set->sums;
    const size_t    width = qg__sums_width(s->normalise.kind, s->shape);
    const double    n     = (double)(qg_row(s->shape) / width) * set->shape.n;
    for (size_t k = 0; k < qg_row(s->shape); k++) {
        const double mean      = (double)sum[k % width].first / n;
        const double variance  = (double)sum[k % width].second / n - mean * mean;
        const double deviation = sqrt(variance > 0 ? variance : 0);
        s->mean[k]      = (float)(mean / 255);
        s->deviation[k] = (float)(deviation > LEAST_DEVIATION ? deviation / 255 : 1);
    }
}

/* low + (high - low) x = (x - m) / d  with d = 1 / (high - low), m = -low d. */
qg_status qg__preprocess_range(qg_preprocess *p)
{
    const qg_normalise how   = p->normalise;
    const double       width = (double)how.high - (double)how.low;
    if (!(width > 0) || !isfinite((float)width))
        return qg_fail(QG_EARG, "range %g..%g: its width must be a positive float", (double)how.low,
                       (double)how.high);
    for (size_t k = 0; k < qg_row(p->shape); k++) {
        p->mean[k]      = (float)(-(double)how.low / width);
        p->deviation[k] = (float)(1 / width);
    }
    return QG_OK;
}

qg_status qg__normalise_check(qg_normalise how)
{
    for (int k = 0; how.kind == QG_PER_CHANNEL && k < how.given; k++)
        if (fabsf(how.mean[k]) > 1 || how.deviation[k] > 1)
            return qg_fail(QG_EARG, "normalise: mean %g and deviation %g are not those of values in 0..1; "
                           "divide those of bytes by 255", (double)how.mean[k], (double)how.deviation[k]);
    return QG_OK;
}

qg_status qg__preprocess_given(qg_preprocess *p)
{
    const qg_normalise how = p->normalise;
    const size_t       c = (size_t)p->shape.c, row = qg_row(p->shape);
    if ((how.given != 1 && how.given != p->shape.c) || how.given > QG_MOST_GIVEN)
        return qg_fail(QG_EARG, "channel: mean has %d numbers, but the images have %d channel%s",
                       how.given, p->shape.c, p->shape.c == 1 ? "" : "s");
    for (int k = 0; k < how.given; k++)
        if (!isfinite(how.mean[k]) || !(how.deviation[k] > 0 && isfinite(how.deviation[k])))
            return qg_fail(QG_EARG, "channel: mean %g must be finite, deviation %g also positive",
                           (double)how.mean[k], (double)how.deviation[k]);
    for (size_t i = 0; i < row; i++) {
        const size_t k  = how.given == 1 ? 0 : i % c;
        p->mean[i]      = how.mean[k];
        p->deviation[i] = how.deviation[k];
    }
    return QG_OK;
}

qg_status qg__preprocess_allocate(qg_preprocess *p)
{
    const bool   whitens = p->normalise.kind == QG_WHITEN;
    const size_t row     = qg_row(p->shape);
    const size_t most    = whitens ? SIZE_MAX / row / sizeof(float) : SIZE_MAX / sizeof(float);
    if (p->normalise.kind == QG_TO_UNIT) return QG_OK;
    if (row <= most) {
        p->mean = malloc(row * sizeof(float));
        if (whitens) p->whitening = malloc(row * row * sizeof(float));
        else p->deviation = malloc(row * sizeof(float));
    }
    if (p->mean && (p->deviation || p->whitening)) return QG_OK;
    qg__preprocess_clear(p);
    return qg_fail(QG_EMEM, "out of memory: the statistics of images of %zu values", row);
}

qg_status qg__preprocess_fit(qg_preprocess *p, const qg__dataset *set, qg_normalise how)
{
    *p              = (qg_preprocess){ .shape = set->shape, .normalise = how };
    p->shape.n      = 1;
    qg_status status = qg__preprocess_allocate(p);
    if (status) return status;
    switch (how.kind) {
    case QG_TO_UNIT: break;
    case QG_TO_RANGE: status = qg__preprocess_range(p); break;
    case QG_PER_CHANNEL:
        if (how.given) status = qg__preprocess_given(p);
        else fit_moments(p, set);
        break;
    case QG_PER_PIXEL: fit_moments(p, set); break;
    case QG_WHITEN: status = qg__whiten_fit(p, set); break;
    default: status = qg_fail(QG_EARG, "%d is not a kind of normalisation", (int)how.kind);
    }
    if (status) qg__preprocess_clear(p);
    return status;
}

qg_status qg__preprocess_copy(qg_preprocess *p, const qg_preprocess *from)
{
    *p = (qg_preprocess){ .shape = from->shape, .normalise = from->normalise };
    const qg_status status = qg__preprocess_allocate(p);
    if (status || !from->mean) return status;
    const size_t row = qg_row(p->shape), bytes = row * sizeof(float);
    memcpy(p->mean, from->mean, bytes);
    if (p->whitening) memcpy(p->whitening, from->whitening, row * bytes);
    else memcpy(p->deviation, from->deviation, bytes);
    return QG_OK;
}

void qg__preprocess_clear(qg_preprocess *p)
{
    free(p->mean);
    free(p->deviation);
    free(p->whitening);
    *p = (qg_preprocess){ 0 };
}

/* A true division: byte * (1 / 255) rounds twice and differs in 126 of 256 values. */
void qg__normalise(const qg_preprocess *p, const uint8_t *image, size_t k, size_t n, float *to)
{
    const uint8_t *from = image + k;
    if (!p->mean) {
        for (size_t i = 0; i < n; i++) to[i] = (float)from[i] / 255.0f;
        return;
    }
    const float *mean = p->mean + k, *deviation = p->deviation + k;
    for (size_t i = 0; i < n; i++) to[i] = ((float)from[i] / 255.0f - mean[i]) / deviation[i];
}
