/* Images held out for validation: which, how many of each class, and what they leave behind. */
#include "datasets/normalise.h"
#include "tests/support/testing.h"

#include <math.h>
#include <string.h>

#include "core/kernels/parallel.h"
#include "core/rng.h"
#include "datasets/dataset.h"

enum { N = 200, MOST_CLASSES = 8 };

/* Images of two values, both i; labels in turns, as counts says. */
static qg_loader *numbered(const int *counts, int classes, qg_loader_spec spec)
{
    qg__dataset set = { .shape = { 0, 1, 2, 1 }, .classes = classes };
    for (int k = 0; k < classes; k++) set.shape.n += counts[k];
    assert_true(set.shape.n <= 256 && qg__dataset_allocate(&set));
    int left[MOST_CLASSES];
    memcpy(left, counts, (size_t)classes * sizeof *left);
    for (int i = 0, k = 0; i < set.shape.n; k = (k + 1) % classes) {
        if (!left[k]) continue;
        left[k]--;
        set.images[2 * i] = set.images[2 * i + 1] = (uint8_t)i;
        set.labels[i++]   = (uint8_t)k;
    }
    return qg__loader_new(set, spec);
}

/* An epoch in bytes, as images with QG_TO_UNIT; how many. */
static int served(qg_loader *l, int *image, int *of_class)
{
    int n = 0;
    for (qg_batch b; qg_loader_next(l, &b);)
        for (int i = 0; i < b.x.shape.n; i++) {
            image[n++] = (int)lroundf(b.x.data[2 * i] * 255.0f);
            of_class[b.y[i]]++;
        }
    return n;
}

static const int uneven[] = { 100, 60, 33, 7 };

static void assert_parts(qg_holdout part, int images, const int *want)
{
    int train[N], held[N], of_train[MOST_CLASSES] = { 0 }, of_held[MOST_CLASSES] = { 0 }, seen[N] = { 0 };
    qg_loader *l = numbered(uneven, 4, (qg_loader_spec){ .batch = 16, .seed = 4, .validation = part });
    if (!l) fail_msg("%s", qg_errmsg());
    qg_loader *v = qg_loader_validation(l);
    assert_int_equal(qg_loader_shape(v).n, images);
    assert_int_equal(qg_loader_shape(l).n, N - images);
    assert_int_equal(qg_loader_batches(l), (N - images + 15) / 16);
    assert_int_equal(served(v, held, of_held), images);
    assert_int_equal(served(l, train, of_train), N - images);
    for (int i = 0; i < images; i++) seen[held[i]]++;
    for (int i = 0; i < N - images; i++) seen[train[i]]++;
    for (int i = 0; i < N; i++) assert_int_equal(seen[i], 1);
    for (int i = 1; i < images; i++) assert_true(held[i] > held[i - 1]);       /* in the order of the set */
    for (int k = 0; k < 4; k++) {
        assert_int_equal(of_held[k], want[k]);
        assert_int_equal(of_held[k] + of_train[k], uneven[k]);
    }
    qg_loader_free(l);
}

static void every_class_gives_its_part(void **state)
{
    assert_parts((qg_holdout){ .images = 20 }, 20, (const int[]){ 10, 6, 3, 1 });       /* 3.3 and 0.7 */
    assert_parts((qg_holdout){ .share = 0.1 }, 20, (const int[]){ 10, 6, 3, 1 });
    assert_parts((qg_holdout){ .images = 1 }, 1, (const int[]){ 1, 0, 0, 0 });
    assert_parts((qg_holdout){ .images = 3 }, 3, (const int[]){ 2, 1, 0, 0 }); /* 1.5, 0.9, 0.495, 0.105 */
    assert_parts((qg_holdout){ .images = 195 }, 195,
                 (const int[]){ 98, 59, 32, 6 }); /* 97.5, 58.5, 32.2, 6.8 */
    assert_parts((qg_holdout){ .images = 196 }, 196, (const int[]){ 99, 59, 32, 6 });   /* each keeps one */
}

static uint64_t held_digest(uint64_t seed, int threads)
{
    qg_set_threads(threads);
    qg_loader     *l = numbered(uneven, 4,
                                (qg_loader_spec){ .batch = 7, .seed = seed, .validation = { .images = 50 } });
    const uint64_t digest = qg__loader_digest(qg_loader_validation(l));
    qg_loader_free(l);
    qg_set_threads(0);
    return digest;
}

static void the_seed_draws_them(void **state)
{
    assert_true(held_digest(4, 1) == held_digest(4, 3));
    assert_true(held_digest(4, 1) != held_digest(5, 1));
}

/* docs/arithmetic.md: each class gives the first ones of a permutation. */
static void they_come_first_in_the_permutation(void **state)
{
    enum { SEED = 4 };
    int             held[N], ignored[MOST_CLASSES] = { 0 };
    int             left[]     = { 25, 15, 8, 2 };          /* of 25, 15, 8.25 and 1.75 */
    bool            is_held[N] = { false };
    uint32_t        order[N];
    qg_loader_spec  spec  = { .batch = 7, .seed = SEED, .validation = { .images = 50 } };
    qg_loader      *l     = numbered(uneven, 4, spec);
    qg_loader      *all   = numbered(uneven, 4, (qg_loader_spec){ .batch = 7 });
    const uint16_t *label = qg_loader_labels(all);
    const int       n = served(qg_loader_validation(l), held, ignored);
    for (int i = 0; i < n; i++) is_held[held[i]] = true;
    qg__permutation(qg_rng_fork(SEED, 5), N, order);
    for (int i = 0; i < N; i++) assert_int_equal(is_held[order[i]], left[label[order[i]]]-- > 0);
    qg_loader_free(l), qg_loader_free(all);
}

/* The images are those of the file, whatever is held out. */
static void the_digest_is_that_of_the_whole_set(void **state)
{
    qg_loader *all  = numbered(uneven, 4, (qg_loader_spec){ .batch = 7 });
    qg_loader *part = numbered(uneven, 4, (qg_loader_spec){ .batch = 7, .validation = { .images = 50 } });
    assert_true(qg__loader_digest(all) == qg__loader_digest(part));
    assert_null(qg_loader_validation(all));
    assert_null(qg_loader_validation(NULL));
    qg_loader_free(all), qg_loader_free(part);
}

static void the_statistics_are_those_of_the_rest(void **state)
{
    int               train[N], ignored[MOST_CLASSES] = { 0 };
    const qg_holdout  part = { .share = 0.25 };
    qg_loader *raw = numbered(uneven, 4, (qg_loader_spec){ .batch = 200, .seed = 4, .validation = part });
    const int         n    = served(raw, train, ignored);
    double            sum  = 0, squares = 0;
    for (int i = 0; i < n; i++) sum += train[i], squares += train[i] * train[i];
    const double mean = sum / n, deviation = sqrt(squares / n - mean * mean);
    qg_loader   *l    = numbered(uneven, 4, (qg_loader_spec){ .batch = 200, .seed = 4, .validation = part,
                                                              .normalise = { .kind = QG_PER_CHANNEL } });
    qg_loader   *v    = qg_loader_validation(l);
    assert_true(qg__preprocess_equal(qg_loader_preprocess(l), qg_loader_preprocess(v)));
    qg_batch b, bytes;
    assert_true(qg_loader_next(v, &b) && qg_loader_next(qg_loader_validation(raw), &bytes));
    for (int i = 0; i < 2 * b.x.shape.n; i++) {         /* rounded to float a few times */
        const double want = (255.0 * (double)bytes.x.data[i] - mean) / deviation;
        assert_true(fabs((double)b.x.data[i] - want) < 1e-5);
    }
    qg_loader_free(raw), qg_loader_free(l);
}

static void whitening_too(void **state)
{
    qg_loader *l = numbered(uneven, 4,
                            (qg_loader_spec){ .batch = 9,
                                              .validation = { .images = 21 },
                                              .normalise = { .kind = QG_WHITEN } });
    qg_batch   b;
    assert_non_null(l);
    assert_true(qg_loader_next(qg_loader_validation(l), &b));
    assert_true(b.x.shape.n == 9 && isfinite(b.x.data[0]));
    qg_loader_free(l);
}

static void assert_refused(const int *counts, qg_holdout part, const char *why)
{
    assert_none(numbered(counts, 4, (qg_loader_spec){ .batch = 3, .validation = part }), why);
    assert_int_equal(qg_errcode(), QG_EARG);
}

static void what_cannot_be_held_out(void **state)
{
    static const int few[] = { 1, 1, 3, 0 };
    assert_refused(uneven, (qg_holdout){ .images = -1 }, "validation: -1 images, must be 0 or more");
    assert_refused(uneven, (qg_holdout){ .share = 1 },
                   "validation: a fraction of 1, must be 0 or more and less than 1");
    assert_refused(uneven, (qg_holdout){ .share = (double)NAN }, "must be 0 or more and less than 1");
    assert_refused(uneven, (qg_holdout){ .images = 5, .share = 0.5 },
                   "5 images and a fraction of 0.5 exclude each other");
    assert_refused(uneven, (qg_holdout){ .share = 0.001 },
                   "validation: a fraction of 0.001 of 200 images is none");
    assert_refused(uneven, (qg_holdout){ .images = 197 },
                   "validation: 197 of 200 images, but the classes can spare at most 196, since each keeps "
                   "one");
    assert_refused(few, (qg_holdout){ .images = 3 }, "the classes can spare at most 2, since each keeps one");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_class_gives_its_part),
        cmocka_unit_test(the_seed_draws_them),
        cmocka_unit_test(they_come_first_in_the_permutation),
        cmocka_unit_test(the_digest_is_that_of_the_whole_set),
        cmocka_unit_test(the_statistics_are_those_of_the_rest),
        cmocka_unit_test(whitening_too),
        cmocka_unit_test(what_cannot_be_held_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
