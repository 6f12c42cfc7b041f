/* tests/support/environment.h — environment variables that a test changes and restores. */
#ifndef ENVIRONMENT_H
#define ENVIRONMENT_H

#include <stdbool.h>

#include "core/kernels/cpu.h"

/* Sanitizers need terabytes of addresses and threads of their own, so no test limits those. */
#if defined(__has_feature)
#define HAS_FEATURE(name) __has_feature(name)
#else
#define HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || HAS_FEATURE(address_sanitizer) || \
    HAS_FEATURE(thread_sanitizer)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

/* NULL: removes it. */
void set_variable(const char *name, const char *value);

/* The teardown of every test that changes one: restores all variables. */
int  restore_variables(void **state);

/* QGRAD_EVERY is set: a test takes all combinations of shapes, schemes and choices, not a part with each of them. */
bool every_combination(void);

/* The paths of core/kernels/cpu.h, the narrowest first.  use_path(i) sets QGRAD_CPU; a path that the machine lacks
 * selects its widest one. */
enum { PATHS = 3 };
void use_path(int i);

/* The widest path of the machine, whatever QGRAD_CPU is. */
qg_isa widest_path(void);

/* The tables of a kernel, of which the machine can run the first tables(), the widest last.  NAME_sixteen, which
 * tests/tests.mk builds and a test declares, has the lanes of AVX-512 on AVX2. */
#if defined(__x86_64__)
#define TABLES_OF(name) { &name##_baseline, &name##_avx2, &name##_sixteen, &name##_avx512 }
#else
#define TABLES_OF(name) { &name##_baseline }
#endif
int tables(void);

/* This thread rounds in another way, or flushes denormal results or operands to zero, where the machine can; i: 0 ..
 * FLOAT_MODES - 1.  -1: as programs begin. */
enum { FLOAT_MODES = 5 };
void set_float_mode(int i);

#endif
