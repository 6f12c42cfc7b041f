/* How to simulate a convolution whose kernel has one range per output channel.
 *
 * tf.quantize and quantized_conv2d support one range per tensor.  In float, per-channel quantization takes
 * three calls:
 *   1. Fake-quantize the input with one range.
 *   2. Fake-quantize the kernel with one range -m..m for each output channel.  The range is narrow, so that
 *      0 is the middle code.  (fake_quant_with_min_max_vars_per_channel on HWIO; rows of [o][kh][kw][i]
 *      here.)
 *   3. Fake-quantize the result of an ordinary convolution with one range, since the next layer sums over
 *      its channels.
 * In integers it is one convolution of codes, and the sums of channel o are multiplied by
 * s_in s_w[o] / s_out.  Neither way takes 96 convolutions. */
#include <math.h>
#include <stdlib.h>

#include "qgrad.h"

/* Input 500x80x64x1, kernel 9x5x1x96, padding VALID. */
enum { N = 500, H = 80, W = 64, KH = 9, KW = 5, O = 96, OH = H - KH + 1, OW = W - KW + 1,
       BATCH = 4, K = KH * KW, N_X = BATCH * H * W, N_Y = BATCH * OH * OW * O };
enum { FLOAT, PER_TENSOR, PER_CHANNEL, KERNELS };
typedef struct memory {
    float   x[N_X], fake_x[N_X], w[KERNELS][O * K], y[KERNELS][N_Y], fake_y[N_Y], scale[O];
    double  error[KERNELS][O];                  /* sums of squares over all pixels */
    uint8_t x_code[N_X], w_code[O * K], y_code[N_Y], fake_y_code[N_Y];
    int32_t zero[O];
} memory;

static qg_status range(size_t n, const float *x, bool symmetric, qg_fake_quant_range *r)
{
    float lo = 0, hi = 0;
    for (size_t i = 0; i < n; i++) lo = fminf(lo, x[i]), hi = fmaxf(hi, x[i]);
    if (symmetric) hi = fmaxf(hi, -lo), lo = -hi;
    qg_fake_quant_attrs attrs = qg_fake_quant_defaults;         /* 8 bits */
    attrs.narrow_range        = symmetric;
    return qg_fake_quant_nudge(attrs, lo, hi, r);
}

/* A kernel whose channels differ by a factor of up to 256; the same kernel with one range, and with 96
 * ranges. */
static qg_status make_kernels(memory *m)
{
    qg_fake_quant_range r;
    for (size_t i = 0; i < O * K; i++)
        m->w[FLOAT][i] = exp2f(-8.0f * (float)(i / K) / O) * qg_normal(2, i);
    qg_status s = range(O * K, m->w[FLOAT], true, &r);
    if (!s) qg_fake_quant_divide(&r, O * K, m->w[FLOAT], m->w[PER_TENSOR]);
    for (size_t o = 0; o < O && !s; o++) {
        s = range(K, m->w[FLOAT] + o * K, true, &r);
        if (!s) qg_fake_quant_multiply(&r, K, m->w[FLOAT] + o * K, m->w[PER_CHANNEL] + o * K);
        if (!s) qg_fake_quant_codes(&r, K, m->w[PER_CHANNEL] + o * K, m->w_code + o * K);
        m->scale[o] = r.scale, m->zero[o] = r.zero_point;
    }
    return s;
}

/* Runs four images through the three kernels.  The quantized kernels read the quantized input. */
static qg_status simulate(memory *m, qg_tape *t, int batch, const qg_fake_quant_range *in)
{
    for (size_t i = 0; i < N_X; i++) m->x[i] = 1.5f * qg_uniform(1, (size_t)batch * N_X + i) - 0.5f;
    qg_fake_quant_divide(in, N_X, m->x, m->fake_x);
    for (int k = 0; k < KERNELS; k++) {
        qg_tape_begin(t, QG_EVAL, 0, 0);
        float  *from = k == FLOAT ? m->x : m->fake_x;
        qg_var *x    = qg_input(t, (qg_tensor){ .shape = { BATCH, H, W, 1 }, .data = from });
        qg_var *w    = qg_input(t, (qg_tensor){ .shape = { O, KH, KW, 1 }, .data = m->w[k] });
        qg_var *y = qg_conv2d(t, x, w, NULL, (qg_conv_spec){ 0 });
        for (int i = 0; y && i < N_Y; i++) {
            m->y[k][i]      = y->data[i];
            const float off = y->data[i] - (k == FLOAT ? 0 : m->y[FLOAT][i]);
            m->error[k][i % O] += (double)(off * off);      /* of FLOAT: of the signal itself */
        }
    }
    return qg_tape_status(t);
}

/* Compares the integer convolution of the last simulated images with step 3 of the simulation. */
static qg_status in_integers(memory *m, const qg_fake_quant_range *in, qg_requant_rounding rounding)
{
    qg_array x = { QG_U8, 4, { BATCH, H, W, 1 }, m->x_code }, w = { QG_U8, 4, { O, KH, KW, 1 }, m->w_code };
    qg_array y = { QG_U8, 4, { BATCH, OH, OW, O }, m->y_code };
    qg_array scale = { QG_F32, 1, { O }, m->scale }, zero = { QG_I32, 1, { O }, m->zero };
    qg_fake_quant_range out;
    if (range(N_Y, m->y[PER_CHANNEL], false, &out)) return QG_EARG;
    qg_fake_quant_codes(in, N_X, m->fake_x, m->x_code);
    qg_fake_quant_divide(&out, N_Y, m->y[PER_CHANNEL], m->fake_y);
    qg_fake_quant_codes(&out, N_Y, m->fake_y, m->fake_y_code);
    qg_status s = qg_conv2d_per_channel((qg_conv2d_per_channel_attrs){
            .strides = { 1, 1 }, .input_scale = in->scale, .input_zero_point = in->zero_point,
            .output_scale = out.scale, .output_zero_point = out.zero_point, .output_max = 255,
            .rounding = rounding }, &x, &w, &scale, &zero, NULL, &y);
    int    differ = 0, most = 0;
    double from_tie = 0;
    for (int i = 0; !s && i < N_Y; i++) {
        const int    off = abs(m->y_code[i] - m->fake_y_code[i]);
        const double v   = (double)m->y[PER_CHANNEL][i] / (double)out.scale;
        if (off)
            differ++, most = off > most ? off : most, from_tie = fmax(from_tie, fabs(v - floor(v) - 0.5));
    }
    if (!s) printf("  %s rounding: %d of %d codes differ, by %d at most, all within %.1e of a tie\n",
                   rounding == QG_SINGLE_ROUNDING ? "single" : "double", differ, N_Y, most, from_tie);
    return s;
}

int main(void)
{
    memory             *m = calloc(1, sizeof *m);
    qg_tape            *t = qg_tape_new();
    qg_fake_quant_range in;
    qg_status s = m && t ? qg_fake_quant_nudge(qg_fake_quant_defaults, -0.5f, 1, &in) : QG_EMEM;
    if (!s) s = make_kernels(m);
    for (int batch = 0; batch < N / BATCH && !s; batch++) s = simulate(m, t, batch, &in);
    if (s) return qg_print_error("per_channel");
    printf("%d images.  One pixel, and the rms error over all pixels relative to the rms of the channel:\n"
           "  channel       float  per tensor  per channel   per tensor  per channel\n", N);
    for (int o = 0, at = N_Y / 2; o < O; o += 19)
        printf("  %7d  %10.5f  %10.5f  %11.5f  %11.4f  %11.4f\n", o, (double)m->y[FLOAT][at + o],
               (double)m->y[PER_TENSOR][at + o], (double)m->y[PER_CHANNEL][at + o],
               sqrt(m->error[PER_TENSOR][o] / m->error[FLOAT][o]),
               sqrt(m->error[PER_CHANNEL][o] / m->error[FLOAT][o]));
    printf("The last %d of them in integers, against the fake-quantized result:\n", BATCH);
    if (in_integers(m, &in, QG_SINGLE_ROUNDING) || in_integers(m, &in, QG_DOUBLE_ROUNDING))
        return qg_print_error("per_channel");
    printf("Both sum the same codes, so only the last rounding can differ.  Single: float32 is not exact "
           "close\nto a tie.  Double (gemmlowp, TFLite): the first rounding, to 1/2^n of a code, creates "
           "ties.\n");
    return qg_tape_free(t), free(m), 0;
}
