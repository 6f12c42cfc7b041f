#include "tests/support/environment.h"

#include "tests/support/testing.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif
#include <fenv.h>
#include <stdlib.h>
#include <string.h>

typedef struct variable {
    const char *name;
    char       *value;      /* what the caller had; NULL: it was not set */
} variable;

enum { MOST_VARIABLES = 4 };

static variable changed[MOST_VARIABLES];
static int      n_changed;

static void set(const char *name, const char *value)
{
    assert_int_equal(value ? setenv(name, value, 1) : unsetenv(name), 0);
}

static void keep(const char *name)
{
    for (int i = 0; i < n_changed; i++)
        if (!strcmp(changed[i].name, name)) return;
    assert_true(n_changed < MOST_VARIABLES);
    const char *value    = getenv(name);
    changed[n_changed++] = (variable){ name, value ? strdup(value) : NULL };
}

void set_variable(const char *name, const char *value)
{
    keep(name);
    set(name, value);
}

int restore_variables(void **state)
{
    while (n_changed > 0) {
        const variable *v = &changed[--n_changed];
        set(v->name, v->value);
        free(v->value);
    }
    return 0;
}

bool every_combination(void) { return getenv("QGRAD_EVERY") != NULL; }

void use_path(int i)
{
    static const char *const paths[PATHS] = { "baseline", "avx2", "avx512" };
    set_variable("QGRAD_CPU", paths[i]);
}

qg_isa widest_path(void)
{
    char *said = getenv("QGRAD_CPU");
    said       = said ? strdup(said) : NULL;
    set("QGRAD_CPU", NULL);
    const qg_isa widest = qg__isa();
    if (said) set("QGRAD_CPU", said);
    free(said);
    return widest;
}

int tables(void) { return widest_path() < QG_ISA_AVX2 ? 1 : widest_path() < QG_ISA_AVX512 ? 3 : 4; }

void set_float_mode(int i)
{
    fesetenv(FE_DFL_ENV);
    if (i == 0) fesetround(FE_UPWARD);
    if (i == 1) fesetround(FE_DOWNWARD);
    if (i == 2) fesetround(FE_TOWARDZERO);
#if defined(__SSE2__)
    if (i == 3) _mm_setcsr(_mm_getcsr() | 0x8000);      /* results */
    if (i == 4) _mm_setcsr(_mm_getcsr() | 0x0040);      /* operands */
#elif defined(__aarch64__)
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    if (i > 2) __asm__ volatile("msr fpcr, %0" : : "r"(control | 1 << 24));
#else
    if (i > 2) fesetround(FE_UPWARD);
#endif
}
