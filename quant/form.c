/* The forms: their loops for each instruction set, the scales of their codes, and which codes there are. */
#include "quant/kernels.h"

/* The loops of quant/form_kernel.c for each instruction set. */
#if defined(__x86_64__)
#define LOOPS(form) { &qg__form_baseline.form, &qg__form_avx2.form, &qg__form_avx512.form }
#else
#define LOOPS(form) { &qg__form_baseline.form }
#endif

static void sign_scales(const qg_constants *k, float *positive, float *negative)
{
    *positive = k->sign.scale + k->sign.offset;
    *negative = k->sign.scale - k->sign.offset;
}

static void ternary_scales(const qg_constants *k, float *positive, float *negative)
{
    *positive = k->ternary.positive;
    *negative = k->ternary.negative;
}

static void uniform_scales(const qg_constants *k, float *positive, float *negative)
{
    *positive = *negative = k->uniform.step;
}

static qg_code_set sign_set(const qg_constants *k)
{
    return (qg_code_set){ .lowest = -1, .step = 2, .count = 2 };
}

static qg_code_set ternary_set(const qg_constants *k)
{
    return (qg_code_set){ .lowest = -1, .step = 1, .count = 3 };
}

static qg_code_set lsq_set(const qg_constants *k)
{
    const int lo = (int)k->uniform.lo, hi = (int)k->uniform.hi;
    return (qg_code_set){ .lowest = lo, .step = 1, .count = hi - lo + 1 };
}

/* 0 .. steps. */
static qg_code_set counted_set(const qg_constants *k)
{
    return (qg_code_set){ .lowest = 0, .step = 1, .count = (int)k->uniform.steps + 1 };
}

/* The odd numbers -steps .. steps. */
static qg_code_set odd_set(const qg_constants *k)
{
    const int n = (int)k->uniform.steps;
    return (qg_code_set){ .lowest = -n, .step = 2, .count = n + 1 };
}

/* With variant, 0 is a level: -steps .. steps. */
static qg_code_set unit_set(const qg_constants *k)
{
    const int n = (int)k->uniform.steps;
    if (k->uniform.variant == 0.0f) return odd_set(k);
    return (qg_code_set){ .lowest = -n, .step = 1, .count = 2 * n + 1 };
}

/*                                loops            scales           codes */
const qg_form qg_sign_form    = { LOOPS(sign), sign_scales, sign_set };
const qg_form qg_ternary_form = { LOOPS(ternary), ternary_scales, ternary_set };
const qg_form qg_lsq_form     = { LOOPS(lsq), uniform_scales, lsq_set };
const qg_form qg_pact_form    = { LOOPS(pact), uniform_scales, counted_set };
const qg_form qg_linear_form  = { LOOPS(linear), uniform_scales, counted_set };
const qg_form qg_dorefa_form  = { LOOPS(dorefa), uniform_scales, counted_set };
const qg_form qg_tanh_form    = { LOOPS(tanh), uniform_scales, odd_set };
const qg_form qg_unit_form    = { LOOPS(unit), uniform_scales, unit_set };
const qg_form qg_scaled_form  = { LOOPS(scaled), uniform_scales, NULL };
const qg_form qg_nudged_form  = { LOOPS(nudged), uniform_scales, NULL };
