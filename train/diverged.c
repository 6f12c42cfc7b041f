#include "train/measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/dist/exchange.h"
#include "core/io/number.h"
#include "core/walk.h"
#include "layers/plan.h"

static float greatest(const float *x, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

/* A parameter of the layer, "conv1.weight", with a value that is not finite; NULL: none. */
static const qg_param *culprit(const qg_net *net, const qg_layer *l)
{
    const qg_params *all = qg_net_params(net);
    const size_t     n   = strlen(l->name);
    for (int i = 0; i < all->count; i++) {
        const qg_param *p = all->item[i];
        if (!strncmp(p->name, l->name, n) && p->name[n] == '.' && !qg__all_finite(p->value, qg_count(p->shape))) return p;
    }
    return NULL;
}

bool qg__diverged_forward(const qg_net *net, qg_tape *t, char text[QG__DIVERGED_BYTES])
{
    qg_var *const *out  = qg__tape_attached(t, net);
    const qg_var  *last = NULL;
    memset(text, 0, QG__DIVERGED_BYTES);
    for (int i = 0; out && i < net->steps && !*text; i++) {
        const qg_layer *l = net->step[i].layer;
        const qg_var   *y = out[net->step[i].result->index];
        if (!y || !y->data) continue;
        last = y;
        if (qg__all_finite(y->data, qg_count(y->shape))) continue;
        const qg_param *p = culprit(net, l);
        snprintf(text, QG__DIVERGED_BYTES, "%.80s is the first layer whose result is not finite%s%.100s", l->name,
                 p ? "; neither is " : "", p ? p->name : "");
    }
    /* Another rank may have the image. */
    if (qg__ranks_tell(text, QG__DIVERGED_BYTES) || *text) return true;
    if (last)
        snprintf(text, QG__DIVERGED_BYTES, "the results of all layers are finite, but scores reach %.3g",
                 (double)greatest(last->data, qg_count(last->shape)));
    return false;
}

void qg__diverged_backward(const qg_net *net, char text[QG__DIVERGED_BYTES])
{
    const qg_params *all = qg_net_params(net);
    *text                = '\0';
    for (int i = all->count - 1; i >= 0 && !*text; i--) {
        const qg_param *p = all->item[i];
        if (p->grad && !qg__all_finite(p->grad, qg_count(p->shape)))
            snprintf(text, QG__DIVERGED_BYTES, "going backward, that of %.100s is the first", p->name);
    }
}
