/* Whether values are stored as bits or as bytes, and so which kernels compute the products that read them
 * (infer/product.h).  The sums are the same.  The faster way depends on the shape, the operands and the
 * machine, so it is estimated here.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "infer/net.h"

#define VARIABLE "QGRAD_PRODUCTS"

/* ns of a product of bits: for each pixel, and for each 8 channels of a plane of x; for each group of outputs
 * of a pixel, if it has one pass, else for the group and for each pass; and for each of its steps.  ns of a
 * product of bytes: for 1000 multiply-adds, of channels and outputs that are filled up, direct or by
 * Winograd's algorithm; for 1000 kernels that the latter transforms, as it does for an image alone; and for
 * each result.  Measured on a Zen 4 and on a Xeon with AMX, kernels on a Zen 3, with
 *
 *     QGRAD_PRODUCTS=bits qgrad bench packed --model 16C1-BN-32C3-10 --weight bnn --input sign --profile
 *
 * and with bytes, for several widths, kernels and numbers of bits.  The costs of bits are 5 % too high on
 * purpose, so that no product takes longer than that of the same shape with 8 bits. */
typedef struct costs {
    float pixel, packed, single, group, pair, step;
    int   filled_outputs, filled_channels;
    float direct, patched, transformed, result;
} costs;

static const costs costs_of[] = {
    [QG_ISA_BASELINE] = { 8.7f, 3.1f, 0.4f, 3.7f, 2.0f, 2.1f, 4, 2, 22.0f, 8.8f, 0.0f, 1.4f },
    [QG_ISA_AVX2]     = { 5.7f, 1.9f, 10.2f, 0.0f, 10.2f, 0.46f, 8, 2, 11.6f, 4.0f, 1500.0f, 0.53f },
    [QG_ISA_AVX512]   = { 4.7f, 0.8f, 0.4f, 3.4f, 1.2f, 0.92f, 16, 4, 3.9f, 3.9f, 0.0f, 0.25f },
};

static const costs *costs_here(qg_isa isa)
{
#if defined(__x86_64__)
    /* For each count of bits, these cores multiply twice as many bytes. */
    static const costs of_intel[] = {
        [QG_ISA_AVX2]   = { 8.5f, 1.1f, 10.0f, 0.0f, 8.7f, 0.49f, 8, 2, 11.1f, 5.2f, 1800.0f, 0.31f },
        [QG_ISA_AVX512] = { 0.7f, 0.0f, 3.2f, 6.5f, 1.1f, 0.85f, 16, 4, 2.1f, 2.1f, 0.0f, 0.14f },
    };
    if (isa != QG_ISA_BASELINE && __builtin_cpu_is("intel")) return &of_intel[isa];
#endif
    return &costs_of[isa];
}

/* ns that a value costs more as bits than as bytes, for each number: packing takes more instructions. */
static const float bits_of_value = 0.15f;

static float parts(int64_t n, int of) { return (float)((n + of - 1) / of); }

/* A gain of 1 or -1 that the environment asks for; 0: nothing. */
static float forced_gain(void)
{
    const char *text = getenv(VARIABLE);
    return !text ? 0 : !strcmp(text, "bits") ? -1 : !strcmp(text, "bytes") ? 1 : 0;
}

/* ns per image that bytes save a product of bits; forced: unless it is 0, what counts instead. */
static float gain_of(qg_isa isa, float forced, const qg__product *p)
{
    const costs *k = costs_here(isa);
    if (!qg__product_may_be_bytes(p)) return -INFINITY;
    if (forced != 0) return forced;
    /* Products with a channel per group read bytes, and would make them. */
    if (qg__product_is_depthwise(p)) return (float)qg__pixels(&p->g) * (float)p->g.c;
    const qg__bit_kernels  *kernels = QG_KERNELS_OF(isa, qg__bit_kernels);
    const qg__plain_product b       = qg__product_plain(p);
    const int               passes  = kernels->passes(&b);
    const float             groups  = (float)(p->groups * (p->two_sided ? 2 : 1));
    const float multiplied = (float)qg__taps(&b.g) * parts(b.g.oc, k->filled_outputs) *
                             parts(b.g.c, k->filled_channels) *
                             (float)(k->filled_outputs * k->filled_channels);
    const float group = passes == 1 ? k->single : k->group + (float)passes * k->pair;
    const bool  patched = qg__int8_may_save(&b.g, b.g.c, 1);
    const float weights = patched ? (float)b.g.c * (float)b.g.oc * k->transformed / 1000 : 0;
    const float pixel = k->pixel + groups * k->packed * parts(b.g.c, 8) * (float)b.xa.bits;
    const float bits  = groups * parts(b.g.oc, kernels->outputs) * (group + kernels->steps(&b) * k->step);
    const float bytes = groups * multiplied * (patched ? k->patched : k->direct) / 1000 +
                        (float)p->g.oc * k->result;
    return (float)qg__pixels(&b.g) * pixel + (float)qg__results(&b.g) * (bits - bytes) - groups * weights;
}

static qg__coding coding_of(const qg_infer *net, int value)
{
    return value ? (qg__coding)net->step[value - 1].r.coding : QG__AS_FLOATS;
}

static bool reads_bits(const qg__infer_step *s)
{
    return s->r.kind == QG__PRODUCT && qg__product_coding(&s->p) == QG__AS_BITS;
}

/* A value is stored once: its readers, and those of what is pooled from it, share one choice. */
void qg__choose(qg_infer *net)
{
    const float forced = forced_gain();
    for (int v = 0; v <= net->steps; v++) net->value[v].gain = 0;
    for (int i = net->steps - 1; i >= 0; i--) {
        const qg__infer_step *s    = &net->step[i];
        float                *gain = &net->value[s->r.x].gain;
        if (s->r.coding == QG__AS_BITS && forced == 0)
            net->value[i + 1].gain += bits_of_value * (float)s->r.oh * (float)s->r.ow * (float)s->r.oc;
        if (reads_bits(s)) *gain += gain_of(s->isa, forced, &s->p);
        else if (s->r.kind == QG__MAXPOOL) *gain += net->value[i + 1].gain;
    }
    for (int i = 0; i < net->steps; i++) {
        qg__infer_step *s = &net->step[i];
        if (reads_bits(s)) s->p.x_bytes = coding_of(net, s->r.x) == QG__AS_BYTES;
        if (s->r.coding != QG__AS_BITS) continue;
        if (s->r.kind == QG__MAXPOOL) s->r.coding = (int32_t)coding_of(net, s->r.x);
        else if (net->value[i + 1].gain > 0) s->r.coding = QG__AS_BYTES;
    }
}
