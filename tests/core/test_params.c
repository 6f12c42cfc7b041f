#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/params.h"

static qg_params three(void)
{
    qg_params p = { 0 };
    declare(&p, "conv1.weight", (qg_shape){ 3, 3, 3, 1 });
    assert_non_null(qg_params_declare(&p, (qg_param){ .name  = "bn1.mean",
                                                      .shape = { 1, 1, 1, 33 },
                                                      .group = QG_TRACKED }));
    assert_non_null(qg_params_declare(&p, (qg_param){ .name   = "fc.bias",
                                                      .shape  = { 1, 1, 1, 1 },
                                                      .group  = QG_BIASES,
                                                      .frozen = true }));
    assert_ok(qg_params_allocate(&p));
    return p;
}

static void trained_and_tracked_lie_apart(void **state)
{
    qg_params p = three();
    assert_int_equal(p.length, 32 + 16);
    assert_int_equal(p.tracked_length, 48);
    for (int i = 0; i < 3; i++) assert_int_equal((uintptr_t)p.item[i]->value % 64, 0);
    assert_ptr_equal(p.item[0]->value, p.value);
    assert_ptr_equal(p.item[0]->grad, p.grad);
    assert_ptr_equal(p.item[1]->value, p.tracked);
    assert_null(p.item[1]->grad);
    assert_ptr_equal(p.item[2]->value, p.value + 32);
    assert_int_equal(qg_params_trained(&p), 28);
    for (size_t i = 0; i < p.length; i++) assert_true(p.value[i] == 0 && p.grad[i] == 0);
    for (size_t i = 0; i < p.tracked_length; i++) assert_true(p.tracked[i] == 0);
    qg_params_release(&p);
    assert_int_equal(p.count, 0);
}

static void names_are_found_and_are_copies(void **state)
{
    qg_params p       = { 0 };
    char      name[8] = "w";
    qg_param *w       = declare(&p, name, (qg_shape){ 1, 1, 1, 1 });
    name[0]           = 'v';
    assert_string_equal(w->name, "w");
    assert_ptr_equal(qg_params_find(&p, "w"), w);
    assert_null(qg_params_find(&p, "v"));
    qg_params_release(&p);
}

static void more_than_the_first_table_holds(void **state)
{
    qg_params p = { 0 };
    char      name[16];
    for (int i = 0; i < 65; i++) {
        snprintf(name, sizeof name, "p%d", i);
        declare(&p, name, (qg_shape){ 1, 1, 1, i + 1 });
    }
    allocate_apart(&p, 1);
    for (int i = 1; i < 65; i++) {
        snprintf(name, sizeof name, "p%d", i);
        assert_string_equal(p.item[i]->name, name);
        assert_true(p.item[i]->value >= p.item[i - 1]->value + qg_count(p.item[i - 1]->shape));
    }
    qg_params_release(&p);
}

static void bad_declarations_name_the_culprit(void **state)
{
    qg_params p = three();
    assert_none(qg_params_declare(&p, (qg_param){ .name = "late", .shape = { 1, 1, 1, 1 } }), "late");
    assert_int_equal(qg_params_allocate(&p), QG_ESTATE);
    qg_params_release(&p);
    declare(&p, "w", (qg_shape){ 1, 1, 1, 1 });
    assert_null(qg_params_declare(&p, (qg_param){ .name = "w", .shape = { 1, 1, 1, 2 } }));
    assert_message("parameter w: the name is taken");
    assert_none(qg_params_declare(&p, (qg_param){ .name = "e", .shape = { 4, 0, 3, 1 } }), "[4,0,3,1]");
    assert_none(qg_params_declare(&p, (qg_param){ .shape = { 1, 1, 1, 1 } }), "a parameter has no name");
    assert_null(qg_params_declare(&p, (qg_param){ .name = "o", .shape = { 1 << 30, 1 << 15, 1 << 16, 1 } }));
    assert_message("parameter o: shape [1073741824,32768,65536,1] is empty or beyond any memory");
    assert_null(qg_params_declare(&p, (qg_param){ .name = "g", .shape = { 1, 1, 1, 1 }, .group = (qg_group)QG_GROUPS }));
    assert_message("parameter g: its group is 5, must be 0..4");
    assert_null(qg_params_declare(&p, (qg_param){ .name = "r", .shape = { 3, 1, 1, 2 }, .rank = 1 }));
    assert_message("parameter r: [3,1,1,2] cannot be an array of rank 1");
    assert_null(qg_params_declare(&p, (qg_param){ .name = "r", .shape = { 3, 1, 2, 2 }, .rank = 2 }));
    assert_null(qg_params_declare(&p, (qg_param){ .name = "r", .shape = { 1, 1, 1, 2 }, .rank = 3 }));
    assert_non_null(qg_params_declare(&p, (qg_param){ .name = "r", .shape = { 1, 1, 1, 2 }, .rank = 4 }));
    for (int i = 0; i < 2; i++) {       /* one such block still has a size */
        char name[2] = { (char)('x' + i), '\0' };
        assert_int_equal(!qg_params_declare(&p, (qg_param){ .name = name, .shape = { 1 << 29, 1 << 28, 2, 1 } }), i);
    }
    qg_params_release(&p);
}

static void the_digest_sees_names_shapes_and_values(void **state)
{
    qg_params      p = three(), q = three();
    const uint64_t d = qg_params_digest(&p);
    assert_true(qg_params_digest(&q) == d);
    q.grad[0] = 1;
    assert_true(qg_params_digest(&q) == d);
    q.item[1]->value[32] = 1e-30f;
    assert_true(qg_params_digest(&q) != d);
    qg_params_release(&q);
    declare(&q, "conv1.weight", (qg_shape){ 3, 3, 1, 3 });
    assert_ok(qg_params_allocate(&q));
    const uint64_t other = qg_params_digest(&q);
    qg_params_release(&q);
    declare(&q, "conv1.weight", (qg_shape){ 3, 1, 3, 3 });
    assert_ok(qg_params_allocate(&q));
    assert_true(qg_params_digest(&q) != other);
    qg_params_release(&q);
    qg_params_release(&p);
}

static uint64_t fnv(uint64_t h, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) h = (h ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
    return h;
}

/* As docs/arithmetic.md defines it, which is how others compare their digests. */
static void the_digest_is_that_of_its_definition(void **state)
{
    qg_params     p        = three();
    const int32_t shape[3][4] = { { 3, 3, 3, 1 }, { 1, 1, 1, 33 }, { 1, 1, 1, 1 } };
    const char   *name[3]     = { "conv1.weight", "bn1.mean", "fc.bias" };
    uint64_t      h           = 14695981039346656037u;
    for (int i = 0; i < 3; i++) {
        const size_t n = qg_count(p.item[i]->shape);
        for (size_t k = 0; k < n; k++) p.item[i]->value[k] = (float)(i + 1) / (float)(k + 3);
        h = fnv(h, name[i], strlen(name[i]) + 1);
        h = fnv(h, shape[i], sizeof shape[i]);
        h = fnv(h, p.item[i]->value, n * sizeof(float));
    }
    assert_true(qg_params_digest(&p) == h);
    qg_params_release(&p);
}

static void gradients_are_cleared_and_values_stay(void **state)
{
    qg_params      p = three();
    const uint64_t d = qg_params_digest(&p);
    for (size_t i = 0; i < p.length; i++) p.grad[i] = (float)i - 3;
    p.grad[1] = INFINITY;
    qg_params_clear_gradients(&p);
    for (size_t i = 0; i < p.length; i++) assert_true(p.grad[i] == 0);
    assert_true(qg_params_digest(&p) == d);
    qg_params_release(&p);
    qg_params_clear_gradients(&p);          /* there are none */
    qg_params_clear_gradients(NULL);
}

static void null_flows(void **state)
{
    qg_params p = { 0 };
    qg_fail(QG_EIO, "untouched");
    assert_null(qg_params_declare(NULL, (qg_param){ .name = "w", .shape = { 1, 1, 1, 1 } }));
    assert_int_equal(qg_params_trained(NULL), 0);
    assert_true(qg_params_digest(NULL) == qg_params_digest(&p));
    qg_params_release(NULL);
    assert_message("untouched");
    assert_int_equal(qg_params_allocate(NULL), QG_ESTATE);
    declare(&p, "w", (qg_shape){ 1, 1, 1, 1 });
    assert_true(qg_params_digest(NULL) != qg_params_digest(&p));        /* without values yet */
    qg_params_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trained_and_tracked_lie_apart),
        cmocka_unit_test(names_are_found_and_are_copies),
        cmocka_unit_test(more_than_the_first_table_holds),
        cmocka_unit_test(bad_declarations_name_the_culprit),
        cmocka_unit_test(the_digest_sees_names_shapes_and_values),
        cmocka_unit_test(the_digest_is_that_of_its_definition),
        cmocka_unit_test(gradients_are_cleared_and_values_stay),
        cmocka_unit_test(null_flows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
