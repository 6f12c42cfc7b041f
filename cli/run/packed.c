#include "cli/run/packed.h"

#include <math.h>
#include <stdlib.h>

#include "cli/print.h"
#include "core/clock.h"
#include "core/io/paths.h"
#include "core/kernels/parallel.h"

enum { LINE = 64, LEAST_CALLS = 3 };
static const size_t MOST_BYTES = (size_t)1 << 31;

qg_status packed_status(const char *path, qg_infer_status s)
{
    static const qg_status of[] = { [QG_INFER_EFORMAT] = QG_EFORMAT, [QG_INFER_EVERSION] = QG_EFORMAT,
                                    [QG_INFER_ECHECKSUM] = QG_EFORMAT, [QG_INFER_EMEMORY] = QG_EMEM, [QG_INFER_EARG] = QG_EARG,
                                    [QG_INFER_ENAN] = QG_ENAN, [QG_INFER_EMODE] = QG_ESTATE };
    return s == QG_INFER_OK ? QG_OK : qg_fail(of[s], "%s: %s", path, qg_infer_message(s));
}

/* bytes is a multiple of LINE. */
static qg_status allocate(unsigned char **memory, size_t bytes)
{
    *memory = aligned_alloc(LINE, bytes ? bytes : LINE);
    return *memory ? QG_OK : qg_fail(QG_EMEM, "out of memory: %zu bytes of a packed net", bytes);
}

qg_status packed_load(packed_net *p, const char *path, const unsigned char *file, size_t bytes, qg_infer_requantize how)
{
    size_t needs = 0;
    *p = (packed_net){ .bytes = bytes };
    qg_status status = packed_status(path, qg_infer_size(file, bytes, &needs));
    if (!status) status = allocate(&p->memory, needs);
    if (!status) status = packed_status(path, qg_infer_load_with(file, bytes, how, p->memory, needs, &p->net));
    if (status) return status;
    const qg_infer_shape in = qg_infer_input(p->net);
    p->image         = (qg_shape){ 1, in.h, in.w, in.c };
    p->scores        = qg_infer_scores(p->net);
    return QG_OK;
}

qg_status packed_open(packed_net *p, const char *path, qg_infer_requantize how)
{
    unsigned char *file  = NULL;
    size_t         bytes = 0;
    *p = (packed_net){ 0 };
    if (qg__path_is_directory(path))
        return qg_fail(QG_EARG, "'%s' is a directory, not a packed net; qgrad export writes the net of a run", path);
    qg_status status = qg__file_read_in(QG_BY_PATH, path, MOST_BYTES, &file, &bytes);
    if (!status) status = packed_load(p, path, file, bytes, how);
    free(file);
    return status;
}

qg_status packed_prepare(packed_net *p, int batch)
{
    p->batch         = batch;
    p->threads       = qg_threads();
    p->context_bytes = qg_infer_context_bytes(p->net, batch);
    return allocate(&p->context, (size_t)p->threads * p->context_bytes);
}

void packed_close(packed_net *p)
{
    free(p->memory);
    free(p->context);
    *p = (packed_net){ 0 };
}

typedef struct job {
    const packed_net *p;
    int               n;
    const uint8_t    *images;
    float            *scores;
    qg_infer_status  *status;       /* [threads] */
} job;

static void score_batch(void *context, int piece, int worker)
{
    const job        *j     = context;
    const packed_net *p     = j->p;
    const size_t      first = (size_t)piece * (size_t)p->batch, left = (size_t)j->n - first;
    const int         n     = left < (size_t)p->batch ? (int)left : p->batch;
    const qg_infer_status s = qg_infer_run_bytes(p->net, n, j->images + first * qg_row(p->image), j->scores + first * (size_t)p->scores,
                                                 p->context + (size_t)worker * p->context_bytes, p->context_bytes);
    if (s) j->status[worker] = s;
}

qg_status packed_score(const packed_net *p, const char *path, int n, const uint8_t *images, float *scores)
{
    qg_infer_status status[QG_MAX_THREADS] = { QG_INFER_OK };
    job             j = { p, n, images, scores, status };
    qg_parallel((n + p->batch - 1) / p->batch, score_batch, &j);
    for (int i = 0; i < p->threads; i++) {
        if (status[i] == QG_INFER_EARG)
            return qg_fail(QG_EARG, "%s: does not say how images of bytes are normalised, so only a program can run it, on floats "
                           "that it has normalised", path);
        if (status[i]) return packed_status(path, status[i]);
    }
    return QG_OK;
}

typedef struct observed {
    double *us;
    int     images;
    double  since;
} observed;

static void step_ended(void *user, int step)
{
    observed    *o    = user;
    const double took = 1e6 * (qg__now() - o->since) / o->images;
    if (took < o->us[step]) o->us[step] = took;
    o->since = qg__now();
}

qg_status packed_profile(const packed_net *p, const char *path, double seconds, double **us)
{
    const int    steps  = qg_infer_steps(p->net), most = qg_infer_images_at_once(p->net);
    const int    n      = p->batch < most ? p->batch : most;
    const size_t in     = (size_t)n * qg_row(p->image), out = (size_t)n * (size_t)p->scores;
    float       *x      = calloc(in + out, sizeof *x);
    observed     o      = { .us = malloc((size_t)steps * sizeof *o.us), .images = n };
    qg_status    status = x && o.us ? QG_OK : qg_fail(QG_EMEM, "out of memory for a profile");
    *us = o.us;
    for (int i = 0; i < steps && !status; i++) o.us[i] = INFINITY;
    const double began = qg__now();
    for (int calls = 0; !status && (calls < LEAST_CALLS || qg__now() - began < seconds); calls++) {
        o.since = qg__now();
        status  = packed_status(path, qg_infer_run_observed(p->net, n, x, x + in, p->context, p->context_bytes,
                                                            step_ended, &o));
    }
    free(x);
    return status;
}

void packed_print_profile(const packed_net *p, const double *us, int wide)
{
    const int steps = qg_infer_steps(p->net);
    double    all   = 0;
    for (int i = 0; i < steps; i++) all += us[i];
    printf("\n%-16s %-*s %12s %7s\n", "layer", wide, "step", "us per image", "share");
    for (int i = 0; i < steps; i++) {
        print_safe(stdout, "%-16s %-*s", qg_infer_step_name(p->net, i), wide, qg_infer_step_kind(p->net, i));
        printf(" %12.2f %5.1f %%\n", us[i], all > 0 ? 100 * us[i] / all : 0);
    }
}

void packed_json_profile(const packed_net *p, const double *us, qg__json *j)
{
    qg__json_open(j, "profile", '[');
    for (int i = 0; i < qg_infer_steps(p->net); i++) {
        qg__json_open(j, NULL, '{');
        qg__json_text(j, "layer", qg_infer_step_name(p->net, i));
        qg__json_text(j, "step", qg_infer_step_kind(p->net, i));
        qg__json_real(j, "us_per_image", us[i]);
        qg__json_close(j, '}');
    }
    qg__json_close(j, ']');
}
