#include "cli/report/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int bins_for(size_t n)
{
    const int bins = (int)(sqrt((double)n) / 1.5);
    return bins < 8 ? 8 : bins > WEIGHT_BINS ? WEIGHT_BINS : bins;
}

static bool fill_bins(size_t n, const float *w, weight_picture *out)
{
    float least = INFINITY, greatest = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(w[i])) return false;
        least    = fminf(least, w[i]);
        greatest = fmaxf(greatest, w[i]);
    }
    const double from  = (double)least, room = (double)greatest - from;
    const int    bins  = bins_for(n);
    const double width = (room > 0 ? room : fmax(fabs(from), 1)) / bins;
    const double begin = room > 0 ? from : from - width * bins / 2;
    for (int b = 0; b <= bins; b++) out->edge[b] = begin + width * b;
    for (size_t i = 0; i < n; i++) {
        const int b = (int)(((double)w[i] - begin) / width);
        out->in_bin[b < bins ? b : bins - 1]++;
    }
    for (int b = 0; b < bins; b++) out->density[b] = (double)out->in_bin[b] / ((double)n * width);
    out->count = n;
    out->bins  = bins;
    return true;
}

/* The level of q, which is added in order if it is new; -1: there are too many. */
static int level_of(weight_picture *out, float q)
{
    int k = 0;
    while (k < out->levels && out->level[k] < q) k++;
    if (k < out->levels && out->level[k] == q) return k;
    if (out->levels == WEIGHT_LEVELS) return -1;
    memmove(out->level + k + 1, out->level + k, (size_t)(out->levels - k) * sizeof *out->level);
    out->level[k] = q;
    out->levels++;
    return k;
}

static void find_levels(size_t n, const float *w, const float *q, weight_picture *out)
{
    double least[WEIGHT_LEVELS], greatest[WEIGHT_LEVELS];
    for (size_t i = 0; i < n; i++)
        if (!isfinite(q[i]) || level_of(out, q[i]) < 0) {
            out->levels = 0;
            return;
        }
    for (int k = 0; k < out->levels; k++) least[k] = INFINITY, greatest[k] = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        const int k = level_of(out, q[i]);
        least[k]    = fmin(least[k], (double)w[i]);
        greatest[k] = fmax(greatest[k], (double)w[i]);
        out->share[k] += 1.0 / (double)n;
    }
    for (int k = 0; k + 1 < out->levels; k++) {
        if (greatest[k] > least[k + 1]) {
            out->thresholds = 0;
            return;
        }
        out->threshold[k] = (greatest[k] + least[k + 1]) / 2;
        out->thresholds   = k + 1;
    }
}

qg_status weights_measure(qg_layer *l, qg_tape *t, weight_picture *out)
{
    const qg_slot *slot = qg_layer_slot(l, QG_WEIGHT);
    *out                = (weight_picture){ 0 };
    if (!slot || !slot->of) return QG_OK;
    const size_t    n      = qg_count(slot->of->shape);
    float          *folded = malloc(n * sizeof *folded);
    const qg_tensor w      = folded ? qg_layer_weight(l, folded) : (qg_tensor){ .data = NULL };
    qg_status       status = folded ? QG_OK : qg_fail(QG_EMEM, "out of memory for %zu weights", n);
    if (!status && w.data && fill_bins(n, w.data, out) && slot->q.scheme) {
        qg_tape_begin(t, QG_EVAL, 0, UINT64_MAX);       /* long after any delay */
        const qg_var *q = qg_slot_apply(slot, t, qg_input(t, w));
        if (!q) status = qg_tape_status(t);
        else out->quantized = true, find_levels(n, w.data, q->data, out);
    }
    free(folded);
    return status;
}
