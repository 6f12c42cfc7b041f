/* infer/kernels/isa.h — the tables of the engine's kernels.
 *
 * Like core/kernels/cpu.h, which chooses among three instruction sets, but the engine's table of AVX-512
 * also needs VPOPCNTDQ and VNNI (Ice Lake and newer, Zen 4 and newer).  A machine with an older AVX-512
 * runs the table of AVX2.
 */
#ifndef QG_INFER_ISA_H
#define QG_INFER_ISA_H

#include "core/kernels/cpu.h"

static inline qg_isa qg__infer_isa(void)
{
    const qg_isa isa = qg__isa();
#if defined(__x86_64__)
    if (isa == QG_ISA_AVX512 &&
        !(__builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("avx512vnni")))
        return QG_ISA_AVX2;
#endif
    return isa;
}

/* The table of this machine, for callers that need it once.  The engine asks for the instruction set when
 * it loads a net, and then calls QG_KERNELS_OF(isa, table). */
#define QG_INFER_KERNELS(table) QG_KERNELS_OF(qg__infer_isa(), table)

#endif
