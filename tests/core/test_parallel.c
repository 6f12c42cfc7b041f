#include "tests/support/testing.h"

#include <cblas.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "datasets/normalise.h"
#include "core/ops/ops.h"
#include "core/kernels/parallel.h"
#include "tests/support/environment.h"

enum { PIECES = 65 };

typedef struct visits {
    int count[PIECES], worker[PIECES];
} visits;

static void visit(void *context, int piece, int worker)
{
    visits *v = context;
    v->count[piece]++;
    v->worker[piece] = worker;
}

static void every_piece_runs_once(void **state)
{
    for (int threads = 1; threads <= 3; threads++) {
        for (int pieces = 0; pieces <= PIECES; pieces = 2 * pieces + 1) {
            visits v = { { 0 }, { 0 } };
            qg_set_threads(threads);
            qg_parallel(pieces, visit, &v);
            for (int i = 0; i < PIECES; i++) {
                assert_int_equal(v.count[i], i < pieces);
                assert_in_range(v.worker[i], 0, qg_threads() - 1);
            }
        }
    }
    qg_set_threads(0);
    assert_true(qg_threads() >= 1);
}

/* Jobs follow each other without a pause, of other sizes, on other numbers of threads: a worker that
 * comes late must not take a piece of the next one. */
static void jobs_in_quick_succession_do_not_mix(void **state)
{
    static visits v[2];
    for (int job = 0; job < 20000; job++) {
        const int pieces = 2 + job * 7 % (PIECES - 2);
        visits   *now = &v[job % 2], *before = &v[1 - job % 2];
        memset(now, 0, sizeof *now);
        const visits settled = *before;
        qg_set_threads(2 + job % 3);
        qg_parallel(pieces, visit, now);
        for (int i = 0; i < PIECES; i++) assert_int_equal(now->count[i], i < pieces);
        assert_memory_equal(before, &settled, sizeof settled);
    }
    qg_set_threads(0);
}

static void nest(void *context, int piece, int worker)
{
    visits *v = context;
    qg_parallel(3, visit, &v[piece]);
}

static void a_loop_inside_a_piece_is_serial(void **state)
{
    visits v[5] = { { { 0 }, { 0 } } };
    qg_set_threads(3);
    qg_parallel(5, nest, v);
    for (int k = 0; k < 5; k++)
        for (int i = 0; i < 3; i++) {
            assert_int_equal(v[k].count[i], 1);
            assert_int_equal(v[k].worker[i], 0);
        }
    qg_set_threads(0);
}

static void *call(void *context)
{
    visits *v = context;
    for (int job = 0; job < 500; job++) {
        memset(v, 0, sizeof *v);
        qg_parallel(PIECES, visit, v);
        for (int i = 0; i < PIECES; i++)
            if (v->count[i] != 1) return NULL;
    }
    return v;
}

static void two_threads_may_call_at_once(void **state)
{
    visits    v[2];
    pthread_t other;
    qg_set_threads(3);
    assert_int_equal(pthread_create(&other, NULL, call, &v[0]), 0);
    assert_ptr_equal(call(&v[1]), &v[1]);
    void *result = NULL;
    assert_int_equal(pthread_join(other, &result), 0);
    assert_ptr_equal(result, &v[0]);
    qg_set_threads(0);
}

static void *ask_for_seven(void *context)
{
    qg_set_threads(7);
    assert_int_equal(qg_threads(), 7);
    return context;
}

/* Scratch was taken for so many workers: what another thread says holds from the next step on. */
static void a_step_keeps_its_number_of_threads(void **state)
{
    qg_tape  *t = qg_tape_new();
    pthread_t other;
    qg_set_threads(3);
    qg_tape_begin(t, QG_EVAL, 0, 0);
    assert_int_equal(qg_threads(), 3);
    assert_int_equal(pthread_create(&other, NULL, ask_for_seven, NULL), 0);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_int_equal(qg_threads(), 3);
    qg_tape_begin(t, QG_EVAL, 0, 0);
    assert_int_equal(qg_threads(), 7);
    qg_set_threads(2);                          /* one's own word counts at once */
    assert_int_equal(qg_threads(), 2);
    qg_set_threads(0);
    qg_tape_free(t);
}

/* A forked child has none of its parent's workers and starts its own. */
static void a_forked_child_works_alone(void **state)
{
    qg_set_threads(3);
    visits v = { { 0 }, { 0 } };
    qg_parallel(PIECES, visit, &v);
    const pid_t child = fork();
    if (child == 0) {
        visits w;
        _exit(call(&w) == &w ? 7 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    qg_set_threads(0);
}

/* A job that stays open: each of its pieces reports that it has begun and waits for the end of a pipe. */
enum { HOLDERS = 64 };

typedef struct held {
    pid_t parent;
    int   begun[2], end[2];         /* pipes */
} held;

static void hold(void *context, int piece, int worker)
{
    held *h    = context;
    char  byte = 0;
    if (getpid() != h->parent) _exit(1);                /* a child has taken a piece of its parent's job */
    assert_int_equal(write(h->begun[1], &byte, 1), 1);
    assert_int_equal(read(h->end[0], &byte, 1), 0);
}

static void *hold_a_job_open(void *context)
{
    qg_parallel(4 * HOLDERS, hold, context);
    return NULL;
}

/* At the fork every share of the parent's job has pieces left, which the first worker of the child would
 * take if it saw them; the child starts 63 before it has a job of its own. */
static void fork_within_a_job(void)
{
    held      h = { .parent = getpid() };
    char      byte;
    pthread_t other;
    qg_set_threads(HOLDERS);
    assert_int_equal(pipe(h.begun), 0);
    assert_int_equal(pipe(h.end), 0);
    assert_int_equal(pthread_create(&other, NULL, hold_a_job_open, &h), 0);
    assert_int_equal(read(h.begun[0], &byte, 1), 1);
    const pid_t child = fork();
    if (child == 0) {
        visits v;
        _exit(call(&v) == &v ? 7 : 2);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    close(h.end[1]);
    assert_int_equal(pthread_join(other, NULL), 0);
    close(h.begun[0]), close(h.begun[1]), close(h.end[0]);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    qg_set_threads(0);
}

static int forks = 1;               /* test_parallel N: more of them */

static void a_forked_child_leaves_its_parents_job_alone(void **state)
{
    for (int i = 0; i < forks; i++) fork_within_a_job();
}

static void the_environment_sets_the_default(void **state)
{
    set_variable("OMP_NUM_THREADS", "5");
    qg_set_threads(0);
    assert_int_equal(qg_threads(), 5);
    set_variable("OMP_NUM_THREADS", "99999999999999999999");
    qg_set_threads(0);
    assert_int_equal(qg_threads(), QG_MAX_THREADS);
    set_variable("OMP_NUM_THREADS", "many");
    qg_set_threads(0);
    const int cores = qg_threads();
    set_variable("OMP_NUM_THREADS", NULL);
    qg_set_threads(0);
    assert_int_equal(qg_threads(), cores);
    qg_set_threads(100000);
    assert_int_equal(qg_threads(), QG_MAX_THREADS);
    qg_set_threads(0);
}

/* In a child, since a limit that was lowered may not be raised again by everybody. */
static void a_limit_of_memory_limits_threads(void **state)
{
    if (SANITIZED) skip();
    const struct { rlim_t mib; int asked, given; } row[] = { { 300, 8, 1 }, { 1100, 8, 4 }, { 5000, 3, 3 } };
    for (int i = 0; i < 3; i++) {
        const pid_t child = fork();
        if (child == 0) {
            const struct rlimit space = { row[i].mib << 20, row[i].mib << 20 };
            if (setrlimit(RLIMIT_AS, &space)) _exit(77);
            qg_set_threads(row[i].asked);
            _exit(qg_threads());
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(WEXITSTATUS(status), row[i].given);
    }
}

static void slices_and_blocks_cover_without_overlap(void **state)
{
    const int sizes[] = { 0, 1, 3, 7, 8, 9, 31, 33, 63, 65, 16383, 16384, 16385, 50000 };
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const int n = sizes[k];
        assert_int_equal(qg_slice_at(n, 0), 0);
        assert_int_equal(qg_slice_at(n, QG_SLICES), n);
        for (int s = 0; s < QG_SLICES; s++) {
            const int items = qg_slice_at(n, s + 1) - qg_slice_at(n, s);
            assert_in_range(items, n / QG_SLICES, n / QG_SLICES + 1);
        }
        const int blocks = qg_blocks((size_t)n);
        assert_int_equal(qg_block((size_t)n, blocks), n);
        for (int b = 0; b < blocks; b++) {
            assert_int_equal(qg_block((size_t)n, b), (size_t)b * QG_BLOCK);
            assert_true(qg_block((size_t)n, b + 1) > qg_block((size_t)n, b));
        }
    }
}

/* One step through every op that runs in parallel, large enough for several blocks each. */
static void step(float *out, size_t *n_out)
{
    enum { N = 5, H = 33, W = 31, C = 7 };
    qg_params p = { 0 };
    qg_param *x = declare(&p, "x", (qg_shape){ N, H, W, C });
    qg_param *b = declare(&p, "b", (qg_shape){ 1, 1, 1, C });
    allocate_apart(&p, 11);
    qg_tape      *t        = qg_tape_new();
    const uint16_t labels[] = { 0, 1, 2, 3, 6 };
    qg_tape_begin(t, QG_TRAIN, 3, 4);
    qg_var *v = qg_bias(t, qg_parameter(t, x), qg_parameter(t, b));
    v         = qg_add(t, qg_relu(t, v), qg_clip(t, qg_scale(t, v, 1.5f), -0.5f, 0.75f));
    v         = qg_dropout(t, qg_hardtanh(t, v), 0.25f);
    v         = qg_maxpool_with(t, v, (qg_pool_spec){ .size = 3, .stride = 1, .pad = 1 });
    v         = qg_avgpool_with(t, v, (qg_pool_spec){ .size = 3, .stride = 2, .pad = 1 });
    v         = qg_avgpool(t, qg_maxpool(t, v, 2), 3);
    v         = qg_cross_entropy(t, qg_global_avgpool(t, v), labels);
    assert_ok(qg_backward(t, v));
    memcpy(out, p.grad, p.length * sizeof *out);
    out[p.length] = v->data[0];
    *n_out        = p.length + 1;
    qg_tape_free(t);
    qg_params_release(&p);
}

/* The same for ops that sum over axes, learn per channel, or compare two tensors. */
static void step_of_pairs(float *out, size_t *n_out)
{
    enum { N = 5, H = 33, W = 31, C = 7 };
    qg_params p = { 0 };
    qg_param *x = declare(&p, "x", (qg_shape){ N, H, W, C });
    qg_param *a = declare(&p, "a", (qg_shape){ 1, 1, 1, C }), *g = declare(&p, "g", (qg_shape){ 1, 1, 1, C });
    allocate_apart(&p, 11);
    qg_tape *t = qg_tape_new();
    qg_tape_begin(t, QG_TRAIN, 3, 4);
    qg_var *v = qg_parameter(t, x), *slope = qg_parameter(t, a), *shift = qg_parameter(t, g);
    v         = qg_rprelu(t, v, shift, slope, slope);
    v         = qg_sub(t, qg_prelu(t, v, slope), qg_broadcast(t, qg_mean(t, v, QG_AXIS_N | QG_AXIS_W), x->shape));
    v         = qg_mul(t, qg_sigmoid(t, v), qg_broadcast(t, qg_sum(t, v, QG_AXIS_C), x->shape));
    qg_var *z = qg_slice(t, qg_softmax(t, v), (qg_shape){ .c = 3 }, (qg_shape){ 0 });
    v         = qg_concat(t, 2, (qg_var *[]){ v, z });
    qg_var *s = qg_tanh(t, qg_mean(t, v, QG_AXIS_H | QG_AXIS_W));
    qg_var *y = qg_add(t, qg_mse(t, v, qg_broadcast(t, s, v->shape)), qg_kl(t, s, qg_scale(t, s, -2), 3));
    assert_ok(qg_backward(t, y));
    memcpy(out, p.grad, p.length * sizeof *out);
    out[p.length] = y->data[0];
    *n_out        = p.length + 1;
    qg_tape_free(t);
    qg_params_release(&p);
}

static void ops_give_the_same_bits_for_any_thread_count(void **state)
{
    void (*const steps[])(float *, size_t *) = { step, step_of_pairs };
    float *one = malloc(2 * 40000 * sizeof *one), *many = one + 40000;
    size_t n, m;
    assert_non_null(one);
    for (int k = 0; k < 2; k++) {
        qg_set_threads(1);
        steps[k](one, &n);
        assert_true(n < 40000);
        for (int threads = 2; threads <= 3; threads++) {
            qg_set_threads(threads);
            steps[k](many, &m);
            assert_int_equal(n, m);
            assert_memory_equal(one, many, n * sizeof *one);
        }
    }
    qg_set_threads(0);
    free(one);
}

/* --- BLAS --------------------------------------------------------------------------------- */

enum { HOST = 3, PRODUCTS = 40 };       /* threads of the program's own products */

/* A product that OpenBLAS would cut for its threads, in blocks of columns. */
enum { ROWS = 192, STEPS = 600, COLUMNS = 520, BLOCK = COLUMNS / 2, NUMBERS = ROWS * COLUMNS };

typedef struct factors {
    float x[ROWS * STEPS], w[COLUMNS * STEPS], y[NUMBERS];
} factors;

static void multiply_block(void *context, int piece, int worker)
{
    factors *f = context;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, ROWS, BLOCK, STEPS, 1, f->x, STEPS,
                f->w + piece * BLOCK * STEPS, STEPS, 0, f->y + piece * BLOCK, COLUMNS);
}

/* The product into out, if there is one. */
static bool multiply(float *out)
{
    factors *f = malloc(sizeof *f);
    if (!f) return false;
    fill_uniform(f->x, ROWS * STEPS, -1, 1, 5);
    fill_uniform(f->w, COLUMNS * STEPS, -1, 1, 6);
    const bool ok = qg_parallel_blas(COLUMNS / BLOCK, multiply_block, f) == QG_OK;
    if (out) memcpy(out, f->y, sizeof f->y);
    free(f);
    return ok;
}

static void the_program_keeps_its_number_of_blas_threads(void **state)
{
    double a[4] = { 2, 1, 1, 2 }, values[2];
    for (int threads = 1; threads <= 2; threads++) {
        openblas_set_num_threads(HOST);
        qg_set_threads(threads);
        assert_int_equal(openblas_get_num_threads(), HOST);
        assert_true(multiply(NULL));
        assert_int_equal(openblas_get_num_threads(), HOST);
        assert_ok(qg__eigen(2, a, values));
        assert_int_equal(openblas_get_num_threads(), HOST);
    }
    openblas_set_num_threads(1);
    assert_true(multiply(NULL));
    assert_int_equal(openblas_get_num_threads(), 1);
    qg_set_threads(0);
}

static void note_blas_threads(void *context, int piece, int worker)
{
    int *found = context;
    found[piece] = openblas_get_num_threads();
    if (piece == 0 && found[PIECES]) openblas_set_num_threads(found[PIECES]);
}

static void nest_blas(void *context, int piece, int worker)
{
    int  *found = context;
    int   inner[2 * PIECES] = { 0 };
    if (qg_parallel_blas(2, note_blas_threads, inner)) found[PIECES] = -1;
    found[piece] = openblas_get_num_threads();          /* the outer loop goes on */
}

static void pieces_multiply_on_one_thread(void **state)
{
    int found[PIECES + 1] = { 0 };
    openblas_set_num_threads(HOST);
    qg_set_threads(2);
    assert_ok(qg_parallel_blas(PIECES, note_blas_threads, found));
    for (int i = 0; i < PIECES; i++) assert_int_equal(found[i], 1);
    assert_ok(qg_parallel_blas(PIECES, nest_blas, found));
    for (int i = 0; i < PIECES; i++) assert_int_equal(found[i], 1);
    assert_int_equal(found[PIECES], 0);
    assert_int_equal(openblas_get_num_threads(), HOST);
    qg_set_threads(1);
    found[PIECES] = 2;                                  /* a number that the program sets meanwhile stays */
    assert_ok(qg_parallel_blas(PIECES, note_blas_threads, found));
    assert_int_equal(openblas_get_num_threads(), 2);
    openblas_set_num_threads(1);
    qg_set_threads(0);
}

static void products_have_the_same_bits_whatever_the_program_set(void **state)
{
    float *one = malloc(2 * NUMBERS * sizeof *one), *many = one + NUMBERS;
    assert_non_null(one);
    openblas_set_num_threads(1);
    assert_true(multiply(one));
    openblas_set_num_threads(HOST);
    assert_true(multiply(many));
    assert_memory_equal(one, many, NUMBERS * sizeof *one);
    openblas_set_num_threads(1);
    free(one);
}

static void *keep_multiplying(void *context)
{
    for (int i = 0; i < PRODUCTS; i++)
        if (!multiply(NULL)) return NULL;
    return context;
}

/* Whoever leaves last restores it, whoever came first. */
static void two_threads_may_multiply_at_once(void **state)
{
    pthread_t other;
    int       here;
    void     *result = NULL;
    openblas_set_num_threads(HOST);
    assert_int_equal(pthread_create(&other, NULL, keep_multiplying, &here), 0);
    assert_ptr_equal(keep_multiplying(&here), &here);
    assert_int_equal(pthread_join(other, &result), 0);
    assert_ptr_equal(result, &here);
    assert_int_equal(openblas_get_num_threads(), HOST);
    openblas_set_num_threads(1);
}

/* The address space of this process. */
static rlim_t bytes_mapped(void)
{
    unsigned long long pages = 0;
    FILE              *f     = fopen("/proc/self/statm", "r");
    if (!f) return 0;
    if (fscanf(f, "%llu", &pages) != 1) pages = 0;
    fclose(f);
    return pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* 0: as expected; else the number of the check that failed. */
static int multiply_in(rlim_t mib, bool fits)
{
    visits              v     = { { 0 }, { 0 } };
    const rlim_t        bytes = bytes_mapped() + (mib << 20);
    const struct rlimit space = { bytes, bytes };
    if (setrlimit(RLIMIT_AS, &space)) return 1;
    if ((qg_parallel_blas(PIECES, visit, &v) == QG_OK) != fits) return 2;
    for (int i = 0; i < PIECES; i++)
        if (v.count[i] != fits) return 3;
    if (multiply(NULL) != fits) return 4;
    return !fits && (qg_errcode() != QG_EMEM || !strstr(qg_errmsg(), "out of memory: OpenBLAS")) ? 5 : 0;
}

/* Without room for a buffer of 128 MiB, OpenBLAS would try forever. */
static void blas_needs_room_for_its_buffers(void **state)
{
    if (SANITIZED || !bytes_mapped()) skip();
    openblas_set_num_threads(1);
    qg_set_threads(2);
    for (int fits = 0; fits < 2; fits++) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(600);
            _exit(multiply_in(fits ? 1000 : 64, fits));
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    qg_set_threads(0);
}

int main(int argc, char **argv)
{
    if (argc > 1) forks = atoi(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_piece_runs_once),
        cmocka_unit_test(jobs_in_quick_succession_do_not_mix),
        cmocka_unit_test(a_loop_inside_a_piece_is_serial),
        cmocka_unit_test(two_threads_may_call_at_once),
        cmocka_unit_test(a_step_keeps_its_number_of_threads),
        cmocka_unit_test(a_forked_child_works_alone),
        cmocka_unit_test(a_forked_child_leaves_its_parents_job_alone),
        cmocka_unit_test_teardown(the_environment_sets_the_default, restore_variables),
        cmocka_unit_test(a_limit_of_memory_limits_threads),
        cmocka_unit_test(slices_and_blocks_cover_without_overlap),
        cmocka_unit_test(ops_give_the_same_bits_for_any_thread_count),
        cmocka_unit_test(the_program_keeps_its_number_of_blas_threads),
        cmocka_unit_test(pieces_multiply_on_one_thread),
        cmocka_unit_test(products_have_the_same_bits_whatever_the_program_set),
        cmocka_unit_test(two_threads_may_multiply_at_once),
        cmocka_unit_test(blas_needs_room_for_its_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
