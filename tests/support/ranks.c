#include "tests/support/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/kernels/parallel.h"
#include "core/ranks.h"
#include "core/slices.h"
#include "tests/support/testing.h"

/* socket[a][b] is what rank a has to reach rank b. */
typedef struct mesh {
    int rank, socket[QG_MOST_RANKS][QG_MOST_RANKS];
} mesh;

static qg_status passed(ssize_t (*pass)(int, char *, size_t), int socket, char *data, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t n = pass(socket, data, bytes);
        if (n <= 0) return qg_fail(QG_ESTATE, "a rank has gone");
        data += n, bytes -= (size_t)n;
    }
    return QG_OK;
}

static ssize_t put(int socket, char *data, size_t bytes) { return write(socket, data, bytes); }
static ssize_t get(int socket, char *data, size_t bytes) { return read(socket, data, bytes); }

/* The lower rank writes while the higher one reads, then the other way round. */
static qg_status exchange(void *context, int other, const void *out, void *in, size_t bytes_out, size_t bytes_in)
{
    const mesh *m       = context;
    const int   socket  = m->socket[m->rank][other];
    const bool  speaks  = m->rank < other;
    char       *to      = (char *)(uintptr_t)out;
    qg_status   status  = speaks ? passed(put, socket, to, bytes_out) : passed(get, socket, in, bytes_in);
    if (!status) status = speaks ? passed(get, socket, in, bytes_in) : passed(put, socket, to, bytes_out);
    return status;
}

static mesh mesh_of(int ranks)
{
    mesh m = { 0 };
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

uint64_t run_ranks(int ranks, int threads, uint64_t (*work)(void *context), void *context)
{
    mesh     m = mesh_of(ranks);
    pid_t    child[QG_MOST_RANKS];
    int      result[2];
    uint64_t first = 0;
    assert_int_equal(pipe(result), 0);
    fflush(NULL);
    for (m.rank = 0; m.rank < ranks; m.rank++) {
        child[m.rank] = fork();
        assert_true(child[m.rank] >= 0);
        if (child[m.rank] > 0) continue;
        keep_own(&m, ranks);
        if (ranks > 1) qg__ranks_join(m.rank, ranks, exchange, &m);
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
