/* tests/support/delay.h — links of any latency and bandwidth, for measurements: what make mpi-delay includes before
 * core/dist/ranks.c. */
#ifndef DELAY_H
#define DELAY_H

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "core/clock.h"
#include "core/dist/exchange.h"

/* Ranks that share a clock exchange messages as if each were on a node of its own and QGRAD_LINK said how these are joined,
 * "latency=200,gbits=1" in microseconds and Gbit/s.  A message carries the time at which it was sent, and the receiver sleeps
 * until it would have arrived.  Messages to a rank use its link one after the other. */
static struct delay {
    double latency, seconds_per_byte;       /* seconds */
    double busy;                            /* the link of this rank, until then */
} delay;

static qg_status delay_begin(void)
{
    const char *link = getenv("QGRAD_LINK");
    double      microseconds, gbits;
    char        more;
    if (!link || !*link) return QG_OK;
    if (sscanf(link, "latency=%lf,gbits=%lf%c", &microseconds, &gbits, &more) != 2 || !(microseconds >= 0) || !(gbits > 0))
        return qg_fail(QG_EARG, "QGRAD_LINK is not like latency=200,gbits=1");
    delay = (struct delay){ .latency = 1e-6 * microseconds, .seconds_per_byte = 8e-9 / gbits };
    prctl(PR_SET_TIMERSLACK, 1UL);          /* sleeps end within microseconds */
    return QG_OK;
}

/* When a message that was sent then has arrived. */
static double arrival(double sent, size_t bytes)
{
    if (sent > delay.busy) delay.busy = sent;
    delay.busy += (double)bytes * delay.seconds_per_byte;
    return delay.busy + delay.latency;
}

static void sleep_until(double then)
{
    const struct timespec t = { (time_t)then, (long)(1e9 * (then - (double)(time_t)then)) };
    while (delay.seconds_per_byte > 0 && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL)) {}
}

/* The time and the message, as one. */
static MPI_Datatype stamped(const double *stamp, const void *data, int bytes)
{
    MPI_Datatype type;
    MPI_Aint     at[2];
    MPI_Get_address(stamp, &at[0]);
    MPI_Get_address(data, &at[1]);
    MPI_Type_create_hindexed(2, (int[]){ (int)sizeof *stamp, bytes }, at, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    return type;
}

/* Messages that are under way while this rank computes. */
enum { MOST_UNDER_WAY = 1024 };
static struct under_way {
    const qg__transfer *of;                 /* NULL: none */
    double              sent, theirs, due;  /* due 0: not known yet */
    int                 bytes;
} under_way[MOST_UNDER_WAY];

static int begin_both(const qg__transfer *m, const void *out, int bytes_out, void *in, int bytes_in, int other, MPI_Request request[2])
{
    int i = 0;
    while (i < MOST_UNDER_WAY && under_way[i].of) i++;
    if (i == MOST_UNDER_WAY) return MPI_ERR_OTHER;
    struct under_way *u = &under_way[i];
    *u = (struct under_way){ .of = m, .sent = qg__now(), .bytes = bytes_in };
    MPI_Datatype from = stamped(&u->sent, out, bytes_out), to = stamped(&u->theirs, in, bytes_in);
    const int failed = MPI_Irecv(MPI_BOTTOM, 1, to, other, m->tag, MPI_COMM_WORLD, &request[0]) ||
                       MPI_Isend(MPI_BOTTOM, 1, from, other, m->tag, MPI_COMM_WORLD, &request[1]);
    MPI_Type_free(&from);                   /* once the messages have gone */
    MPI_Type_free(&to);
    return failed;
}

/* Of messages that MPI has delivered. */
static bool is_due(const qg__transfer *m, bool wait)
{
    double last = 0;
    for (struct under_way *u = under_way; u < under_way + MOST_UNDER_WAY; u++) {
        if (u->of != m) continue;
        if (u->due == 0) u->due = arrival(u->theirs, (size_t)u->bytes);
        if (u->due > last) last = u->due;
    }
    if (wait) sleep_until(last);
    if (qg__now() < last && delay.seconds_per_byte > 0) return false;
    for (struct under_way *u = under_way; u < under_way + MOST_UNDER_WAY; u++)
        if (u->of == m) u->of = NULL;
    return true;
}

static int send_and_receive(const void *out, int bytes_out, void *in, int bytes_in, int other)
{
    double       sent = qg__now(), theirs = 0;
    MPI_Datatype from = stamped(&sent, out, bytes_out), to = stamped(&theirs, in, bytes_in);
    const int    failed = MPI_Sendrecv(MPI_BOTTOM, 1, from, other, 0, MPI_BOTTOM, 1, to, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Type_free(&from);
    MPI_Type_free(&to);
    if (!failed) sleep_until(arrival(theirs, (size_t)bytes_in));
    return failed;
}

#endif
