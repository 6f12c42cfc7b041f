#include "tests/support/small_params.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/rng.h"

/* b.weight begins inside the first block of 16384 floats and ends inside the third. */
const qg_param small_specs[ITEMS] = {
    [A_WEIGHT] = { .name = "a.weight", .shape = { 33, 1, 1, 31 }, .group = QG_WEIGHTS, .clip = 0.6f },
    [A_BIAS]   = { .name = "a.bias", .shape = { 1, 1, 1, 33 }, .group = QG_BIASES },
    [NORM]     = { .name = "n.gamma", .shape = { 1, 1, 1, 1 }, .group = QG_NORMS, .decay = 0.3f },
    [SEEN]     = { .name = "n.mean", .shape = { 1, 1, 1, 3 }, .group = QG_TRACKED },
    [SCALE]    = { .name = "q.scale", .shape = { 1, 1, 1, 3 }, .group = QG_QUANTIZERS, .lr_scale = 3 },
    [B_WEIGHT] = { .name = "b.weight", .shape = { 65, 3, 3, 63 }, .group = QG_WEIGHTS },
    [LAST]     = { .name = "c.bias", .shape = { 1, 1, 1, 65 }, .group = QG_BIASES, .frozen = true },
};

static float draw(uint64_t key, int item, size_t i)
{
    return 2 * qg_uniform(key, 100000 * (uint64_t)item + i) - 1;
}

void small_declare(qg_params *p)
{
    *p = (qg_params){ 0 };
    for (int i = 0; i < ITEMS; i++) assert_non_null(qg_params_declare(p, small_specs[i]));
    assert_int_equal(qg_params_allocate(p), QG_OK);
    for (int i = 0; i < ITEMS; i++)
        for (size_t k = 0; k < qg_count(small_specs[i].shape); k++) p->item[i]->value[k] = draw(7, i, k);
}

void small_set_gradients(qg_params *p, int step)
{
    for (int i = 0; i < ITEMS; i++)
        for (size_t k = 0; p->item[i]->grad && k < qg_count(small_specs[i].shape); k++)
            p->item[i]->grad[k] = draw(100 + (uint64_t)step, i, k);
}
