/* tools/bench/scaling.h — what `bench scaling` measured and projects, and how it is printed. */
#ifndef TOOLS_BENCH_SCALING_H
#define TOOLS_BENCH_SCALING_H

#include <stdio.h>

#include "tools/bench/bench.h"

/* Two nodes exchange n bytes in seconds + n / bytes_per_second. */
typedef struct link_speed {
    double seconds, bytes_per_second;
} link_speed;

enum { MOST_LINKS = 4 };
typedef struct links {
    link_speed item[MOST_LINKS];
    int        count;
} links;

/* Lines of a table: 1, 2, 4 .. 64 ranks.  More than QG_MAX_RANKS are projected by formula. */
enum { DISTANCES = 4, LINES = 7 };
_Static_assert(1 << DISTANCES == QG_MAX_RANKS, "one distance for each bit of a rank's number");

typedef enum message_kind { WAITS, GRADIENT, SUM, BACKWARD_DONE } message_kind;

/* A message of a step.  A gradient goes to the ranks that add it up, and their sum comes back. */
typedef struct message {
    message_kind kind;
    int          bit;           /* the highest in which the two ranks differ */
    double       after_ms, bytes;       /* computing since the message before */
} message;

typedef struct line {
    int      ranks, batch;
    double   ms;                /* of a step; 0: not measured */
    double   exchange_ms;       /* of it spent sending and waiting, on rank 0 */
    double   compute_ms;        /* on the slowest rank */
    message *message;           /* of one step, in order */
    int      messages, room;
    double   last_ms;           /* computing after the last of them */
    double   latencies, sent;   /* if the messages are those of fewer ranks: what L and bytes are multiplied by; else 1 */
} line;

typedef struct table_of_ranks {
    line line[LINES];
    int  n;
} lines;

typedef struct scaling {
    config    *asked;
    const qg_recipe *config;    /* what it describes */
    links      links;           /* of --link */
    bench      shown;           /* what its net is; its loader, net and tape have gone */
    lines      strong, weak;    /* the same batch for all ranks; the same batch for each rank */
    link_speed link[DISTANCES]; /* measured, by distance */
    double     c, s;            /* computing takes c / ranks + s, in ms, for a batch that ranks share */
} scaling;

/* The highest bit in which the numbers of two ranks differ. */
int    scaling_bit_between(int a, int b);

/* ms of a step, with the links that were measured, by distance, or with one link everywhere. */
double scaling_predict(const line *l, const link_speed link[DISTANCES]);
double scaling_predict_alike(const line *l, link_speed link);

/* Of whatever takes ms, beside one rank. */
double scaling_efficiency(const lines *t, const line *l, double ms);

/* What a rank sends in a step, and how many messages it waits for. */
double scaling_bytes_of(const line *l);
double scaling_waits_of(const line *l);

void      scaling_print_text(const scaling *s);
void      scaling_print_json(const scaling *s);
qg_status scaling_print_svg(const void *scaling, FILE *out);

#endif
