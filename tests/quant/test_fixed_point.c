/* The engine's fixed-point requantization against the operator of quant/reference/, and against evaluation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "infer/infer.h"
#include "infer/kernels/isa.h"
#include "infer/kernels/requantize.h"
#include "quant/reference/integer.h"
#include "tests/support/environment.h"
#include "tests/support/packed.h"
#include "tests/support/testing.h"

enum { LINE = 64 };

static void *lines(size_t bytes)
{
    void *p = aligned_alloc(LINE, (bytes / LINE + 1) * LINE);
    assert_non_null(p);
    return p;
}

/* --- the kernel ------------------------------------------------------------------------------------- */

static int32_t draw_sum(uint64_t i)
{
    static const int32_t ends[] = { 0, 1, -1, 2, -2, 6, -6, INT32_MAX, INT32_MIN, INT32_MIN + 1, 1 << 30, -(1 << 30) };
    const uint64_t bits = qg_bits(7, i);
    if (bits % 3 == 0) return ends[bits / 3 % (sizeof ends / sizeof *ends)];
    return (int32_t)(uint32_t)(bits >> 8) >> (bits % 32);
}

static void the_kernel_has_the_bits_of_the_operator(void **state)
{
    enum { C = 37, PIXELS = 50, RUNS = 40 };
    for (int path = 0; path <= (int)widest_path(); path++)
        for (uint64_t run = 0; run < RUNS; run++) {
            use_path(path);
            int32_t bias[C], fraction[C], shift[C], acc[PIXELS * C];
            uint8_t codes[PIXELS * C];
            for (uint64_t k = 0; k < C; k++) {
                qg_multiplier m;
                const int     power = (int)(qg_bits(run, k) % (run % 4 ? 20 : 120)) - (run % 4 ? 18 : 60);
                const double  value = ldexp((double)qg_uniform(run, 100 + k) - 0.5, power);
                assert_ok(qg_quantize_multiplier(k % 9 ? value : ldexp(k % 2 ? -1.0 : 1.0, -(int)k), &m));
                fraction[k] = m.fraction;
                shift[k]    = m.shift > 64 ? 64 : m.shift;
                bias[k]     = draw_sum(run * 1000 + k);
            }
            for (uint64_t i = 0; i < PIXELS * C; i++) acc[i] = draw_sum(run * 10000 + i);
            const qg__fixed_point f = { bias, fraction, shift, .zero = (int)(run % 200) - 20, .least = (int)(run % 50), .most = 255 - (int)(run % 30),
                                        .step = 1 };
            QG_INFER_KERNELS(qg__requantize_kernels)->fixed(&f, PIXELS, C, acc, codes);
            for (int i = 0; i < PIXELS * C; i++) {
                int64_t sum = (int64_t)acc[i] + bias[i % C];
                sum         = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
                int64_t u   = qg_multiply_by_quantized_multiplier((int32_t)sum, (qg_multiplier){ fraction[i % C], shift[i % C] }, QG_DOUBLE_ROUNDING);
                u += f.zero;
                u = u < f.least ? f.least : u > f.most ? f.most : u;
                assert_int_equal(codes[i], u);
            }
        }
}

/* --- nets ------------------------------------------------------------------------------------------- */

/* Codes of 8 bits, a dense product with codes of 8 bits as its value, and those codes as scores. */
typedef struct net {
    packed_step step[3];
    int         c, oc;
    float      *input, *product, *w, *output, *identity;
} net;

enum { CODES = 256, ZERO = 128 };

static float draw_float(uint64_t key, uint64_t i, float lo, float hi) { return lo + (hi - lo) * qg_uniform(key, i); }

/* Scales as a trained net has them. */
static void build(net *n, uint64_t key)
{
    const int c = 1 + (int)(key % 70), oc = 1 + (int)(key * 7 % 40);
    const float out_scale = draw_float(key, 0, 0.01f, 0.1f);
    const int   lowest = key % 3 ? -ZERO : key % 2 ? 0 : -77;
    *n = (net){ .c = c, .oc = oc };
    n->input    = malloc((CODES - 1) * sizeof(float));
    n->product  = malloc((2 * (size_t)oc + CODES - 1) * sizeof(float));
    n->w        = malloc((size_t)c * (size_t)oc * sizeof(float));
    n->output   = calloc(2 * (size_t)oc, sizeof(float));
    n->identity = calloc((size_t)oc * (size_t)oc, sizeof(float));
    assert_true(n->input && n->product && n->w && n->output && n->identity);
    for (int u = 1; u < CODES; u++) {
        n->input[u - 1] = (float)(u - ZERO) - 0.5f;
        n->product[2 * oc + u - 1] = ((float)(lowest + u) - 0.5f) * out_scale;
    }
    for (uint64_t i = 0; i < (uint64_t)(c * oc); i++) n->w[i] = (float)(int)(qg_bits(key, 1000 + i) % 255) - 127;
    for (int o = 0; o < oc; o++) {
        const float size = out_scale * 40 / (127 * 64 * sqrtf((float)c));
        n->product[o]      = draw_float(key, 2000 + (uint64_t)o, 0.2f, 1.0f) * size * (qg_bits(key, 3000 + (uint64_t)o) % 4 ? 1 : -1);
        n->product[oc + o] = draw_float(key, 4000 + (uint64_t)o, -60, 60) * out_scale;
        n->output[o]       = 1;
        n->identity[o * oc + o] = 1;
    }
    n->step[0] = (packed_step){ { .kind = QG__QUANTIZE, .z = -1, .h = 1, .w = 1, .c = c, .oh = 1, .ow = 1, .oc = c, .coding = QG__AS_BYTES,
                                  .q_lowest = -ZERO, .q_step = 1, .q_count = CODES, .q_scale = 1 }, n->input, NULL, NULL };
    n->step[1] = (packed_step){ { .kind = QG__PRODUCT, .x = 1, .z = -1, .h = 1, .w = 1, .c = c, .oh = 1, .ow = 1, .oc = oc, .kh = 1, .kw = 1, .stride = 1,
                                  .groups = 1, .w_lowest = -127, .w_step = 1, .w_count = 255, .w_bits = 8, .relu = key % 5 == 0, .coding = QG__AS_BYTES,
                                  .q_lowest = lowest, .q_step = 1, .q_count = CODES, .q_scale = out_scale }, n->product, n->w, NULL };
    n->step[2] = (packed_step){ { .kind = QG__PRODUCT, .x = 2, .z = -1, .h = 1, .w = 1, .c = oc, .oh = 1, .ow = 1, .oc = oc, .kh = 1, .kw = 1, .stride = 1,
                                  .groups = 1, .w_lowest = -127, .w_step = 1, .w_count = 255, .w_bits = 8 }, n->output, n->identity, NULL };
}

static void discard(net *n) { free(n->input), free(n->product), free(n->w), free(n->output), free(n->identity); }

/* The codes of n images; returns how many products were computed by the fixed-point operator. */
static int run(const net *n, qg_infer_requantize how, int images, const float *x, float *codes)
{
    const packed_net file = { 1, 1, n->c, 0, NULL, 3, n->step, 0, NULL };
    size_t           bytes, size;
    uint8_t         *packed = packed_file(&file, &bytes);
    const qg_infer  *loaded;
    assert_int_equal(qg_infer_size(packed, bytes, &size), QG_INFER_OK);
    void *memory = lines(size);
    assert_int_equal(qg_infer_load_with(packed, bytes, how, memory, size, &loaded), QG_INFER_OK);
    const int fixed = qg_infer_fixed_point(loaded);
    void     *context = lines(qg_infer_context_bytes(loaded, images));
    assert_int_equal(qg_infer_run(loaded, images, x, codes, context, qg_infer_context_bytes(loaded, images)), QG_INFER_OK);
    free(packed), free(memory), free(context);
    return fixed;
}

/* SPEC of TFLite: factor and bias in double from float scales, int32 sums, two roundings, clamped. */
static float by_operator(const net *n, const float *x, int o)
{
    const qg__packed_step *r   = &n->step[1].r;
    int64_t                acc = 0;
    qg_multiplier          m;
    for (int k = 0; k < n->c; k++) acc += (int64_t)n->w[o * n->c + k] * (int64_t)x[k];
    acc += (int64_t)round((double)n->product[n->oc + o] / (double)n->product[o]);
    assert_ok(qg_quantize_multiplier((double)n->product[o] / (double)r->q_scale, &m));
    int value = (int)qg_multiply_by_quantized_multiplier((int32_t)acc, m, QG_DOUBLE_ROUNDING);
    if (r->relu && value < 0) value = 0;
    const int highest = r->q_lowest + CODES - 1;
    return (float)(value < r->q_lowest ? r->q_lowest : value > highest ? highest : value);
}

static void nets_have_the_bits_of_the_operator(void **state)
{
    enum { IMAGES = 20, NETS = 40 };
    int levels = 0;
    for (int path = 0; path <= (int)widest_path(); path++)
        for (uint64_t key = 1; key <= NETS; key++) {
            use_path(path);
            net n;
            build(&n, key);
            float *x = malloc(IMAGES * (size_t)n.c * sizeof *x), *fixed = malloc(IMAGES * (size_t)n.oc * sizeof *x);
            float *evaluated = malloc(IMAGES * (size_t)n.oc * sizeof *x);
            assert_true(x && fixed && evaluated);
            for (uint64_t i = 0; i < (uint64_t)(IMAGES * n.c); i++) x[i] = (float)(int)(qg_bits(key, 9000 + i) % CODES) - ZERO;
            assert_int_equal(run(&n, QG_INFER_EVALUATE, IMAGES, x, evaluated), 0);
            assert_int_equal(run(&n, QG_INFER_TFLITE, IMAGES, x, fixed), 1);
            for (int i = 0; i < IMAGES * n.oc; i++) {
                assert_true(fixed[i] == by_operator(&n, x + i / n.oc * n.c, i % n.oc));
                assert_true(fabsf(fixed[i] - evaluated[i]) <= 1);
                levels += fixed[i] != evaluated[i];
            }
            free(x), free(fixed), free(evaluated);
            discard(&n);
        }
    assert_true(levels > 0);        /* they are not the same */
}

/* Codes so wide that a rounded bias is more than a level. */
static void products_far_from_evaluation_are_evaluated(void **state)
{
    enum { IMAGES = 10 };
    net n;
    build(&n, 9);
    for (int o = 0; o < n.oc; o++) {
        n.product[o] = 8 * n.step[1].r.q_scale;         /* a sum of 1 is 8 levels */
        n.product[n.oc + o] = (3.5f + 8 * (float)o) * n.step[1].r.q_scale;
    }
    float *x = calloc(IMAGES * (size_t)n.c, sizeof *x), *fixed = malloc(IMAGES * (size_t)n.oc * sizeof *x);
    float *evaluated = malloc(IMAGES * (size_t)n.oc * sizeof *x);
    assert_true(x && fixed && evaluated);
    for (int i = 0; i < IMAGES; i++) x[i * n.c] = (float)i;
    run(&n, QG_INFER_EVALUATE, IMAGES, x, evaluated);
    assert_int_equal(run(&n, QG_INFER_TFLITE, IMAGES, x, fixed), 0);
    assert_memory_equal(fixed, evaluated, IMAGES * (size_t)n.oc * sizeof *x);
    free(x), free(fixed), free(evaluated);
    discard(&n);
}

#define WITH_PATHS(test) cmocka_unit_test_teardown(test, restore_variables)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_PATHS(the_kernel_has_the_bits_of_the_operator),
        WITH_PATHS(nets_have_the_bits_of_the_operator),
        WITH_PATHS(products_far_from_evaluation_are_evaluated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
