/* A pool that never waits for a thread that is not running.
 *
 * The caller publishes a job and works on it like every worker.  Each worker has a share of the pieces, so
 * that the same images tend to meet the same core, and takes from the others' shares when its own is done.
 * A worker that the system has not scheduled takes nothing: the job ends when every piece has run, not when
 * every thread has answered.  An OpenMP loop instead ends with a barrier, which costs a time slice per loop
 * as soon as other programs want the cores, and a training step of a few milliseconds has some sixty loops.
 */
#define _GNU_SOURCE     /* sched_getaffinity */
#include "core/kernels/parallel.h"

#include <cblas.h>
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/status.h"

enum { SPINS = 2000 };      /* some 50 us: the gaps between the loops of a step are shorter */

/* The low half is the next piece of the share, the high half the number of its job: a worker that comes late,
 * with a job that is over, cannot take a piece of the next one. */
typedef struct share {
    _Alignas(64) _Atomic uint64_t next;
} share;

static struct pool {
    pthread_mutex_t  mutex;         /* for sleeping */
    pthread_cond_t   wake;
    atomic_flag      busy;          /* a caller has entered: others run their loops alone */
    int              started;       /* worker threads, numbered from 1 */
    atomic_int       sleepers;
    _Atomic uint32_t job;           /* its number; a change is the signal to start */
    _Atomic(qg_piece) run;
    _Atomic(void *)  context;
    atomic_int       pieces, shares;
    atomic_int       left;          /* pieces that have not returned */
    share            share[QG_MAX_THREADS];
} pool = { .mutex = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .busy = ATOMIC_FLAG_INIT };

/* The number of threads of OpenBLAS is one for the whole process. */
static struct blas {
    pthread_mutex_t mutex;
    int             users;          /* callers whose pieces need it to be 1 */
    int             host;           /* what it was before the first of them */
    int             buffers;        /* that OpenBLAS is known to hold */
    int             granted;        /* of these, to the callers */
} blas = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static pthread_once_t    forks = PTHREAD_ONCE_INIT;
static atomic_int        chosen;        /* how many threads; 0: not set yet */
static _Thread_local int mine;          /* the number this thread uses until its next step; 0: ask */
static _Thread_local bool inside;       /* a piece is running: loops in it are serial */

static int cores(void)
{
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

/* Users expect the variable that OpenMP programs read to work here too. */
static int default_threads(void)
{
    const char *text = getenv("OMP_NUM_THREADS");
    const long  n    = text ? strtol(text, NULL, 10) : 0;
    return n < 1 ? cores() : n < QG_MAX_THREADS ? (int)n : QG_MAX_THREADS;
}

/* OpenBLAS takes 128 MiB of address space for each thread that multiplies. */
static int affordable(int n)
{
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) || space.rlim_cur == RLIM_INFINITY) return n;
    const rlim_t most = space.rlim_cur / ((rlim_t)256 << 20);
    return most < 1 ? 1 : most < (rlim_t)n ? (int)most : n;
}

int qg_threads(void)
{
    if (chosen == 0) qg_set_threads(0);
    if (mine == 0) mine = chosen;
    return mine;
}

void qg__threads_renew(void) { mine = 0; }

void qg_set_threads(int n)
{
    if (n < 1) n = default_threads();
    chosen = affordable(n < QG_MAX_THREADS ? n : QG_MAX_THREADS);
    mine   = 0;
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* --- taking pieces ------------------------------------------------------------------------ */

static int first_piece(int pieces, int shares, int s) { return (int)((long long)pieces * s / shares); }

/* The next piece of share s, or -1. */
static int take(uint32_t job, int pieces, int shares, int s)
{
    const uint32_t end  = (uint32_t)first_piece(pieces, shares, s + 1);
    uint64_t       next = atomic_load(&pool.share[s].next);
    while (next >> 32 == job && (uint32_t)next < end)
        if (atomic_compare_exchange_weak(&pool.share[s].next, &next, next + 1)) return (int)(uint32_t)next;
    return -1;
}

static void work(uint32_t job, int worker)
{
    const qg_piece run     = atomic_load(&pool.run);
    void          *context = atomic_load(&pool.context);
    const int      pieces = atomic_load(&pool.pieces), shares = atomic_load(&pool.shares);
    if (worker >= shares) return;
    inside = true;
    for (int k = 0; k < shares; k++) {
        const int s = (worker + k) % shares;
        for (int piece; (piece = take(job, pieces, shares, s)) >= 0;) {
            run(context, piece, worker);
            atomic_fetch_sub(&pool.left, 1);
        }
    }
    inside = false;
}

/* --- workers ------------------------------------------------------------------------------ */

static uint32_t next_job(uint32_t seen)
{
    for (int i = 0; i < SPINS; i++, relax())
        if (atomic_load(&pool.job) != seen) return atomic_load(&pool.job);
    pthread_mutex_lock(&pool.mutex);
    atomic_fetch_add(&pool.sleepers, 1);
    while (atomic_load(&pool.job) == seen) pthread_cond_wait(&pool.wake, &pool.mutex);
    atomic_fetch_sub(&pool.sleepers, 1);
    pthread_mutex_unlock(&pool.mutex);
    return atomic_load(&pool.job);
}

static void *worker_main(void *number)
{
    const int worker = (int)(intptr_t)number;
    fesetenv(FE_DFL_ENV);       /* whatever the thread had that started this one */
    for (uint32_t job = 0;;) {
        job = next_job(job);
        work(job, worker);
    }
    return NULL;
}

/* A forked child has none of the parent's threads: no workers, no sleepers, and nobody who would leave what
 * another thread had entered.  It has no job either.  Were the parent's still there, the first workers of
 * the child would take its pieces before the child publishes a job of its own. */
static void forget_threads(void)
{
    blas.mutex   = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    blas.users   = 0;
    blas.buffers = 0;               /* those that another thread was using are lost */
    blas.granted = 0;
    pool.mutex   = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    pool.wake    = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    pool.started = 0;
    atomic_store(&pool.sleepers, 0);
    atomic_store(&pool.job, 0);
    atomic_store(&pool.shares, 0);
    for (int s = 0; s < QG_MAX_THREADS; s++) atomic_store(&pool.share[s].next, 0);
    atomic_flag_clear(&pool.busy);
}

static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, forget_threads); }

/* Threads live as long as the process, so their code must stay mapped: libqgrad.so is linked with -z nodelete.  If one cannot be
 * started, the pool works without it, and the next loop tries again.  They take no signals but those of their own
 * faults and of a profiler: the others are the caller's, who may wait for them. */
static void start_workers(int n)
{
    static const int of_thread[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGPROF };
    pthread_attr_t attr;
    pthread_t      thread;
    sigset_t       all, was;
    if (pool.started >= n || pthread_attr_init(&attr)) return;
    pthread_once(&forks, watch_forks);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    for (size_t i = 0; i < sizeof of_thread / sizeof *of_thread; i++) sigdelset(&all, of_thread[i]);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    while (pool.started < n &&
           !pthread_create(&thread, &attr, worker_main, (void *)(intptr_t)(pool.started + 1)))
        pool.started++;
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    pthread_attr_destroy(&attr);
}

/* --- the caller --------------------------------------------------------------------------- */

static uint32_t publish(int pieces, int shares, qg_piece run, void *context)
{
    const uint32_t job = atomic_load(&pool.job) + 1;
    /* Close every share to the job before, describe the new one, then open them. */
    for (int s = 0, used = atomic_load(&pool.shares); s < used; s++)
        atomic_store(&pool.share[s].next, (uint64_t)job << 32 | UINT32_MAX);
    atomic_store(&pool.run, run);
    atomic_store(&pool.context, context);
    atomic_store(&pool.pieces, pieces);
    atomic_store(&pool.shares, shares);
    atomic_store(&pool.left, pieces);
    for (int s = 0; s < shares; s++)
        atomic_store(&pool.share[s].next, (uint64_t)job << 32 | (uint32_t)first_piece(pieces, shares, s));
    atomic_store(&pool.job, job);
    if (atomic_load(&pool.sleepers)) {
        pthread_mutex_lock(&pool.mutex);
        pthread_cond_broadcast(&pool.wake);
        pthread_mutex_unlock(&pool.mutex);
    }
    return job;
}

/* On at most so many threads. */
static void run_on(int threads, int pieces, qg_piece run, void *context)
{
    if (threads == 1 || pieces < 2 || inside || atomic_flag_test_and_set(&pool.busy)) {
        for (int i = 0; i < pieces; i++) run(context, i, 0);
        return;
    }
    start_workers(threads - 1);
    work(publish(pieces, threads, run, context), 0);
    for (int spins = 0; atomic_load(&pool.left) > 0;)
        if (spins < SPINS) spins++, relax();
        else sched_yield();         /* its thread is waiting for a core, perhaps this one */
    atomic_flag_clear(&pool.busy);
}

void qg_parallel(int pieces, qg_piece run, void *context) { run_on(qg_threads(), pieces, run, context); }

/* --- BLAS --------------------------------------------------------------------------------- */

/* OpenBLAS maps a buffer for each product that runs at a time, and keeps it.  If it cannot, it tries again without
 * end.  So its buffers are taken before the loop, one by one, each after a mapping of that size has succeeded. */
#define BUFFER_BYTES ((size_t)128 << 20)

#if defined(__ELF__)
void *blas_memory_alloc(int unused) __attribute__((weak));      /* OpenBLAS exports them, without a header */
void  blas_memory_free(void *buffer) __attribute__((weak));
#else
static void *(*const blas_memory_alloc)(int)   = NULL;
static void  (*const blas_memory_free)(void *) = NULL;
#endif

static bool has_room(size_t bytes)
{
    void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return room != MAP_FAILED && munmap(room, bytes) == 0;
}

/* Makes OpenBLAS hold n buffers, or as many as there is room for. */
static void take_buffers(int n)
{
    enum { MOST = 2 * QG_MAX_THREADS };
    void *taken[MOST];
    int   m = 0;
    if (n > MOST) n = MOST;
    if (!blas_memory_alloc || !blas_memory_free) {
        while (n > blas.buffers && !has_room((size_t)n * BUFFER_BYTES)) n--;
        m = n;
    } else {
        for (; m < n && has_room(BUFFER_BYTES); m++) taken[m] = blas_memory_alloc(0);
        for (int i = 0; i < m; i++) blas_memory_free(taken[i]);
    }
    if (m > blas.buffers) blas.buffers = m;
}

/* How many threads may multiply, up to wanted; 0: there is no room for a buffer. */
static int enter_blas(int wanted)
{
    pthread_once(&forks, watch_forks);
    pthread_mutex_lock(&blas.mutex);
    if (blas.granted + wanted > blas.buffers) take_buffers(blas.granted + wanted);
    const int left    = blas.buffers - blas.granted;
    const int granted = wanted < left ? wanted : left;
    blas.granted += granted;
    if (granted > 0 && blas.users++ == 0) {
        blas.host = openblas_get_num_threads();
        if (blas.host != 1) openblas_set_num_threads(1);
    }
    pthread_mutex_unlock(&blas.mutex);
    return granted;
}

/* A number that the program has set in the meantime stays. */
static void leave_blas(int granted)
{
    pthread_mutex_lock(&blas.mutex);
    if (blas.users > 0) {           /* not in a child that was forked in a loop */
        blas.granted -= granted;
        if (--blas.users == 0 && blas.host != 1 && openblas_get_num_threads() == 1) openblas_set_num_threads(blas.host);
    }
    pthread_mutex_unlock(&blas.mutex);
}

qg_status qg_parallel_blas(int pieces, qg_piece run, void *context)
{
    if (pieces < 1) return QG_OK;
    const int threads = inside ? 1 : qg_threads();
    const int granted = enter_blas(pieces < threads ? pieces : threads);
    if (granted < 1)
        return qg_fail(QG_EMEM, "out of memory: OpenBLAS needs a buffer of %zu bytes", BUFFER_BYTES);
    run_on(granted, pieces, run, context);
    leave_blas(granted);
    return QG_OK;
}
