/* core/kernels/cpu.h — one kernel source, several instruction sets, chosen at run time.
 *
 * Files named *_kernel.c are compiled once per instruction set, with QG_ISA set to its name, and end in a
 * constant table of functions, QG_PER_ISA(table).  QG_KERNELS(table) is the address of the table for this
 * machine.  It reads the environment, which takes as long as a loop over a few hundred floats, so call it
 * outside of loops, or call qg__isa there and QG_KERNELS_OF(isa, table) inside.  These macros are for the library's own
 * kernels: a shared library does not export qg__isa.
 *
 * The environment variable QGRAD_CPU = avx512 | avx2 | baseline selects a lower instruction set than the
 * machine's.  A higher one is ignored, and so is any other text: a program can ask qg_cpu_unknown for it.
 */
#ifndef QG_CPU_H
#define QG_CPU_H

#include <stdbool.h>

typedef enum qg_isa { QG_ISA_BASELINE, QG_ISA_AVX2, QG_ISA_AVX512 } qg_isa;

qg_isa      qg__isa(void);
const char *qg_cpu_path(void);         /* "avx512", "avx2" or "baseline" */
const char *qg_cpu_unknown(void);      /* the text of QGRAD_CPU if it is none of these and not empty; else NULL */
const char *qg_blas_core(void);        /* what OpenBLAS chose: "Cooperlake" */

/* Whether this thread rounds to nearest and keeps denormal numbers, as C programs begin.  fesetround changes that,
 * and so do libraries that were linked with -ffast-math: they flush denormals to zero in every thread. */
bool qg__ieee_mode(void);
#define QG_IEEE_MODE_REFUSAL \
    "this thread does not round floats to nearest, or flushes denormals to zero (fesetround, -ffast-math)"

#define QG_PASTE_(a, b) a##_##b
#define QG_PASTE(a, b)  QG_PASTE_(a, b)
#define QG_PER_ISA(name) QG_PASTE(name, QG_ISA)

#if defined(__x86_64__)
#define QG_DECLARE_KERNELS(type, table) extern const type table##_baseline, table##_avx2, table##_avx512
/* Indexed by qg_isa, so that isa is evaluated once. */
#define QG_KERNELS_OF(isa, table)                                                                  \
    (((__typeof__(table##_baseline) *const[]){ &table##_baseline, &table##_avx2,                   \
                                               &table##_avx512 })[isa])
#else
#define QG_DECLARE_KERNELS(type, table) extern const type table##_baseline
#define QG_KERNELS_OF(isa, table)       ((void)(isa), &table##_baseline)
#endif
#define QG_KERNELS(table) QG_KERNELS_OF(qg__isa(), table)

#endif
