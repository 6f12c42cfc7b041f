#include "quant/check.h"
#include "quant/reference/integer.h"
#include "quant/round.h"

/* Reals with this many bits of fraction; the codes of the accumulator span 2^32. */
enum { FRACTION = 16, CODE_BITS = 32 };

static qg_status check_end(const char *op, const char *name, const qg_array *a)
{
    qg_status s = qg__check_array(op, name, a, QG_F32);
    if (!s) s = qg__check_rank(op, name, a, 0);
    if (!s && !isfinite(*(const float *)a->data))
        s = qg_fail(QG_EARG, "%s: %s is %g, must be finite", op, name,
                    (double)*(const float *)a->data);
    return s;
}

/* The line from codes of one range to codes of the other, with FRACTION bits. */
typedef struct line {
    bool    fits;           /* else the two terms below do not fit 64 bits */
    int64_t scale, offset;  /* v = ((q * scale) >> 32) + offset */
    float   in_min, in_max, out_min, out_max;
} line;

static bool fits(double v)
{
    return v > -0x1p63 && v < 0x1p63;       /* false for NaN */
}

static int64_t saturated_sum(int64_t a, int64_t b)
{
    if (b > 0 && a > INT64_MAX - b) return INT64_MAX;
    if (b < 0 && a < INT64_MIN - b) return INT64_MIN;
    return a + b;
}

/* The mixture of float and double is that of the source: it decides how terms are rounded. */
static line plan(float in_min, float in_max, float out_min, float out_max)
{
    line         k         = { .in_min = in_min, .in_max = in_max, .out_min = out_min, .out_max = out_max };
    const float  in_range  = in_max - in_min;
    const float  out_range = out_max - out_min;
    const bool   empty     = out_range == 0.0f;
    const double one       = (double)(1 << FRACTION);
    const float  recip     = empty ? 0.0f : (float)(255.0 / (double)out_range);
    const float  middle    = (float)((double)(in_min + in_max) / 2.0);
    const double scale     = empty ? 0.0 : 255.0 * one * (double)in_range / (double)out_range;
    const double in_offset = empty ? 0.0 : (double)(middle * recip * (float)one);
    const double out_offset = empty ? 0.0 : one * ((double)out_min * 255.0) / (double)out_range;
    k.fits = fits(scale) && fits(in_offset) && fits(out_offset);
    if (!k.fits) return k;
    const int64_t half = 1 << (FRACTION - 1);
    k.scale  = (int64_t)scale;
    k.offset = saturated_sum((int64_t)in_offset, half - (int64_t)round(out_offset));
    return k;
}

/* 1. q * scale has 95 bits, so it is taken in halves: scale = high * 2^32 + low, 0 <= low < 2^32, and
 *    (q * scale) >> 32 = q * high + ((q * low) >> 32); |q| <= 2^31 and high < 2^31 fit both.
 * 2. That is at most 2^62, so where the sum with the offset saturates, the code does as well. */
static uint8_t code_of(const line *k, int32_t q)
{
    const int64_t high = k->scale >> CODE_BITS;
    const int64_t low  = k->scale & UINT32_MAX;
    const int64_t v    = saturated_sum(q * high + ((q * low) >> CODE_BITS), k->offset);
    return (uint8_t)qg_clamp_int(v >> FRACTION, 0, UINT8_MAX);
}

/* The same line in double. */
static uint8_t code_of_real(const line *k, int32_t q)
{
    const double in_range  = (double)k->in_max - (double)k->in_min;
    const double out_range = (double)k->out_max - (double)k->out_min;
    const double x = ((double)k->in_min + (double)k->in_max) / 2.0 + (double)q * 0x1p-32 * in_range;
    return (uint8_t)qg_to_int(floor((x - (double)k->out_min) * (255.0 / out_range) + 0.5), 0, UINT8_MAX);
}

static qg_status check_ranges(const char *op, float in_min, float in_max, float out_min, float out_max)
{
    if (out_min > 0.0f || out_max < out_min || in_max < in_min)
        return qg_fail(QG_EARG,
                       "%s: requested_output is %g .. %g, must be ordered and begin at 0 or "
                       "below; input is %g .. %g, must be ordered",
                       op, (double)out_min, (double)out_max, (double)in_min, (double)in_max);
    const qg_status s = qg__check_width(op, "input", in_min, in_max);
    return s ? s : qg__check_width(op, "requested_output", out_min, out_max);
}

qg_status qg_requantize(const qg_array *input, const qg_array *input_min,
                        const qg_array *input_max, const qg_array *requested_output_min,
                        const qg_array *requested_output_max, qg_array *output,
                        qg_array *output_min, qg_array *output_max)
{
    const char *op = "requantize";
    qg_status   s  = qg__check_array(op, "input", input, QG_I32);
    if (!s) s = check_end(op, "input_min", input_min);
    if (!s) s = check_end(op, "input_max", input_max);
    if (!s) s = check_end(op, "requested_output_min", requested_output_min);
    if (!s) s = check_end(op, "requested_output_max", requested_output_max);
    if (!s) s = qg__check_array(op, "output", output, QG_U8);
    if (!s) s = qg__check_same_shape(op, "output", output, "input", input);
    if (!s) s = qg__check_pair(op, "output_min", output_min, "input_min", input_min);
    if (!s) s = qg__check_pair(op, "output_max", output_max, "input_max", input_max);
    if (s) return s;
    const float in_min  = *(const float *)input_min->data;
    const float in_max  = *(const float *)input_max->data;
    const float out_min = *(const float *)requested_output_min->data;
    const float out_max = *(const float *)requested_output_max->data;
    s = check_ranges(op, in_min, in_max, out_min, out_max);
    if (s) return s;
    const line k = plan(in_min, in_max, out_min, out_max);
    for (size_t i = 0, n = qg_array_count(input); i < n; i++) {
        const int32_t q              = ((const int32_t *)input->data)[i];
        ((uint8_t *)output->data)[i] = k.fits ? code_of(&k, q) : code_of_real(&k, q);
    }
    *(float *)output_min->data = out_min;
    *(float *)output_max->data = out_max;
    return QG_OK;
}
