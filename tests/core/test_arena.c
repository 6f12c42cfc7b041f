#include "tests/support/testing.h"

#include <string.h>

#include "core/arena.h"

static void pieces_are_aligned_and_apart(void **state)
{
    const size_t   sizes[] = { 1, 3, 31, 33, 63, 65, 4096, 3 << 20, 7 };
    unsigned char *piece[9];
    qg_arena       a = { 0 };
    for (size_t i = 0; i < 9; i++) {
        piece[i] = qg__arena_take(&a, sizes[i]);
        assert_non_null(piece[i]);
        assert_int_equal((uintptr_t)piece[i] % 64, 0);
        memset(piece[i], (int)i, sizes[i]);
    }
    for (size_t i = 0; i < 9; i++)
        for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(piece[i][k], i);
    qg__arena_release(&a);
    assert_null(a.first);
    assert_int_equal(a.used, 0);
}

static void rewind_gives_the_same_addresses(void **state)
{
    void    *before[40];
    qg_arena a = { 0 };
    for (size_t i = 0; i < 40; i++) before[i] = qg__arena_take(&a, 100000 * (1 + i % 7));
    const size_t peak = a.peak;
    qg__arena_rewind(&a);
    assert_int_equal(a.used, 0);
    for (size_t i = 0; i < 40; i++)
        assert_ptr_equal(qg__arena_take(&a, 100000 * (1 + i % 7)), before[i]);
    assert_int_equal(a.peak, peak);
    assert_int_equal(a.used, peak);
    qg__arena_release(&a);
}

static void a_chain_is_merged_into_one_block(void **state)
{
    qg_arena a = { 0 };
    qg__arena_merge(&a);
    assert_null(a.first);
    for (size_t i = 1; i <= 5; i++) {               /* each round needs more than any block holds */
        unsigned char *p = qg__arena_take(&a, i << 20), *q = qg__arena_take(&a, (i << 20) + 64);
        memset(p, 1, i << 20);
        memset(q, 2, (i << 20) + 64);
        qg__arena_merge(&a);
        assert_int_equal(a.used, 0);
        assert_int_equal(a.peak, (i << 21) + 64);
    }
    unsigned char *p = qg__arena_take(&a, 5 << 20), *q = qg__arena_take(&a, (5 << 20) + 64);
    assert_ptr_equal(q, p + (5 << 20));             /* one block holds both */
    qg__arena_merge(&a);
    assert_ptr_equal(qg__arena_take(&a, 64), p);     /* and stays */
    qg__arena_release(&a);
}

/* Each round asks for one piece that no block so far can hold. */
static void rising_sizes_do_not_pile_up(void **state)
{
    qg_arena a = { 0 };
    for (size_t i = 1; i <= 40; i++) {
        qg__arena_settle(&a);
        assert_int_equal(a.used, 0);
        memset(qg__arena_take(&a, i << 20), 1, i << 20);
        assert_int_equal(a.peak, i << 20);
        assert_true(a.reserved <= 3 * a.peak);  /* twice the peak before, and the newest; without: 20 times */
    }
    const size_t before = a.reserved;
    void        *rest   = NULL;
    for (int i = 0; i < 3; i++) {               /* what no longer grows comes to rest */
        qg__arena_settle(&a);
        void *p = qg__arena_take(&a, 40 << 20);
        assert_true(i < 2 || p == rest);
        rest = p;
    }
    assert_true(a.reserved <= before);
    qg__arena_release(&a);
    assert_int_equal(a.reserved, 0);
}

static void an_impossible_size_fails_and_harms_nothing(void **state)
{
    qg_arena a = { 0 };
    char    *p = qg__arena_text(&a, "here");
    assert_none(qg__arena_take(&a, SIZE_MAX), "out of memory");
    assert_string_equal(p, "here");
    assert_non_null(qg__arena_take(&a, 1));
    qg__arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_aligned_and_apart),
        cmocka_unit_test(rewind_gives_the_same_addresses),
        cmocka_unit_test(a_chain_is_merged_into_one_block),
        cmocka_unit_test(rising_sizes_do_not_pile_up),
        cmocka_unit_test(an_impossible_size_fails_and_harms_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
