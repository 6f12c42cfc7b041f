#include "tests/support/ranks.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cblas.h>

#include "core/kernels/parallel.h"
#include "core/dist/exchange.h"
#include "tests/support/testing.h"

/* A message that has been read from a socket. */
typedef struct letter {
    struct letter *next;
    size_t         bytes;
    int            from, tag;
    char           data[];
} letter;

/* socket[a][b] is what rank a has to reach rank b.  A thread reads all messages as they come, so that no rank waits until
 * another one reads. */
typedef struct mesh {
    int             rank, socket[QG_MAX_RANKS][QG_MAX_RANKS];
    letter         *first;
    bool            gone[QG_MAX_RANKS];     /* this rank sends no more */
    unsigned        asked;
    pthread_mutex_t lock;
    pthread_cond_t  news;
} mesh;

typedef struct head {
    size_t bytes;
    int    tag;
} head;

static bool all_read(int socket, void *data, size_t bytes)
{
    for (char *to = data; bytes > 0;) {
        const ssize_t n = read(socket, to, bytes);
        if (n <= 0) return false;
        to += n, bytes -= (size_t)n;
    }
    return true;
}

static bool all_written(int socket, const void *data, size_t bytes)
{
    for (const char *from = data; bytes > 0;) {
        const ssize_t n = send(socket, from, bytes, MSG_NOSIGNAL);
        if (n <= 0) return false;
        from += n, bytes -= (size_t)n;
    }
    return true;
}

static letter *read_letter(int socket, int from)
{
    head h;
    if (!all_read(socket, &h, sizeof h)) return NULL;
    letter *l = malloc(sizeof *l + h.bytes);
    if (!l) abort();
    *l = (letter){ .bytes = h.bytes, .from = from, .tag = h.tag };
    if (all_read(socket, l->data, h.bytes)) return l;
    free(l);
    return NULL;
}

static void *read_all(void *context)
{
    mesh *m = context;
    for (;;) {
        struct pollfd at[QG_MAX_RANKS];
        for (int r = 0; r < QG_MAX_RANKS; r++)
            at[r] = (struct pollfd){ .fd = m->gone[r] || !m->socket[m->rank][r] ? -1 : m->socket[m->rank][r], .events = POLLIN };
        if (poll(at, QG_MAX_RANKS, -1) < 0) continue;
        for (int r = 0; r < QG_MAX_RANKS; r++) {
            if (!at[r].revents) continue;
            letter *l = read_letter(at[r].fd, r), **last = &m->first;
            pthread_mutex_lock(&m->lock);
            while (*last) last = &(*last)->next;
            *last      = l;
            m->gone[r] = !l;
            pthread_cond_broadcast(&m->news);
            pthread_mutex_unlock(&m->lock);
        }
    }
    return NULL;
}

/* The next message of that rank with that tag, or NULL: there is none yet, or with `wait`, there will be none. */
static letter *take(mesh *m, int from, int tag, bool wait)
{
    pthread_mutex_lock(&m->lock);
    letter **at, *found;
    for (;;) {
        for (at = &m->first; *at && ((*at)->from != from || (*at)->tag != tag);) at = &(*at)->next;
        if (*at || !wait || m->gone[from]) break;
        pthread_cond_wait(&m->news, &m->lock);
    }
    if ((found = *at)) *at = found->next;
    pthread_mutex_unlock(&m->lock);
    return found;
}

static qg_status put(const mesh *m, int other, int tag, const void *data, size_t bytes)
{
    const int  socket = m->socket[m->rank][other];
    const head h      = { bytes, tag };
    return all_written(socket, &h, sizeof h) && all_written(socket, data, bytes) ? QG_OK : qg_fail(QG_ESTATE, "a rank has gone");
}

static void open_letter(letter *l, void *in)
{
    memcpy(in, l->data, l->bytes);
    free(l);
}

static qg_status exchange(void *context, int other, const void *out, void *in, size_t bytes_out, size_t bytes_in)
{
    const qg_status status = put(context, other, 0, out, bytes_out);
    letter         *l      = status ? NULL : take(context, other, 0, true);
    if (!l) return qg_fail(QG_ESTATE, "a rank has gone");
    if (l->bytes != bytes_in) return qg_fail(QG_ESTATE, "%zu bytes instead of %zu", l->bytes, bytes_in);
    open_letter(l, in);
    return QG_OK;
}

/* A transfer keeps whose message it waits for, and where that goes. */
static qg_status post(void *context, qg__transfer *t, int other, const void *out, void *in, size_t bytes_out, size_t bytes_in)
{
    (void)bytes_in;
    t->request[t->n++] = (void *)(intptr_t)other;
    t->request[t->n++] = in;
    return put(context, other, t->tag, out, bytes_out);
}

/* Three times out of four nothing has arrived, on each rank at other times. */
static qg_status arrived(void *context, qg__transfer *t, bool wait, bool *all)
{
    mesh *m = context;
    int   left = 0;
    *all = false;
    if (!wait && (m->asked++ * 2654435769u + (unsigned)m->rank * 40503u) >> 30) return QG_OK;
    for (int i = 0; i < t->n; i += 2) {
        const int other = (int)(intptr_t)t->request[i];
        letter   *l     = take(m, other, t->tag, wait);
        if (l) {
            open_letter(l, t->request[i + 1]);
            continue;
        }
        if (wait) return qg_fail(QG_ESTATE, "a rank has gone");
        t->request[left]     = t->request[i];
        t->request[left + 1] = t->request[i + 1];
        left += 2;
    }
    t->n = left;
    *all = left == 0;
    return QG_OK;
}

static mesh mesh_of(int ranks)
{
    mesh m = { .lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER };
    for (int a = 0; a < ranks; a++)
        for (int b = a + 1; b < ranks; b++) {
            int pair[2];
            assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
            m.socket[a][b] = pair[0], m.socket[b][a] = pair[1];
        }
    return m;
}

/* A rank keeps its own ends alone, so that the others notice when it ends. */
static void keep_own(const mesh *m, int ranks)
{
    for (int a = 0; a < ranks; a++)
        for (int b = 0; b < ranks; b++)
            if (a != b && a != m->rank) close(m->socket[a][b]);
}

static void join(mesh *m, int ranks)
{
    pthread_t reader;
    if (pthread_create(&reader, NULL, read_all, m)) abort();
    qg__ranks_join(m->rank, ranks, (qg__link){ exchange, post, arrived, m });
}

uint64_t run_ranks(int ranks, int threads, uint64_t (*work)(void *context), void *context)
{
    mesh     m = mesh_of(ranks);
    pid_t    child[QG_MAX_RANKS];
    int      result[2];
    uint64_t first = 0;
    assert_int_equal(pipe(result), 0);
    openblas_set_num_threads(1);        /* else each rank starts threads of OpenBLAS, which wait for work in a loop */
    fflush(NULL);
    for (m.rank = 0; m.rank < ranks; m.rank++) {
        child[m.rank] = fork();
        assert_true(child[m.rank] >= 0);
        if (child[m.rank] > 0) continue;
        keep_own(&m, ranks);
        if (ranks > 1) join(&m, ranks);
        qg_set_threads(threads);
        const uint64_t value = work(context);
        _exit(write(result[1], &value, sizeof value) == sizeof value ? 0 : 1);
    }
    for (int a = 0; a < ranks; a++)
        for (int b = 0; b < ranks; b++)
            if (a != b) close(m.socket[a][b]);
    close(result[1]);
    for (int r = 0; r < ranks; r++) {
        uint64_t value;
        int      status;
        assert_int_equal(read(result[0], &value, sizeof value), sizeof value);
        if (r == 0) first = value;
        if (value != first) fail_msg("of %d ranks, two have %016llx and %016llx", ranks, (unsigned long long)first, (unsigned long long)value);
        assert_int_equal(waitpid(child[r], &status, 0), child[r]);
        assert_int_equal(status, 0);
    }
    close(result[0]);
    return first;
}
