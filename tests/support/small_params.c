#include "tests/support/small_params.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"

/* b.weight begins inside the first block of 16384 floats and ends inside the third. */
const qg_param small_specs[ITEMS] = {
    [A_WEIGHT] = { .name = "a.weight", .shape = { 33, 1, 1, 31 }, .clip = 0.6f },
    [A_BIAS]   = { .name = "a.bias", .group = QG_BIASES, .shape = { 1, 1, 1, 33 } },
    [NORM]     = { .name = "n.gamma", .group = QG_NORMS, .shape = { 1, 1, 1, 1 }, .decay = 0.3f },
    [SEEN]     = { .name = "n.mean", .group = QG_TRACKED, .shape = { 1, 1, 1, 3 } },
    [SCALE]    = { .name = "step", .group = QG_SCALES, .shape = { 1, 1, 1, 3 }, .lr_scale = 3 },
    [B_WEIGHT] = { .name = "b.weight", .shape = { 65, 3, 3, 63 } },
    [LAST]     = { .name = "c.bias", .group = QG_BIASES, .shape = { 1, 1, 1, 65 }, .frozen = true },
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
        for (size_t k = 0; k < qg_count(small_specs[i].shape); k++)
            p->item[i]->value[k] = draw(7, i, k);
}

void small_set_gradients(qg_params *p, int step)
{
    for (int i = 0; i < ITEMS; i++)
        for (size_t k = 0; p->item[i]->grad && k < qg_count(small_specs[i].shape); k++)
            p->item[i]->grad[k] = draw(100 + (uint64_t)step, i, k);
}

size_t small_bytes(const qg_params *p)
{
    return (2 * p->length + p->tracked_length) * sizeof(float);
}

float *small_copy(const qg_params *p)
{
    float *copy = malloc(small_bytes(p));
    assert_non_null(copy);
    return memcpy(copy, p->value, small_bytes(p));
}
