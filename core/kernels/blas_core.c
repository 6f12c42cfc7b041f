#include "core/kernels/cpu.h"

#include <cblas.h>

const char *qg_blas_core(void)
{
    return openblas_get_corename();
}
