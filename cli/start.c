#include "cli/start.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include "cli/config/options.h"
#include "cli/config/self.h"
#include "cli/print.h"
#include "core/kernels/cpu.h"
#include "core/kernels/parallel.h"

#if defined(__ELF__) && defined(__GLIBC__)
/* OpenBLAS starts threads before main begins.  Where a limit on memory or processes does not allow that, it ends the
 * process with SIGINT or retries forever (core/kernels/parallel.h).  So the program restarts itself before the libraries
 * begin, with the variable that makes OpenBLAS start none.  getenv does not work yet, so the environment is an argument.
 * Without /proc the program does not restart. */
__attribute__((no_sanitize("address", "thread", "undefined")))  /* their libraries have not begun either */
static void start_no_blas_threads(int argc, char **argv, char **environment)
{
    static char ONE[] = "OPENBLAS_NUM_THREADS=1";
    int         n     = 0;
    while (environment[n] && strncmp(environment[n], ONE, sizeof ONE - 2)) n++;
    if (environment[n] && !strcmp(environment[n], ONE)) return;
    self_begin(argc);
    if (environment[n]) {
        environment[n] = ONE;
        self_execute(argv, environment);
        return;
    }
    char **more = malloc(((size_t)n + 2) * sizeof *more);
    if (!more) return;
    memcpy(more, environment, (size_t)n * sizeof *more);
    more[n]     = ONE;
    more[n + 1] = NULL;
    self_execute(argv, more);
    free(more);
}

__attribute__((section(".preinit_array"), used))
static void (*const before_libraries)(int, char **, char **) = start_no_blas_threads;
#endif

/* After a restart from /proc/self/exe, ps, top and pkill would know the program as "exe". */
static void restore_name(const char *name)
{
#if defined(__linux__)
    prctl(PR_SET_NAME, name);
#else
#endif
}

/* The library looks for recipes and the sample in $QGRAD_SHARE (core/io/paths.h): ../share/qgrad of the directory of this program,
 * unless it is set. */
static void find_share(void)
{
    char        path[QG__PATH_BYTES], share[QG__PATH_BYTES];
    const char *given = getenv("QGRAD_SHARE");
    char       *bin   = NULL;
    if ((given && *given) || !self_path(path)) return;
    for (int i = 0; i < 2 && (bin = strrchr(path, '/')) != NULL; i++) *bin = '\0';
    if (bin && !qg__path_join(*path ? path : "/", "share/qgrad", share)) setenv("QGRAD_SHARE", share, 1);
}

/* Other kernels and products than those that the user wanted would have another speed. */
static bool variables_are_known(void)
{
    const char *cpu = qg_cpu_unknown(), *products = getenv("QGRAD_PRODUCTS");
    const bool  known = !products || !*products || !strcmp(products, "bits") || !strcmp(products, "bytes");
    if (cpu) print_safe(stderr, "qgrad: QGRAD_CPU is '%s', not one of avx512, avx2, baseline\n", cpu);
    else if (!known) print_safe(stderr, "qgrad: QGRAD_PRODUCTS is '%s', not one of bits, bytes\n", products);
    return !cpu && known;
}

int program_run(const char *name, int argc, char **argv, int (*work)(int argc, char **argv))
{
    self_begin(argc);
    find_share();
    restore_name(name);
    signal(SIGXFSZ, SIG_IGN);   /* a file that may not grow is a failed write, with a message */
    const int status = variables_are_known() ? work(argc, argv) : EXIT_USAGE;
    errno            = 0;       /* of an earlier write, only the fact that it failed is known */
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "qgrad: cannot write the result%s%s\n", errno ? ": " : "", errno ? strerror(errno) : "");
        return status ? status : EXIT_FAILED;
    }
    return status;
}
