/* The records of a net as a graph of ONNX operators.
 *
 * Values are float tensors [N,c,h,w], or [N,c] of one pixel.  Codes are floats too, with the integers that
 * they stand for: sums of their products are exact in any order up to 2^24, while the products that runtimes
 * have for integers are not exact on every processor (docs/export.md).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "layers/export/onnx_model.h"
#include "layers/export/writer.h"
#include "layers/plan.h"

typedef qg__tensor tensor;

typedef struct writer {
    qg__onnx           m;
    const qg__records *records;
    const qg__record  *at;      /* what is being written */
    tensor            *value;   /* of the image, then of each record */
} writer;

/* --- nodes and constants ------------------------------------------------------------------------ */

static tensor unary(writer *w, const char *type, tensor x) { return qg__onnx_node(&w->m, type, 1, &x); }
static tensor binary(writer *w, const char *type, tensor x, tensor y)
{
    return qg__onnx_node(&w->m, type, 2, (const tensor[]){ x, y });
}
static tensor ternary(writer *w, const char *type, tensor x, tensor y, tensor z)
{
    return qg__onnx_node(&w->m, type, 3, (const tensor[]){ x, y, z });
}

static tensor cast(writer *w, tensor x, qg__element to)
{
    const tensor y = unary(w, "Cast", x);
    qg__onnx_integer(&w->m, "to", to);
    return y;
}

/* n elements, and dimensions of 1 after them. */
static tensor constant(writer *w, const char *what, qg__element type, int dims, int64_t n, const void *data)
{
    return qg__onnx_constant(&w->m, what, type, dims, (const int64_t[]){ n, 1, 1, 1 }, data);
}
static tensor number(writer *w, const char *what, float v) { return constant(w, what, QG__FLOAT, 0, 1, &v); }
static tensor integers(writer *w, const char *what, int n, const int64_t *v)
{
    return constant(w, what, QG__INT64, 1, n, v);
}

static bool all_are(size_t n, const float *x, float v)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] != v) return false;
    return true;
}

/* --- values ------------------------------------------------------------------------------------- */

static bool is_pixel(int h, int w) { return h == 1 && w == 1; }

/* y = x (type) numbers of its channels; x if none of them changes anything. */
static tensor by_channel(writer *w, const char *type, tensor x, const char *what, const float *numbers,
                         float neutral)
{
    const qg__packed_step *r = &w->at->r;
    if (all_are((size_t)r->oc, numbers, neutral)) return x;
    return binary(w, type, x, constant(w, what, QG__FLOAT, is_pixel(r->oh, r->ow) ? 1 : 3, r->oc, numbers));
}

/* [N,c,h,w] even of one pixel. */
static tensor as_image(writer *w, tensor x, const qg__packed_step *r)
{
    if (!is_pixel(r->h, r->w)) return x;
    return binary(w, "Reshape", x, integers(w, "shape", 4, (const int64_t[]){ -1, r->c, 1, 1 }));
}

/* [N, all]. */
static tensor flat(writer *w, tensor x) { return unary(w, "Flatten", x); }

/* The value of an image that a node has computed. */
static tensor from_image(writer *w, tensor y)
{
    return is_pixel(w->at->r.oh, w->at->r.ow) ? flat(w, y) : y;
}

/* --- quantizers --------------------------------------------------------------------------------- */

/* The number n of qg__rounding. */
static tensor round_to_steps(writer *w, const qg__rounding *f, tensor x)
{
    if (f->first != 0) x = binary(w, "Sub", x, number(w, "first", f->first));
    x = binary(w, f->multiplies ? "Mul" : "Div", x, number(w, "step", f->by));
    if (f->half_up) x = binary(w, "Add", x, number(w, "half", 0.5f));
    x = unary(w, f->half_up ? "Floor" : "Round", x);
    const tensor lowest = number(w, "lowest", f->lowest);
    return ternary(w, "Clip", x, lowest, number(w, "highest", f->highest));
}

static tensor thresholds(writer *w, const float *threshold)
{
    return constant(w, "thresholds", QG__FLOAT, 1, w->at->r.q_count - 1, threshold);
}

/* One comparison decides between n and n + 1. */
static tensor correct(writer *w, tensor n, tensor x, const float *threshold)
{
    const tensor all  = thresholds(w, threshold);
    const tensor next = binary(w, "Gather", all, cast(w, n, QG__INT32));
    return binary(w, "Add", n, cast(w, binary(w, "GreaterOrEqual", x, next), QG__FLOAT));
}

static tensor count_reached(writer *w, tensor x, const float *threshold)
{
    const tensor last = integers(w, "last", 1, (const int64_t[]){ -1 });
    x                 = binary(w, "Unsqueeze", x, last);
    x                 = cast(w, binary(w, "GreaterOrEqual", x, thresholds(w, threshold)), QG__FLOAT);
    x                 = binary(w, "ReduceSum", x, last);
    qg__onnx_integer(&w->m, "keepdims", 0);
    return x;
}

/* The integers of codes that are lowest, lowest + 1, .. */
static tensor integers_of(writer *w, tensor x, float lowest)
{
    const qg__packed_step *r = &w->at->r;
    if (r->q_step != 1) x = binary(w, "Mul", x, number(w, "step", (float)r->q_step));
    const float offset = (float)r->q_lowest - lowest * (float)r->q_step;
    return offset != 0 ? binary(w, "Add", x, number(w, "lowest", offset)) : x;
}

/* Their levels, which are floats. */
static tensor levels_of(writer *w, tensor x, float lowest, const float *level)
{
    if (lowest != 0) x = binary(w, "Sub", x, number(w, "lowest", lowest));
    const tensor levels = constant(w, "levels", QG__FLOAT, 1, w->at->r.q_count, level);
    return binary(w, "Gather", levels, cast(w, x, QG__INT32));
}

/* threshold: of the record, then its levels. */
static tensor quantize(writer *w, tensor x, const float *threshold)
{
    const qg__packed_step *r     = &w->at->r;
    const float           *level = r->coding == QG__AS_FLOATS ? threshold + r->q_count - 1 : NULL;
    if (r->q_count == 2) {
        const tensor low  = number(w, "low", level ? level[0] : (float)r->q_lowest);
        const tensor high = number(w, "high", level ? level[1] : (float)(r->q_lowest + r->q_step));
        x = binary(w, "GreaterOrEqual", x, number(w, "threshold", *threshold));
        return ternary(w, "Where", x, high, low);
    }
    const qg__rounding f = qg__rounding_of(r, threshold);
    tensor             u = f.how == QG__COMPARES ? count_reached(w, x, threshold) : round_to_steps(w, &f, x);
    if (f.how == QG__GUESSES) u = correct(w, u, x, threshold);
    return level ? levels_of(w, u, f.lowest, level) : integers_of(w, u, f.lowest);
}

/* --- windows ------------------------------------------------------------------------------------ */

static int64_t pad_after(int size, int outputs, int taps, int stride, int before)
{
    const int64_t needed = (int64_t)(outputs - 1) * stride + taps - size - before;
    return needed > 0 ? needed : 0;
}

/* top, left, bottom, right. */
static void pads_of(const qg__packed_step *r, int64_t pads[4])
{
    pads[0] = r->top, pads[1] = r->left;
    pads[2] = pad_after(r->h, r->oh, r->kh, r->stride, r->top);
    pads[3] = pad_after(r->w, r->ow, r->kw, r->stride, r->left);
}

/* Attributes of the open node. */
static void put_windows(writer *w, bool padded)
{
    const qg__packed_step *r = &w->at->r;
    int64_t                pads[4];
    pads_of(r, pads);
    qg__onnx_integers(&w->m, "kernel_shape", 2, (const int64_t[]){ r->kh, r->kw });
    qg__onnx_integers(&w->m, "strides", 2, (const int64_t[]){ r->stride, r->stride });
    if (!padded) qg__onnx_integers(&w->m, "pads", 4, pads);
}

/* x with `value` around it. */
static tensor pad_with(writer *w, tensor x, float value)
{
    int64_t pads[4];
    pads_of(&w->at->r, pads);
    const int64_t all[]  = { 0, 0, pads[0], pads[1], 0, 0, pads[2], pads[3] };
    const tensor  around = integers(w, "pads", 8, all);
    return ternary(w, "Pad", x, around, number(w, "pad", value));
}

static tensor pool(writer *w, tensor x)
{
    const qg__packed_step *r   = &w->at->r;
    const bool             max = r->kind == QG__MAXPOOL;
    const tensor           y   = unary(w, max ? "MaxPool" : "AveragePool", as_image(w, x, r));
    put_windows(w, false);
    if (!max) qg__onnx_integer(&w->m, "count_include_pad", !r->flag);
    return from_image(w, y);
}

/* --- products ----------------------------------------------------------------------------------- */

/* A product as ONNX has it: a dense layer reads all numbers of an image as channels of one pixel, in the
 * order c, h, w. */
typedef struct product {
    const qg__packed_step *r;
    const float           *w;           /* rows of the record */
    bool                   dense;
    int                    channels, taps;  /* of a row */
    int                    reach;       /* of the codes x; 0: floats */
} product;

static product product_of(const writer *w)
{
    const qg__packed_step *r    = &w->at->r;
    const qg__packed_step *from = r->x ? &w->records->record[r->x - 1].r : NULL;
    product p = { .r = r, .w = w->at->w, .channels = r->c / r->groups, .taps = r->kh * r->kw };
    p.dense   = r->groups == 1 && r->h == r->kh && r->w == r->kw && is_pixel(r->oh, r->ow) && !r->top &&
                !r->left;
    if (p.dense) p.channels *= p.taps, p.taps = 1;
    if (from) p.reach = qg__reach(qg__codes_of_value(from));
    return p;
}

/* A number of row o as the record has it. */
static float weight_of(const product *p, int o, int c, int t)
{
    const qg__packed_step *r   = p->r;
    const float           *row = p->w + (size_t)o * qg__row_numbers(r) + r->w_zeros;
    if (p->dense) t = c % (r->kh * r->kw), c /= r->kh * r->kw;
    return row[(size_t)t * (size_t)(r->c / r->groups) + (size_t)c];
}

static float zero_of(const product *p, int o)
{
    return p->r->w_zeros ? p->w[(size_t)o * qg__row_numbers(p->r)] : 0.0f;
}

/* The first channel, if any, with which sums of products from channel `first` of each group on might not be
 * exact in float.  sum: [oc] of scratch. */
static int exact_end(const product *p, int first, double *sum)
{
    static const double most = 1 << 24;
    memset(sum, 0, (size_t)p->r->oc * sizeof *sum);
    for (int c = first; c < p->channels; c++)
        for (int o = 0; o < p->r->oc; o++) {
            for (int t = 0; t < p->taps; t++) sum[o] += (double)fabsf(weight_of(p, o, c, t) - zero_of(p, o));
            if (sum[o] * p->reach > most) return c;
        }
    return p->channels;
}

/* What is stored for codes of weights: itself, or its number. */
typedef struct storage {
    qg__element type;
    int         lowest, step;       /* a code is lowest + step * what is stored */
} storage;

static storage storage_of(const qg__packed_step *r)
{
    if (!r->w_count || r->w_count > QG__MOST_CODES) return (storage){ .type = QG__FLOAT };
    if (!r->w_zeros && r->w_lowest >= INT8_MIN && r->w_lowest + r->w_step * (r->w_count - 1) <= INT8_MAX)
        return (storage){ .type = QG__INT8, .step = 1 };
    return (storage){ .type = QG__UINT8, .lowest = r->w_lowest, .step = r->w_step };
}

/* Channels first .. end - 1 of each row. */
static tensor stored_weights(writer *w, const product *p, storage s, int first, int end)
{
    const qg__packed_step *r    = p->r;
    const size_t           size = s.type == QG__FLOAT ? sizeof(float) : 1;
    const size_t           n    = (size_t)r->oc * (size_t)(end - first) * (size_t)p->taps;
    unsigned char         *data = qg__onnx_take(&w->m, n * size), *at = data;
    for (int o = 0; o < r->oc && data; o++)
        for (int c = first; c < end; c++)
            for (int t = 0; t < p->taps; t++, at += size) {
                const float v = weight_of(p, o, c, t);
                if (s.type == QG__FLOAT) memcpy(at, &v, sizeof v);
                else *at = (unsigned char)(((int)v - s.lowest) / s.step);
            }
    const int64_t dims[] = { r->oc, end - first, r->kh, r->kw };
    return qg__onnx_constant(&w->m, "weight", s.type, p->dense ? 2 : 4, dims, data);
}

/* As floats.  Codes are dequantized with the scale 1, or the step of their alphabet, so they stay integers:
 * runtimes do not multiply factors of channels into what they dequantize. */
static tensor weights(writer *w, const product *p, int first, int end)
{
    const qg__packed_step *r      = p->r;
    const storage          s      = storage_of(r);
    const tensor           stored = stored_weights(w, p, s, first, end);
    if (s.type == QG__FLOAT) return stored;
    if (!r->w_zeros) {
        const tensor y = binary(w, "DequantizeLinear", stored, number(w, "step", (float)s.step));
        return s.lowest ? binary(w, "Add", y, number(w, "lowest", (float)s.lowest)) : y;
    }
    float         *one  = qg__onnx_take(&w->m, (size_t)r->oc * sizeof *one);
    unsigned char *zero = qg__onnx_take(&w->m, (size_t)r->oc);
    for (int o = 0; o < r->oc && one && zero; o++) one[o] = 1.0f, zero[o] = (unsigned char)zero_of(p, o);
    const tensor scale = constant(w, "step", QG__FLOAT, 1, r->oc, one);
    const tensor zeros = constant(w, "zero", QG__UINT8, 1, r->oc, zero);
    const tensor y     = ternary(w, "DequantizeLinear", stored, scale, zeros);
    qg__onnx_integer(&w->m, "axis", 0);
    return y;
}

/* Ternary weights with a factor for each sign, as floats, looked up in a table of all rows. */
static tensor looked_up_weights(writer *w, const product *p)
{
    const int    oc    = p->r->oc;
    const float *a     = w->at->floats, *an = a + oc;
    float       *table = qg__onnx_take(&w->m, 3 * (size_t)oc * sizeof *table);
    int32_t     *row   = qg__onnx_take(&w->m, (size_t)oc * sizeof *row);
    for (int o = 0; o < oc && table && row; o++) {
        table[3 * o] = -an[o], table[3 * o + 1] = 0.0f, table[3 * o + 2] = a[o];
        row[o] = 3 * o;
    }
    const storage s     = { .type = QG__UINT8, .lowest = -1, .step = 1 };
    const tensor  codes = cast(w, stored_weights(w, p, s, 0, p->channels), QG__INT32);
    const tensor  place = binary(w, "Add", codes, constant(w, "row", QG__INT32, p->dense ? 2 : 4, oc, row));
    return binary(w, "Gather", constant(w, "factors", QG__FLOAT, 1, 3 * (int64_t)oc, table), place);
}

static tensor multiply(writer *w, const product *p, tensor x, tensor y)
{
    const tensor z = binary(w, p->dense ? "Gemm" : "Conv", x, y);
    if (p->dense) {
        qg__onnx_integer(&w->m, "transB", 1);
        return z;
    }
    put_windows(w, p->r->pad != 0);
    qg__onnx_integer(&w->m, "group", p->r->groups);
    return z;
}

/* x as the operator reads it. */
static tensor operand(writer *w, const product *p, tensor x)
{
    if (p->dense) return is_pixel(p->r->h, p->r->w) ? x : flat(w, x);
    x = as_image(w, x, p->r);
    return p->r->pad != 0 ? pad_with(w, x, p->r->pad) : x;
}

/* Channels first .. end - 1 of each group. */
static tensor some_channels(writer *w, const product *p, tensor x, int first, int end)
{
    const size_t n     = (size_t)p->r->groups * (size_t)(end - first);
    int64_t     *index = qg__onnx_take(&w->m, n * sizeof *index), *to = index;
    for (int g = 0; g < p->r->groups && index; g++)
        for (int c = first; c < end; c++) *to++ = (int64_t)g * p->channels + c;
    const tensor y = binary(w, "Gather", x, integers(w, "channels", (int)n, index));
    qg__onnx_integer(&w->m, "axis", 1);
    return y;
}

/* acc, or both of them.  If sums of codes could leave the integers that floats have, sums of some channels
 * are added as integers. */
static void accumulate(writer *w, const product *p, tensor x, tensor acc[2])
{
    const int sides = p->r->two_sided ? 2 : 1;
    double   *sum   = qg__onnx_take(&w->m, (size_t)p->r->oc * sizeof *sum);
    bool      whole = true;
    for (int first = 0, end; first < p->channels && sum; first = end) {
        end   = p->reach ? exact_end(p, first, sum) : p->channels;
        whole = whole && end == p->channels;
        if (end == first) {
            w->m.status = qg_fail(QG_EARG,
                                  "%s: the sums of one of its channels may exceed 2^24, which ONNX files "
                                  "cannot express", w->at->name);
            return;
        }
        const tensor own = whole ? x : some_channels(w, p, x, first, end), all = weights(w, p, first, end);
        for (int side = 0; side < sides; side++) {
            tensor y = side ? unary(w, "Neg", all) : all;
            y        = multiply(w, p, own, sides == 1 ? y : unary(w, "Relu", y));
            if (!whole) y = cast(w, y, QG__INT32);
            acc[side] = first ? binary(w, "Add", acc[side], y) : y;
        }
    }
    for (int side = 0; side < sides && !whole; side++) acc[side] = cast(w, acc[side], QG__FLOAT);
}

static tensor scaled_product(writer *w, const product *p, tensor x)
{
    const float *a = w->at->floats, *an = a + p->r->oc, *b = p->r->two_sided ? an + p->r->oc : an;
    tensor       acc[2] = { "", "" };
    if (p->r->two_sided && !p->reach) {
        const tensor z = multiply(w, p, x, looked_up_weights(w, p));
        return by_channel(w, "Add", p->dense ? z : from_image(w, z), "offsets", b, 0.0f);
    }
    accumulate(w, p, x, acc);
    if (w->m.status) return "";
    for (int side = 0; side <= p->r->two_sided; side++) {
        if (!p->dense) acc[side] = from_image(w, acc[side]);
        acc[side] = by_channel(w, "Mul", acc[side], "factors", side ? an : a, 1.0f);
    }
    if (p->r->two_sided) acc[0] = binary(w, "Sub", acc[0], acc[1]);
    return by_channel(w, "Add", acc[0], "offsets", b, 0.0f);
}

static tensor product_record(writer *w, tensor x)
{
    const qg__packed_step *r         = &w->at->r;
    const product          p         = product_of(w);
    const float           *threshold = w->at->floats + qg__step_own_floats(r);
    tensor                 z         = scaled_product(w, &p, operand(w, &p, x));
    /* Where 0 has the lowest code, so do all numbers below it. */
    if (r->relu && !(r->q_count > 1 && threshold[0] > 0)) z = unary(w, "Relu", z);
    return r->q_count ? quantize(w, z, threshold) : z;
}

/* --- other records ------------------------------------------------------------------------------ */

/* XNOR-Net's K. */
static tensor mean_abs(writer *w, tensor x)
{
    x = unary(w, "ReduceMean", unary(w, "Abs", as_image(w, x, &w->at->r)));
    qg__onnx_integers(&w->m, "axes", 1, (const int64_t[]){ 1 });
    x = unary(w, "AveragePool", x);
    put_windows(w, false);
    qg__onnx_integer(&w->m, "count_include_pad", 1);
    return from_image(w, x);
}

/* In double, rounded once. */
static tensor smooth(writer *w, tensor x)
{
    const tensor y = unary(w, w->at->r.kind == QG__TANH ? "Tanh" : "Sigmoid", cast(w, x, QG__DOUBLE));
    return cast(w, y, QG__FLOAT);
}

static tensor relu(writer *w, tensor x) { return unary(w, "Relu", x); }
static tensor quantize_record(writer *w, tensor x) { return quantize(w, x, w->at->floats); }

static tensor prelu(writer *w, tensor x)
{
    const qg__packed_step *r     = &w->at->r;
    const float           *slope = w->at->floats, *before = NULL, *after = NULL;
    if (r->kind == QG__RPRELU) before = slope, slope = before + r->c, after = slope + r->c;
    if (before) x = by_channel(w, "Sub", x, "before", before, 0.0f);
    x = by_channel(w, "PRelu", x, "slope", slope, NAN);
    return after ? by_channel(w, "Add", x, "after", after, 0.0f) : x;
}

static tensor clip(writer *w, tensor x)
{
    const tensor lo = number(w, "lo", w->at->floats[0]);
    return ternary(w, "Clip", x, lo, number(w, "hi", w->at->floats[1]));
}

/* Every stride-th pixel, with new channels of 0. */
static tensor shortcut(writer *w, tensor x)
{
    const qg__packed_step *r     = &w->at->r;
    const int64_t          first = (r->oc - r->c) / 2, rest = r->oc - r->c - first;
    const bool             pixel = is_pixel(r->oh, r->ow);
    if (r->stride > 1 && !is_pixel(r->h, r->w)) {
        const tensor starts = integers(w, "starts", 2, (const int64_t[]){ 0, 0 });
        const tensor ends   = integers(w, "ends", 2, (const int64_t[]){ r->h, r->w });
        const tensor axes   = integers(w, "axes", 2, (const int64_t[]){ 2, 3 });
        const tensor steps  = integers(w, "steps", 2, (const int64_t[]){ r->stride, r->stride });
        x = from_image(w, qg__onnx_node(&w->m, "Slice", 5, (const tensor[]){ x, starts, ends, axes, steps }));
    }
    if (r->oc == r->c) return x;
    const int64_t of_pixel[] = { 0, first, 0, rest }, of_image[] = { 0, first, 0, 0, 0, rest, 0, 0 };
    return binary(w, "Pad", x, pixel ? integers(w, "pads", 4, of_pixel) : integers(w, "pads", 8, of_image));
}

static tensor concat(writer *w, tensor x, tensor z)
{
    const tensor y = binary(w, "Concat", x, z);
    qg__onnx_integer(&w->m, "axis", 1);
    return y;
}

static tensor affine(writer *w, tensor x)
{
    const float *a = w->at->floats;
    x = by_channel(w, "Mul", x, "factors", a, 1.0f);
    return by_channel(w, "Add", x, "offsets", a + w->at->r.oc, 0.0f);
}

static tensor record(writer *w)
{
    const qg__packed_step *r = &w->at->r;
    const tensor           x = w->value[r->x], z = r->z >= 0 ? w->value[r->z] : "";
    static tensor (*const writers[QG__KINDS])(writer *, tensor) = {
        [QG__PRODUCT]  = product_record, [QG__AFFINE]  = affine, [QG__QUANTIZE] = quantize_record,
        [QG__MAXPOOL]  = pool,           [QG__AVGPOOL] = pool,   [QG__RELU]     = relu,
        [QG__CLIP]     = clip,           [QG__SIGMOID] = smooth, [QG__TANH]     = smooth,
        [QG__PRELU]    = prelu,          [QG__RPRELU]  = prelu,  [QG__SHORTCUT] = shortcut,
        [QG__MEAN_ABS] = mean_abs,
    };
    if (writers[r->kind]) return writers[r->kind](w, x);
    if (r->kind == QG__CONCAT) return concat(w, x, z);
    return binary(w, r->kind == QG__ADD ? "Add" : "Mul", x, z);
}

/* --- the model ---------------------------------------------------------------------------------- */

static const char input_name[] = "image", output_name[] = "scores";

/* The means or deviations: one number, one per channel or one per value. */
static tensor statistics(writer *w, const char *what, const qg_net *net, qg_export_spec spec, const float *x)
{
    const size_t  c = (size_t)net->spec.channels, n = (size_t)spec.numbers, pixels = n / c;
    const bool    each   = pixels > 1;
    const int64_t dims[] = { (int64_t)c, each ? net->spec.height : 1, each ? net->spec.width : 1 };
    float        *to     = qg__onnx_take(&w->m, n * sizeof *to);
    if (n == 1) return number(w, what, *x);
    for (size_t i = 0; i < n && to; i++) to[i] = x[i % pixels * c + i / pixels];
    return qg__onnx_constant(&w->m, what, QG__FLOAT, 3, dims, to);
}

/* (byte / 255 - mean) / deviation, each operation rounded, in the layout of ONNX. */
static tensor normalised_image(writer *w, const qg_net *net, qg_export_spec spec)
{
    tensor x = input_name;
    if (!spec.nchw && !spec.floats_only) {
        x = unary(w, "Transpose", x);
        qg__onnx_integers(&w->m, "perm", 4, (const int64_t[]){ 0, 3, 1, 2 });
        x = cast(w, x, QG__FLOAT);
        x = binary(w, "Div", x, number(w, "most", 255.0f));
    }
    if (!all_are((size_t)spec.numbers, spec.mean, 0.0f))
        x = binary(w, "Sub", x, statistics(w, "mean", net, spec, spec.mean));
    if (!all_are((size_t)spec.numbers, spec.deviation, 1.0f))
        x = binary(w, "Div", x, statistics(w, "deviation", net, spec, spec.deviation));
    return is_pixel(net->spec.height, net->spec.width) ? flat(w, x) : x;
}

/* A row of scores for each image, in the order h, w, c. */
static void put_result(writer *w)
{
    const qg__packed_step *r = &w->records->record[w->records->count - 1].r;
    tensor                 y = w->value[w->records->count];
    if (!is_pixel(r->oh, r->ow)) {
        y = unary(w, "Transpose", y);
        qg__onnx_integers(&w->m, "perm", 4, (const int64_t[]){ 0, 2, 3, 1 });
        flat(w, y);
    } else if (!w->m.node || w->m.newest != y) {
        unary(w, "Identity", y);
    }
}

static void put_graph(writer *w, const qg_net *net, qg_export_spec spec)
{
    const int64_t h = net->spec.height, wide = net->spec.width, c = net->spec.channels;
    const int     count = w->records->count;
    w->m.part   = input_name;
    w->value[0] = normalised_image(w, net, spec);
    for (int i = 0; i < count && !w->m.status; i++) {
        w->at           = &w->records->record[i];
        w->m.part       = w->at->name;
        w->value[i + 1] = record(w);
    }
    if (w->m.status) return;
    put_result(w);
    const qg__packed_step *r     = &w->at->r;
    const int64_t          row   = (int64_t)r->oh * r->ow * r->oc;
    const qg__onnx_end     bytes = { input_name, QG__UINT8, 4, { 0, h, wide, c } };
    const qg__onnx_end     reals = { input_name, QG__FLOAT, 4, { 0, c, h, wide } };
    qg__onnx_finish(&w->m, spec.nchw || spec.floats_only ? reals : bytes,
                    (qg__onnx_end){ output_name, QG__FLOAT, 2, { 0, row } });
}

qg_status qg__write_onnx(const qg_net *net, const qg__records *s, qg_export_spec spec, unsigned char **file,
                         size_t *bytes)
{
    writer w = { .records = s };
    w.value  = qg__onnx_take(&w.m, ((size_t)s->count + 1) * sizeof *w.value);
    qg__onnx_begin(&w.m, spec.notes, spec.note);
    if (w.value) put_graph(&w, net, spec);
    qg__arena_release(&w.m.arena);
    if (w.m.status) free(w.m.bytes);
    else *file = w.m.bytes, *bytes = w.m.n;
    return w.m.status;
}
