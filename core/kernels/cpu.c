#include "core/kernels/cpu.h"

#include <stdlib.h>
#include <string.h>

static qg_isa isa_of_machine(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
        return QG_ISA_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return QG_ISA_AVX2;
#endif
    return QG_ISA_BASELINE;
}

qg_isa qg__isa(void)
{
    const qg_isa machine = isa_of_machine();
    const char  *forced  = getenv("QGRAD_CPU");
    if (!forced) return machine;
    if (!strcmp(forced, "baseline")) return QG_ISA_BASELINE;
    if (!strcmp(forced, "avx2") && machine > QG_ISA_AVX2) return QG_ISA_AVX2;
    return machine;
}

const char *qg_cpu_path(void)
{
    switch (qg__isa()) {
    case QG_ISA_AVX512: return "avx512";
    case QG_ISA_AVX2: return "avx2";
    case QG_ISA_BASELINE: break;
    }
    return "baseline";
}

const char *qg_cpu_unknown(void)
{
    static const char *const known[] = { "avx512", "avx2", "baseline", "" };
    const char              *text    = getenv("QGRAD_CPU");
    for (size_t i = 0; text && i < sizeof known / sizeof *known; i++)
        if (!strcmp(text, known[i])) text = NULL;
    return text;
}

/* Volatile, so that nothing is computed by the compiler.  The first two sums tell the four roundings apart; flushing
 * makes one of the products 0. */
bool qg__ieee_mode(void)
{
    const volatile float one = 1.0f, below_half = 0x1p-25f, above_half = 0x1.8p-24f;
    const volatile float normal = 0x1p-126f, denormal = 0x1p-149f, half = 0.5f, large = 0x1p100f;
    const volatile float result = normal * half;
    return one + below_half == 1.0f && one + above_half > 1.0f && result * large > 0.0f && denormal * large > 0.0f;
}
