#include "cli/completion.h"
#include "cli/print.h"
#include "core/io/paths.h"
#include "core/kernels/cpu.h"
#include "core/kernels/parallel.h"
#include "qgrad.h"

#ifndef QGRAD_FLAGS
#define QGRAD_FLAGS "unknown flags"
#endif

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "an unknown compiler"
#endif

void version_print(FILE *out)
{
    char share[QG__PATH_BYTES];
    fprintf(out, "qgrad " QGRAD_VERSION "\n");
    fprintf(out, "commit      %s\n", qg_commit());
    fprintf(out, "arithmetic  %d, with gradient quantizers %d\n", QG_ARITHMETIC, QG_ARITHMETIC_GRADIENTS);
    fprintf(out, "built       by " COMPILER ", " QGRAD_FLAGS "\n");
    fprintf(out, "blas        OpenBLAS, core %s\n", qg_blas_core());
    fprintf(out, "kernels     %s\n", qg_cpu_path());
    fprintf(out, "threads     %d\n", qg_threads());
    if (qg__share_directory(share)) print_safe(out, "share       %s%s\n", share, qg__path_exists(share) ? "" : ", which does not exist");
}
