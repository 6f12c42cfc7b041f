#include "quant/check.h"
#include "quant/integer.h"
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

/* Truncated; far beyond any code of the output, but not so far that sums of three overflow. */
static int64_t fixed(double v)
{
    return qg_to_int(v, -(INT64_C(1) << 53), INT64_C(1) << 53);
}

/* (q * scale) >> 32 with scale >= 0, saturated where the product leaves 64 bits. */
static int64_t scaled(int64_t q, int64_t scale)
{
    const int64_t room = scale ? INT64_MAX / scale : INT64_MAX;
    if (q > room) return INT64_MAX >> CODE_BITS;
    if (q < -room) return INT64_MIN >> CODE_BITS;
    return (q * scale) >> CODE_BITS;
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
    if (out_min > 0.0f || out_max < out_min || in_max < in_min)
        return qg_fail(QG_EARG,
                       "%s: requested_output is %g .. %g, must be ordered and begin at 0 or "
                       "below; input is %g .. %g, must be ordered",
                       op, (double)out_min, (double)out_max, (double)in_min, (double)in_max);
    /* The mixture of float and double is that of the source: it decides truncations. */
    const float   in_range  = in_max - in_min;
    const float   out_range = out_max - out_min;
    const bool    empty     = out_range == 0.0f;
    const float   recip     = empty ? 0.0f : (float)(255.0 / (double)out_range);
    const float   middle    = (float)((double)(in_min + in_max) / 2.0);
    const double  one       = (double)(1 << FRACTION);
    const int64_t scale = empty ? 0 : fixed(255.0 * one * (double)in_range / (double)out_range);
    const int64_t in_offset = fixed((double)(middle * recip * (float)one));
    const int64_t out_offset =
        empty ? 0 : fixed(one * ((double)out_min * 255.0) / (double)out_range);
    const int64_t offset = in_offset - out_offset + (1 << (FRACTION - 1));
    for (size_t i = 0, n = qg_array_count(input); i < n; i++) {
        const int64_t v = (scaled(((const int32_t *)input->data)[i], scale) + offset) >> FRACTION;
        ((uint8_t *)output->data)[i] = (uint8_t)qg_clamp_int(v, 0, UINT8_MAX);
    }
    *(float *)output_min->data = out_min;
    *(float *)output_max->data = out_max;
    return QG_OK;
}
