#include "core/kernels/cpu.h"

#include <cblas.h>
#include <strings.h>

const char *qg_blas_core(void)
{
    return openblas_get_corename();
}

const char *qg__better_core(const char *core, qg_isa isa)
{
    static const char *const before_avx2[] = { "Generic", "Prescott",    "Core2",      "Penryn",
                                               "Atom",    "Dunnington",  "Nehalem",    "Sandybridge" };
    if (isa == QG_ISA_BASELINE) return NULL;
    for (size_t i = 0; i < sizeof before_avx2 / sizeof *before_avx2; i++)
        if (!strcasecmp(core, before_avx2[i])) return isa == QG_ISA_AVX512 ? "SkylakeX" : "Haswell";
    return NULL;
}

const char *qg_blas_better_core(void)
{
    return qg__better_core(qg_blas_core(), qg__isa());
}
