#include "layers/export/c_program.h"

#define MAX_POOL \
    "static void max_pool$n(const layer *l, const $x *x, $x *y)\n" \
        "{\n" \
        "    for (int i = 0; i < l->oh; i++)\n" \
        "        for (int j = 0; j < l->ow; j++)\n" \
        "            for (int k = 0; k < l->c; k++) {\n" \
    "                const int top = i * l->stride - l->top, left = j * l->stride - l->left;\n" \
        "                $x best = 0;\n" \
        "                int n = 0;\n" \
        "                for (int p = top; p < top + l->kh; p++)\n" \
        "                    for (int q = left; q < left + l->kw; q++) {\n" \
        "                        if (p < 0 || p >= l->h || q < 0 || q >= l->w) continue;\n" \
        "                        const $x v = x[(p * l->w + q) * l->c + k];\n" \
        "                        if (!n++ || v > best) best = v;\n" \
        "                    }\n" \
        "                *y++ = best;\n" \
        "            }\n" \
        "}\n"

const char *const qg__c_parts[QG__C_PARTS] = {
    [QG__C_ROUNDED] =
        "/* x as a float: compilers fuse no product with the sum that follows, whatever their flags. */\n"
        "static float rounded(float x)\n"
        "{\n"
        "    volatile float y = x;\n"
        "    return y;\n"
        "}\n",

    [QG__C_FUSED_SUM] =
        "/* a b + c, rounded once.  The product is exact in double.  If the sum is not, its last bit\n"
        " * becomes odd: then it is rounded to float as the exact sum would be. */\n"
        "static float fused(float a, float b, float c)\n"
        "{\n"
        "#ifdef __FP_FAST_FMAF\n"
        "    return __builtin_fmaf(a, b, c);\n"
        "#else\n"
        "    union { double value; uint64_t bits; } sum;\n"
        "    const double p = (double)a * b, s = p + c, t = s - p, error = (p - (s - t)) + (c - t);\n"
        "    sum.value = s;\n"
        "    if (error != 0 && !(sum.bits & 1)) sum.bits += (error > 0) == (s > 0) ? 1 : (uint64_t)-1;\n"
        "    return (float)sum.value;\n"
        "#endif\n"
        "}\n",

    [QG__C_LAYER] =
        "/* A convolution; a dense layer, which is a convolution with one window; a pool; a quantizer.\n"
        " * Numbers of arrays are in brackets. */\n"
        "typedef struct layer {\n"
        "    int h, w, c, oh, ow, oc;            /* input [h][w][c], output [oh][ow][oc] */\n"
        "    int kh, kw, stride, top, left;      /* windows; rows and columns of padding before it */\n"
        "\n"
        "    /* Products.  Each output is the largest of pool x pool results. */\n"
        "    int groups, pool;\n"
        "    int x_lowest;                       /* a code is stored as code - x_lowest */\n"
        "    int pad;                            /* what is outside of the input, */\n"
        "    float pad_float;                    /* of floats */\n"
        "    int bits, lowest, step;             /* weights are lowest + step u, and u has so many bits */\n"
        "    int zeros, sides;                   /* rows begin with a zero point; positive and negative\n"
        "                                           weights have sums of their own */\n"
        "    const uint8_t *weights;             /* [oc][kh][kw][c / groups], low bits first, in bytes */\n"
        "    const float *numbers;               /* the same of float weights */\n"
        "\n"
        "    /* Results z = a sum + b, or a sum - an negative + b [oc] each, then max(z, 0) with relu. */\n"
        "    const float *a, *an, *b;\n"
        "    int relu;\n"
        "\n"
        "    /* A number that reaches u thresholds has code u + first, which is stored times code_step. */\n"
        "    int thresholds, first, code_step;\n"
        "    const float *threshold, *level;     /* of floats; the floats that stand for codes */\n"
        "    const int32_t *least;               /* of sums [oc][thresholds] */\n"
        "    const int8_t *falls;                /* [oc]: or of -1 - sum, if 1 */\n"
        "    const int64_t *slope, *start;       /* [oc]: or u is (slope sum + start) >> shift, */\n"
        "    const uint8_t *shift;\n"
        "    const uint16_t *odd;                /* [oc + 1]: but odd_sum[odd[o] .. odd[o + 1] - 1] */\n"
        "    const int32_t *odd_sum;\n"
        "    const uint8_t *odd_code;            /* have these */\n"
        "} layer;\n",

    [QG__C_FIND] =
        "/* How many thresholds x reaches, plus those that every number reaches. */\n"
        "static int find(const layer *l, float x)\n"
        "{\n"
        "    int low = 0, high = l->thresholds;\n"
        "    while (low < high) {\n"
        "        const int middle = (low + high) / 2;\n"
        "        if (x >= l->threshold[middle]) low = middle + 1;\n"
        "        else high = middle;\n"
        "    }\n"
        "    return l->first + low;\n"
        "}\n",

    [QG__C_TAPS] =
        "/* Weights of an output. */\n"
        "static int taps(const layer *l) { return l->kh * l->kw * (l->c / l->groups); }\n",

    [QG__C_UNPACK] =
        "/* The weights of output o, in the order of its windows. */\n"
        "static const weight *unpack(const layer *l, int o)\n"
        "{\n"
        "    static weight row[ROW];\n"
        "    const int      n = taps(l);\n"
        "    const size_t   bytes = ((size_t)(n + l->zeros) * (size_t)l->bits + 7) / 8;\n"
        "    const uint8_t *at = l->weights + (size_t)o * bytes;\n"
        "    uint32_t       held = 0;\n"
        "    int            bits = 0, zero = 0;\n"
        "    for (int k = -l->zeros; k < n; k++) {\n"
        "        for (; bits < l->bits; bits += 8) held |= (uint32_t)*at++ << bits;\n"
        "        const int w = l->lowest + l->step * (int)(held & ((1u << l->bits) - 1));\n"
        "        held >>= l->bits;\n"
        "        bits -= l->bits;\n"
        "        if (k < 0) zero = w;\n"
        "        else row[k] = (weight)(l->sides ? w > 0 : w - zero);\n"
        "        if (l->sides) row[n + k] = w < 0;\n"
        "    }\n"
        "    return row;\n"
        "}\n",

    [QG__C_CODE_OF_SUM] =
        "static uint8_t code_of_sum(const layer *l, int o, int32_t sum)\n"
        "{\n"
        "    const int32_t *least = l->least + (size_t)o * (size_t)l->thresholds;\n"
        "    int            u = 0;\n"
        "    if (l->falls && l->falls[o]) sum = -1 - sum;\n"
        "    while (u < l->thresholds && sum >= least[u]) u++;\n"
        "    return (uint8_t)(l->code_step * (l->first + u));\n"
        "}\n",

    [QG__C_CODE_ON_LINE] =
        "static uint8_t code_on_line(const layer *l, int o, int32_t sum)\n"
        "{\n"
        "    const int64_t scaled = l->slope[o] * sum + l->start[o];\n"
        "    const int64_t line = scaled < 0 ? 0 : scaled >> l->shift[o];\n"
        "    int           u = line > l->thresholds ? l->thresholds : (int)line;\n"
        "    for (int i = l->odd[o]; i < l->odd[o + 1]; i++)\n"
        "        if (l->odd_sum[i] == sum) u = l->odd_code[i];\n"
        "    return (uint8_t)(l->code_step * (l->first + u));\n"
        "}\n",

    [QG__C_SCALED] =
        "static float scaled(const layer *l, int o, float sum)\n"
        "{\n"
        "    const float z = rounded(rounded(l->a[o] * rounded(sum)) + l->b[o]);\n"
        "    return l->relu && z < 0 ? 0 : z;\n"
        "}\n",

    [QG__C_SCALED_SIDES] =
        "static float scaled_sides(const layer *l, int o, float sum, float negative)\n"
        "{\n"
        "    const float p = rounded(l->a[o] * rounded(sum)), n = rounded(l->an[o] * rounded(negative));\n"
        "    const float z = rounded(rounded(p - n) + l->b[o]);\n"
        "    return l->relu && z < 0 ? 0 : z;\n"
        "}\n",

    [QG__C_NORMALISE] =
        "/* Means and deviations of m numbers, which repeat. */\n"
        "static void normalise(int n, int m, const float *mean, const float *deviation,\n"
        "                      const uint8_t *image, float *x)\n"
        "{\n"
        "    for (int i = 0; i < n; i++) {\n"
        "        const float centred = rounded(rounded((float)image[i] / 255.0f) - mean[i % m]);\n"
        "        x[i] = rounded(centred / deviation[i % m]);\n"
        "    }\n"
        "}\n",

    [QG__C_LOOK_UP] =
        "/* The codes of bytes, by a table for each channel. */\n"
        "static void look_up(int n, int c, const uint8_t *table, const uint8_t *image, uint8_t *y)\n"
        "{\n"
        "    for (int i = 0; i < n; i++) y[i] = table[i % c * 256 + image[i]];\n"
        "}\n",

    [QG__C_QUANTIZE] =
        "static void quantize(const layer *l, int n, const float *x, uint8_t *y)\n"
        "{\n"
        "    for (int i = 0; i < n; i++) y[i] = (uint8_t)(l->code_step * find(l, x[i]));\n"
        "}\n",

    [QG__C_QUANTIZE_FLOATS] =
        "/* The numbers that stand for the codes. */\n"
        "static void quantize_floats(const layer *l, int n, const float *x, float *y)\n"
        "{\n"
        "    for (int i = 0; i < n; i++) y[i] = l->level[find(l, x[i])];\n"
        "}\n",

    [QG__C_AFFINE] =
        "static void affine(int n, int c, const float *a, const float *b, const float *x, float *y)\n"
        "{\n"
        "    for (int i = 0; i < n; i++) y[i] = rounded(rounded(a[i % c] * x[i]) + b[i % c]);\n"
        "}\n",

    [QG__C_RELU] =
        "static void relu(int n, const float *x, float *y)\n"
        "{\n"
        "    for (int i = 0; i < n; i++) y[i] = x[i] < 0 ? 0 : x[i];\n"
        "}\n",

    [QG__C_CLIP] =
        "static void clip(int n, float lo, float hi, const float *x, float *y)\n"
        "{\n"
        "    for (int i = 0; i < n; i++) y[i] = x[i] > hi ? hi : x[i] < lo ? lo : x[i];\n"
        "}\n",

    /* core/kernels/functions.h */
    [QG__C_EXP] =
        "/* Doubles, which compilers do not fuse. */\n"
        "static double times(double a, double b)\n"
        "{\n"
        "    volatile double y = a * b;\n"
        "    return y;\n"
        "}\n"
        "\n"
        "typedef struct pair { double high, low; } pair;         /* high + low */\n"
        "\n"
        "static double power_of_2(double k)\n"
        "{\n"
        "    union { double value; uint64_t bits; } y;\n"
        "    y.bits = (uint64_t)((int)k + 1023) << 52;\n"
        "    return y.value;\n"
        "}\n"
        "\n"
        "static double nearest(double x) { return (x + 0x1.8p52) - 0x1.8p52; }\n"
        "\n"
        "/* e^x = 2^k (1 + result). */\n"
        "static pair exp_reduced(double x, double *k)\n"
        "{\n"
        "    static const double c[] = { 1.0 / 87178291200, 1.0 / 6227020800, 1.0 / 479001600,\n"
        "                                1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,\n"
        "                                1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 1.0 / 2 };\n"
        "    *k = nearest(times(x, 0x1.71547652b82fep+0));\n"
        "    const double a = x - times(*k, 0x1.62e42feep-1), b = 0 - times(*k, 0x1.a39ef35793c76p-33);\n"
        "    const double r = a + b, rest = (a - r) + b;\n"
        "    double       p = c[0];\n"
        "    for (int i = 1; i < 13; i++) p = times(p, r) + c[i];\n"
        "    const double tail = times(times(r, r), p) + rest, sum = r + tail;\n"
        "    const pair   y = { sum, (r - sum) + tail };\n"
        "    return y;\n"
        "}\n",

    [QG__C_SIGMOID] =
        "static void sigmoid(int n, const float *x, float *y)\n"
        "{\n"
        "    for (int i = 0; i < n; i++) {\n"
        "        double       k;\n"
        "        const double v = x[i] > 746 ? -746 : x[i] < -710 ? 710 : -(double)x[i];\n"
        "        const double e = exp_reduced(v, &k).high, half = nearest(0.5 * k);\n"
        "        y[i] = (float)(1 / (1 + times(times(1 + e, power_of_2(half)), power_of_2(k - half))));\n"
        "    }\n"
        "}\n",

    [QG__C_TANH] =
        "static pair two_sum(double a, double b)\n"
        "{\n"
        "    const double s = a + b, t = s - a;\n"
        "    const pair   y = { s, (a - (s - t)) + (b - t) };\n"
        "    return y;\n"
        "}\n"
        "\n"
        "/* With e = e^(2 x) - 1, tanh x = e / (e + 2), of pairs. */\n"
        "static double tanh_of(double x)\n"
        "{\n"
        "    double       k;\n"
        "    const pair   r = exp_reduced(2 * (x > 19.0625 ? 19.0625 : x), &k);\n"
        "    const double power = power_of_2(k);\n"
        "    const pair   s = two_sum(power - 1, times(power, r.high));\n"
        "    const pair   u = two_sum(s.high, times(power, r.low));\n"
        "    const pair   e = two_sum(u.high, u.low + (s.low + 0)), d = two_sum(e.high, 2);\n"
        "    const double low = d.low + e.low, q = e.high / d.high, p = times(q, d.high);\n"
        "    const double split = 0x1p27 + 1, sa = times(q, split), sb = times(d.high, split);\n"
        "    const double ah = sa - (sa - q), al = q - ah, bh = sb - (sb - d.high), bl = d.high - bh;\n"
        "    const double error = times(al, bl) - (((p - times(ah, bh)) - times(al, bh)) - times(ah, bl));\n"
        "    return two_sum(q, (((e.high - p) - error) + (e.low - times(q, low))) / d.high).high;\n"
        "}\n"
        "\n"
        "static void tanh_of_all(int n, const float *x, float *y)\n"
        "{\n"
        "    for (int i = 0; i < n; i++)\n"
        "        y[i] = x[i] < 0 ? -(float)tanh_of(-(double)x[i]) : x[i] > 0 ? (float)tanh_of(x[i]) : x[i];\n"
        "}\n",

    [QG__C_PRELU] =
        "/* y = (u > 0 ? u : a u) + after, u = x - before */\n"
        "static void prelu(int n, int c, const float *before, const float *a, const float *after,\n"
        "                  const float *x, float *y)\n"
        "{\n"
        "    for (int i = 0; i < n; i++) {\n"
        "        const float u = before ? x[i] - before[i % c] : x[i];\n"
        "        const float v = u > 0 ? u : rounded(a[i % c] * u);\n"
        "        y[i] = after ? v + after[i % c] : v;\n"
        "    }\n"
        "}\n",

    [QG__C_ADD] =
        "static void add(int n, const float *x, const float *z, float *y)\n"
        "{\n"
        "    for (int i = 0; i < n; i++) y[i] = x[i] + z[i];\n"
        "}\n",

    [QG__C_MULTIPLY] =
        "/* z has one channel. */\n"
        "static void multiply(int n, int c, const float *x, const float *z, float *y)\n"
        "{\n"
        "    for (int i = 0; i < n; i++) y[i] = x[i] * z[i / c];\n"
        "}\n",

    [QG__C_CONCAT] =
        "/* The c channels of x, then those of z, which make oc. */\n"
        "static void concat(int pixels, int c, int oc, const float *x, const float *z, float *y)\n"
        "{\n"
        "    for (int i = 0; i < pixels; i++)\n"
        "        for (int k = 0; k < oc; k++) *y++ = k < c ? x[i * c + k] : z[i * (oc - c) + k - c];\n"
        "}\n",

    [QG__C_SHORTCUT] =
        "/* Every stride-th pixel; half of the new channels come before the others. */\n"
        "static void shortcut(const layer *l, const float *x, float *y)\n"
        "{\n"
        "    const int first = (l->oc - l->c) / 2;\n"
        "    for (int i = 0; i < l->oh; i++)\n"
        "        for (int j = 0; j < l->ow; j++)\n"
        "            for (int k = -first; k < l->oc - first; k++)\n"
        "                *y++ = k < 0 || k >= l->c ? 0 : x[(i * l->w + j) * l->stride * l->c + k];\n"
        "}\n",

    [QG__C_MAX_POOL_CODES] = MAX_POOL,
    [QG__C_MAX_POOL] = MAX_POOL,

    [QG__C_AVERAGE_POOL] =
        "/* Of the pixels of a window, or of those inside the input.  Sums of more than 1024 have parts. */\n"
        "static void average_pool(const layer *l, int inside_only, const float *x, float *y)\n"
        "{\n"
        "    for (int i = 0; i < l->oh; i++)\n"
        "        for (int j = 0; j < l->ow; j++)\n"
        "            for (int k = 0; k < l->c; k++) {\n"
        "                const int top = i * l->stride - l->top, left = j * l->stride - l->left;\n"
        "                float all = 0, part = 0;\n"
        "                int   n = 0;\n"
        "                for (int p = top; p < top + l->kh; p++)\n"
        "                    for (int q = left; q < left + l->kw; q++) {\n"
        "                        if (p < 0 || p >= l->h || q < 0 || q >= l->w) continue;\n"
        "                        part += x[(p * l->w + q) * l->c + k];\n"
        "                        if (++n % 1024) continue;\n"
        "                        all += part;\n"
        "                        part = 0;\n"
        "                    }\n"
        "                all += part;\n"
        "                *y++ = all / (float)(inside_only ? n : l->kh * l->kw);\n"
        "            }\n"
        "}\n",

    [QG__C_MEAN_ABS] =
        "/* The sum of |x| over the channels of a pixel, in eight running sums. */\n"
        "static double sum_of_abs(int c, const float *x)\n"
        "{\n"
        "    double lane[8] = { 0 };\n"
        "    for (int k = 0; k < c; k++) lane[k % 8] += x[k] < 0 ? -(double)x[k] : (double)x[k];\n"
        "    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) +\n"
        "           ((lane[2] + lane[6]) + (lane[3] + lane[7]));\n"
        "}\n"
        "\n"
        "/* The mean of |x| over each window, column by column; padding is 0, and counts. */\n"
        "static void mean_abs(const layer *l, const float *x, float *y)\n"
        "{\n"
        "    for (int i = 0; i < l->oh; i++)\n"
        "        for (int j = 0; j < l->ow; j++) {\n"
        "            const int top = i * l->stride - l->top, left = j * l->stride - l->left;\n"
        "            double    sum = 0;\n"
        "            for (int q = left; q < left + l->kw; q++) {\n"
        "                double column = 0;\n"
        "                for (int p = top; p < top + l->kh; p++)\n"
        "                    if (p >= 0 && p < l->h && q >= 0 && q < l->w)\n"
        "                        column += sum_of_abs(l->c, x + (p * l->w + q) * l->c);\n"
        "                sum += column;\n"
        "            }\n"
        "            *y++ = (float)(sum / ((double)l->c * l->kh * l->kw));\n"
        "        }\n"
        "}\n",

    [QG__C_LARGEST] =
        "/* The number of the first of the highest scores. */\n"
        "static int largest(int n, const float *scores)\n"
        "{\n"
        "    int best = 0;\n"
        "    for (int i = 1; i < n; i++)\n"
        "        if (scores[i] > scores[best]) best = i;\n"
        "    return best;\n"
        "}\n",
};

const char qg__c_sum[] =
    "/* The sum of weights times the numbers in the window of result i, j; x begins with the group. */\n"
    "static $t sum_of_$i(const layer *l, const $w *w, const $x *x, int i, int j)\n"
    "{\n"
    "    const int c = l->c / l->groups, top = i * l->stride - l->top, left = j * l->stride - l->left;\n"
    "    $t sum = 0;\n"
    "    for (int r = top; r < top + l->kh; r++)\n"
    "        for (int q = left; q < left + l->kw; q++, w += c) {\n"
    "            if (r >= 0 && r < l->h && q >= 0 && q < l->w) {\n"
    "                const $x *v = x + (r * l->w + q) * l->c;\n"
    "                for (int k = 0; k < c; k++) $a;\n"
    "            } else if ($p != 0) {\n"
    "                for (int k = 0; k < c; k++) $b;\n"
    "            }\n"
    "        }\n"
    "    return sum;\n"
    "}\n";

const char qg__c_product[] =
    "static void $n(const layer *l, const $x *x, $y *y)\n"
    "{\n"
    "    for (int o = 0; o < l->oc; o++) {\n"
    "        const $w *w = $r;\n"
    "        const $x *own = x + o / (l->oc / l->groups) * (l->c / l->groups);\n"
    "        for (int i = 0; i < l->oh; i++)\n"
    "            for (int j = 0; j < l->ow; j++) {\n"
    "                $y best = 0;\n"
    "                for (int k = 0; k < l->pool * l->pool; k++) {\n"
    "                    const int top = i * l->pool + k / l->pool, left = j * l->pool + k % l->pool;\n"
    "                    const $t sum = sum_of_$i(l, w, own, top, left);\n"
    "$s"
    "                    const $y v = $v;\n"
    "                    if (k == 0 || v > best) best = v;\n"
    "                }\n"
    "                y[(i * l->ow + j) * l->oc + o] = best;\n"
    "            }\n"
    "    }\n"
    "}\n";

const char qg__c_main[] =
    "#ifdef NET_MAIN\n"
    "#include <stdio.h>\n"
    "\n"
    "/* The next number of the header of a PGM or PPM, which may have comments; -1: none. */\n"
    "static int number(FILE *f)\n"
    "{\n"
    "    int c = fgetc(f), n = -1;\n"
    "    for (; c == '#' || c == ' ' || c == '\\t' || c == '\\r' || c == '\\n'; c = fgetc(f))\n"
    "        if (c == '#') while (c != '\\n' && c != EOF) c = fgetc(f);\n"
    "    for (; c >= '0' && c <= '9' && n < 100000; c = fgetc(f)) n = (n < 0 ? 0 : 10 * n) + c - '0';\n"
    "    return n;\n"
    "}\n"
    "\n"
    "int main(int argc, char **argv)\n"
    "{\n"
    "    static uint8_t image[NET_HEIGHT * NET_WIDTH * NET_CHANNELS];\n"
    "    static float   scores[NET_SCORES];\n"
    "    FILE          *f = argc == 2 ? fopen(argv[1], \"rb\") : NULL;\n"
    "    const char    *fault = f ? \"is no binary $k of the size of the net, with 8 bits\" : \"cannot be read\";\n"
    "    if (f && fgetc(f) == 'P' && fgetc(f) == '$p' && number(f) == NET_WIDTH &&\n"
    "        number(f) == NET_HEIGHT && number(f) == 255)\n"
    "        fault = fread(image, 1, sizeof image, f) == sizeof image ? NULL : \"ends too early\";\n"
    "    if (f) fclose(f);\n"
    "    if (fault) {\n"
    "        if (argc == 2) fprintf(stderr, \"%s %s\\n\", argv[1], fault);\n"
    "        fprintf(stderr, \"usage: net FILE, a binary $k of %d x %d pixels\\n\", NET_WIDTH, NET_HEIGHT);\n"
    "        return 1;\n"
    "    }\n"
    "    printf(\"%s\\n\", net_names[net_predict(image, scores)]);\n"
    "    for (int i = 0; i < NET_SCORES; i++) printf(\"%.9g\\n\", (double)scores[i]);\n"
    "    return 0;\n"
    "}\n"
    "#endif\n";
