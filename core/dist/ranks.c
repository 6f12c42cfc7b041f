/* The only file that calls MPI, in a build with QG_WITH_MPI; in any other there is one rank. */
#include "core/dist/ranks.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "core/io/utf8.h"
#include "core/dist/exchange.h"

#if defined(QG_WITH_MPI)
#include <mpi.h>
#endif

_Static_assert((int)QG_MAX_RANKS == (int)QG_SLICES, "each rank has at least one slice of a batch");

static struct job {
    int         rank, ranks;
    qg__link    link;
    bool        lost;           /* messages of a step that has failed may still be under way */
    qg__traffic traffic;
} job = { .ranks = 1 }, whole = { .ranks = 1 };     /* whole: as the program began */

int qg_ranks(void) { return job.ranks; }
int qg_rank(void)  { return job.rank; }

void qg__ranks_join(int rank, int ranks, qg__link link)
{
    job = whole = (struct job){ .rank = rank, .ranks = ranks, .link = link };
}

void qg__ranks_act(int rank, int ranks, qg__link link)
{
    job = (struct job){ .rank = rank, .ranks = ranks, .link = link.exchange ? link : whole.link, .traffic = job.traffic };
}

static void wait_for_all(void);

bool qg__ranks_among(int ranks)
{
    qg__ranks_act(whole.rank, whole.ranks, (qg__link){ 0 });
    wait_for_all();
    job.ranks = job.rank < ranks ? ranks : 1;
    return job.rank < ranks;
}

qg__traffic qg__ranks_traffic(void)       { return job.traffic; }
void        qg__ranks_hid(double seconds) { job.traffic.hidden += seconds; }

static void count(double began, size_t bytes_out)
{
    job.traffic.seconds += qg__now() - began;
    job.traffic.bytes += (double)bytes_out;
    job.traffic.messages++;
}

/* What arrives next may be of the step that has failed. */
static qg_status check_lost(void)
{
    if (!job.lost) return QG_OK;
    return qg_fail(QG_ESTATE, "a step has failed on rank %d while gradients were on their way, so it cannot go on", job.rank);
}

qg_status qg__ranks_exchange(int other, const void *out, void *in, size_t bytes_out, size_t bytes_in)
{
    const double began  = qg__now();
    qg_status    status = check_lost();
    if (!status) status = job.link.exchange(job.link.context, other, out, in, bytes_out, bytes_in);
    count(began, bytes_out);
    return status;
}

qg_status qg__ranks_post(qg__transfer *m, int other, const void *out, void *in, size_t bytes_out, size_t bytes_in)
{
    if (!job.link.post) return qg__ranks_exchange(other, out, in, bytes_out, bytes_in);
    const double began  = qg__now();
    qg_status    status = check_lost();
    if (!status) status = job.link.post(job.link.context, m, other, out, in, bytes_out, bytes_in);
    count(began, bytes_out);
    return status;
}

qg_status qg__ranks_arrived(qg__transfer *m, bool wait, bool *all)
{
    const double began  = qg__now();
    qg_status    status = QG_OK;
    *all                = true;
    if (m->n > 0) status = job.link.arrived(job.link.context, m, wait, all);
    job.traffic.seconds += qg__now() - began;
    return status;
}

/* Open MPI's variable, then that of MPICH and Slurm. */
int qg_ranks_started(void)
{
    const char *said = getenv("OMPI_COMM_WORLD_SIZE");
    if (!said) said = getenv("PMI_SIZE");
    return said && atoi(said) > 1 ? atoi(said) : 1;
}

#if defined(QG_WITH_MPI)

/* MPI counts in ints. */
enum { MOST_BYTES = 1 << 30 };

/* make mpi-delay has these functions from tests/support/delay.h, where messages take the time of a slower link. */
#if !defined(QG_WITH_DELAY)

static qg_status delay_begin(void) { return QG_OK; }

static bool is_due(const qg__transfer *m, bool wait)
{
    return true;
}

static int begin_both(const qg__transfer *m, const void *out, int bytes_out, void *in, int bytes_in, int other, MPI_Request request[2])
{
    return MPI_Irecv(in, bytes_in, MPI_BYTE, other, m->tag, MPI_COMM_WORLD, &request[0]) ||
           MPI_Isend(out, bytes_out, MPI_BYTE, other, m->tag, MPI_COMM_WORLD, &request[1]);
}

static int send_and_receive(const void *out, int bytes_out, void *in, int bytes_in, int other)
{
    return MPI_Sendrecv(out, bytes_out, MPI_BYTE, other, 0, in, bytes_in, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

#endif

static qg_status exchange(void *context, int other, const void *out, void *in, size_t bytes_out, size_t bytes_in)
{
    const char *from = out;
    char       *to   = in;
    do {
        const int n = bytes_out < MOST_BYTES ? (int)bytes_out : MOST_BYTES, m = bytes_in < MOST_BYTES ? (int)bytes_in : MOST_BYTES;
        if (send_and_receive(from, n, to, m, other))
            return qg_fail(QG_ESTATE, "rank %d cannot reach rank %d", job.rank, other);
        from += n, bytes_out -= (size_t)n;
        to += m, bytes_in -= (size_t)m;
    } while (bytes_out > 0 || bytes_in > 0);
    return QG_OK;
}

_Static_assert(sizeof(MPI_Request) <= sizeof(void *), "a request fits into its place in a transfer");

static qg_status post(void *context, qg__transfer *m, int other, const void *out, void *in, size_t bytes_out, size_t bytes_in)
{
    MPI_Request request[2];
    if (bytes_out > MOST_BYTES || bytes_in > MOST_BYTES)
        return qg_fail(QG_EARG, "a message of %zu bytes to rank %d has more than %d", bytes_out > bytes_in ? bytes_out : bytes_in,
                       other, (int)MOST_BYTES);
    if (begin_both(m, out, (int)bytes_out, in, (int)bytes_in, other, request))
        return qg_fail(QG_ESTATE, "rank %d cannot reach rank %d", job.rank, other);
    for (int i = 0; i < 2; i++) memcpy(&m->request[m->n++], &request[i], sizeof request[i]);
    return QG_OK;
}

static qg_status arrived(void *context, qg__transfer *m, bool wait, bool *all)
{
    MPI_Request request[2 * QG_SLICES];
    MPI_Status  ignored[2 * QG_SLICES];     /* MPICH declares arrays, so gcc warns of MPI_STATUSES_IGNORE */
    int         done = true;
    for (int i = 0; i < m->n; i++) memcpy(&request[i], &m->request[i], sizeof request[i]);
    if (wait ? MPI_Waitall(m->n, request, ignored) : MPI_Testall(m->n, request, &done, ignored))
        return qg_fail(QG_ESTATE, "rank %d waits for messages that cannot arrive", job.rank);
    for (int i = 0; i < m->n; i++) memcpy(&m->request[i], &request[i], sizeof request[i]);
    *all = done && is_due(m, wait);
    if (*all) m->n = 0;
    return QG_OK;
}

static void forget(qg__transfer *m)
{
    for (int i = 0; i < m->n; i++) {
        MPI_Request request;
        memcpy(&request, &m->request[i], sizeof request);
        if (request == MPI_REQUEST_NULL) continue;
        if (i % 2 == 0) MPI_Cancel(&request);
        MPI_Request_free(&request);
    }
}

/* They sleep, since the ranks that they wait for may be measured on the same cores. */
static void wait_for_all(void)
{
    MPI_Request all;
    int         done = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &all);
    while (!MPI_Test(&all, &done, MPI_STATUS_IGNORE) && !done) nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

qg_status qg_ranks_begin(int *argc, char ***argv)
{
    int given, rank, ranks, begun = true, ended = false;
    if (MPI_Initialized(&begun) || MPI_Finalized(&ended) || begun)
        return qg_fail(QG_ESTATE, "qg_ranks_begin: MPI %s in this program, and begins once", ended ? "has ended" : "has already begun");
    if (MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &given) || given < MPI_THREAD_FUNNELED)
        return qg_fail(QG_ESTATE, "MPI does not begin, or not for programs with threads");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks == 1 && qg_ranks_started() > 1)
        return qg_fail(QG_ESTATE, "mpirun has started %d processes, but MPI connects none of them; use the mpirun of the MPI that this program "
                       "is linked with", qg_ranks_started());
    qg__ranks_join(rank, ranks, (qg__link){ exchange, post, arrived, NULL });
    if (QG_MAX_RANKS % ranks == 0) return delay_begin();
    return qg_fail(QG_EARG, "%d ranks do not divide the %d slices of a batch; use 1, 2, 4, 8 or 16", ranks, QG_MAX_RANKS);
}

void qg_ranks_end(void)
{
    int begun = false, ended = false;
    if (!MPI_Initialized(&begun) && !MPI_Finalized(&ended) && begun && !ended) MPI_Finalize();
    qg__ranks_join(0, 1, (qg__link){ 0 });
}

void qg_ranks_abort(int code, const char *line)
{
    if (whole.ranks == 1) return;
    /* All ranks may fail alike, and the first one then speaks for them. */
    if (job.rank > 0) {
        signal(SIGTERM, SIG_DFL);       /* it ends the wait when rank 0 has spoken, and this process */
        nanosleep(&(struct timespec){ .tv_sec = 5 }, NULL);
    }
    char shown[1024];
    qg__utf8_printable(line ? line : qg_errmsg(), shown, sizeof shown);
    if (job.rank > 0) fprintf(stderr, "rank %d: %s\n", job.rank, shown);
    else fprintf(stderr, "%s\n", shown);
    fflush(NULL);
    MPI_Abort(MPI_COMM_WORLD, code);
}

#else

static void forget(qg__transfer *m) { }

static void wait_for_all(void) { qg_ranks_any(false); }

qg_status qg_ranks_begin(int *argc, char ***argv)
{
    return QG_OK;
}

void qg_ranks_end(void) {}

void qg_ranks_abort(int code, const char *line) { }

#endif

void qg__ranks_forget(qg__transfer *m)
{
    forget(m);
    m->n     = 0;
    job.lost = true;
}
