#include "tests/support/guarded.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/rng.h"

enum { GUARD = 33 };

static guarded guard_with(size_t n, size_t front, size_t behind)
{
    guarded a     = { .n = n, .behind = behind };
    void   *block = NULL;
    assert_int_equal(posix_memalign(&block, 64, (front + n + behind) * sizeof *a.at), 0);
    a.block = block;
    a.at    = a.block + front;
    for (size_t i = 0; i < front + n + behind; i++) a.block[i] = NAN;
    return a;
}

guarded guard(size_t n)   { return guard_with(n, GUARD, GUARD); }
guarded aligned(size_t n) { return guard_with(n, 48, GUARD); }

guarded values(size_t n, uint64_t key, bool whole)
{
    guarded a = guard_with(n, GUARD, 0);
    for (size_t i = 0; i < n; i++)
        a.at[i] = whole ? (float)(qg_bits(key, i) % 9) - 4.0f : 2.0f * qg_uniform(key, i) - 1.0f;
    return a;
}

void zero(guarded a) { memset(a.at, 0, a.n * sizeof *a.at); }

void release(guarded a)
{
    for (float *p = a.block; p < a.at; p++) assert_true(isnan(*p));
    for (size_t i = 0; i < a.behind; i++) assert_true(isnan(a.at[a.n + i]));
    free(a.block);
}
