/* What can be wrong with a spec of qg_fit, and what a program is told of it. */
#include <math.h>
#include <stdio.h>

#include "core/dist/ranks.h"
#include "datasets/dataset.h"
#include "layers/plan.h"
#include "quant/scheme.h"
#include "train/run.h"

qg_status qg__fit_check(const qg_net *net, const qg_fit_spec *s)
{
    if (!net) return qg__fail_null(QG_EARG, "fit: net");
    if (!qg_net_params(net)) return qg_errcode();
    if (!s->train || !s->test) return qg__fail_null(QG_EARG, s->train ? "fit: test" : "fit: train");
    if (s->train == s->test) return qg_fail(QG_EARG, "fit: train and test are the same loader");
    if (s->validation && (s->validation == s->train || s->validation == s->test))
        return qg_fail(QG_EARG, "fit: validation is the same loader as %s",
                       s->validation == s->test ? "test" : "train");
    if (!s->optim) return qg__fail_null(QG_EARG, "fit: optim");
    if (qg_optim_params(s->optim) != qg_net_params(net))
        return qg_fail(QG_EARG, "fit: optim has the parameters of another net");
    if (!s->dir) return qg_fail(QG_EARG, "fit: dir is NULL");
    if (s->mode < QG_FIT_RESUME || s->mode > QG_FIT_FORCE) return qg_fail(QG_EARG, "fit: %d is not a mode", (int)s->mode);
    if (s->epochs < 1 && s->epochs != QG_NO_EPOCHS)
        return qg_fail(QG_EARG, "fit: epochs is %d, must be at least 1", s->epochs);
    if (!(s->lr > 0 && isfinite(s->lr)))
        return qg_fail(QG_EARG, "fit: lr is %g, must be positive and finite", s->lr);
    if (!(s->clip_norm >= 0 && isfinite(s->clip_norm)))
        return qg_fail(QG_EARG, "fit: clip_norm is %g, must be 0 or more", (double)s->clip_norm);
    if (isnan(s->budget)) return qg_fail(QG_EARG, "fit: budget is not a number");
    if (s->patience < 0)
        return qg_fail(QG_EARG, "fit: patience is %d, must be 0 or more", s->patience);
    if (!(s->label_smoothing >= 0 && s->label_smoothing < 1))
        return qg_fail(QG_EARG, "fit: label_smoothing is %g, must be 0 or more and less than 1",
                       (double)s->label_smoothing);
    if (s->label_smoothing > 0 && s->loss)
        return qg_fail(QG_EARG, "fit: label_smoothing is part of the cross "
                                "entropy, but the spec has a loss of its own");
    return qg_schedule_check(&s->schedule) ? qg_fail(QG_EARG, "fit: %s", qg_errmsg()) : QG_OK;
}

/* A mismatch would otherwise show in the first step, when there is a run
 * already, or after an epoch. */
static qg_status check_images(const qg_net *net, const qg_fit_spec *s)
{
    const qg_loader *split[] = { s->test, s->validation };
    const qg_shape   a = qg_loader_shape(s->train), in = qg_net_layer(net, 0)->in;
    for (int i = 0; i < 2 && split[i]; i++) {
        const qg_shape b = qg_loader_shape(split[i]);
        if (!qg__same_size(a, b))
            return qg_fail(QG_ESHAPE, "%s images are %dx%dx%d, training images %dx%dx%d",
                           i ? "validation" : "test", b.h, b.w, b.c, a.h, a.w, a.c);
    }
    if (qg__same_size(a, in)) return QG_OK;
    return qg_fail(QG_ESHAPE, "images are %dx%dx%d, but the net was declared for %dx%dx%d", a.h,
                   a.w, a.c, in.h, in.w, in.c);
}

/* A loss of one's own may read scores in another way.  The last classes may have no image in a test set. */
static qg_status check_scores(const qg_net *net, const qg_fit_spec *s)
{
    const qg_shape   out     = qg_net_layer(net, qg_net_layers(net) - 1)->out;
    const size_t     scores  = qg_row(out);
    const qg_loader *split[] = { s->train, s->test, s->validation };
    static const char *const what[] = { "training", "test", "validation" };
    for (int i = 0; i < 3 && !s->loss; i++) {
        const size_t classes = split[i] ? (size_t)qg_loader_classes(split[i]) : scores;
        if (i ? classes <= scores : classes == scores) continue;
        return qg_fail(QG_ESHAPE, "the net has %zu score%s for %zu classes of %s images", scores,
                       scores == 1 ? "" : "s", classes, what[i]);
    }
    return QG_OK;
}

/* A batch norm with one number per channel in an image, or NULL. */
static const char *smallest_norm(const qg_net *net)
{
    for (int i = 0; i < qg_net_layers(net); i++) {
        qg_layer           *l = qg_net_layer(net, i);
        const qg_batchnorm *bn = qg__batchnorm(l);
        if (bn && l->in.h == 1 && l->in.w == 1 && (l->in.c == 1 || !bn->spec.whole)) return l->name;
    }
    return NULL;
}

/* How many images norms see at least in a batch of so many. */
static int seen_images(const qg_net *net, int batch)
{
    return net->spec.batchnorm_per_rank && batch >= qg_ranks() ? batch / qg_ranks() : batch;
}

/* The variance of one number is 0, so such a batch norm gives its shift for any
 * input, and no gradient. */
static qg_status check_batches(const qg__run *r, const qg_net *net)
{
    const int   n = qg_loader_shape(r->spec->train).n, most = qg__loader_spec(r->spec->train).batch;
    const int   batch = most < n ? most : n, last = n % batch;
    const char *norm = smallest_norm(net);
    char        text[256], share[64] = "";
    if (!norm || (seen_images(net, batch) > 1 && (last == 0 || seen_images(net, last) > 1)))
        return QG_OK;
    if (seen_images(net, batch) < batch || seen_images(net, last) < last)
        snprintf(share, sizeof share, " (norm-sync off, on %d ranks)", qg_ranks());
    if (seen_images(net, batch) == 1)
        return qg_fail(QG_EARG,
                       "batches of %d image%s%s give %s one value per channel, "
                       "whose variance is 0; it needs 2 or more",
                       batch, batch == 1 ? "" : "s", share, norm);
    snprintf(text, sizeof text,
             "the last batch of an epoch has %d of the %d images%s, so %s has "
             "one value per channel, whose "
             "variance is 0; choose another batch size",
             last, n, share, norm);
    qg__run_notice(r, QG_FIT_SMALL_BATCH, text);
    return QG_OK;
}

/* A folded norm changes the weight by its statistics, faster than a range is learned. */
static const char *advice_on(qg_layer *l, qg_quant q)
{
    const qg_product *p = qg_layer_product(l);
    if (!q.scheme) return NULL;
    if (p && qg_product_is_folded(p) && q.scheme->range && q.scheme->range(q).kind == QG_RANGE_LEARNED)
        return "a learned range follows a weight with a folded batch norm too slowly; use range=current";
    return q.scheme->advice ? q.scheme->advice(q) : NULL;
}

/* Passes on the advice of a scheme, of the first layer only that has one. */
static void warn_of_schemes(const qg__run *r, const qg_net *net)
{
    for (int i = 0; i < qg_net_layers(net); i++) {
        qg_layer      *l = qg_net_layer(net, i);
        const qg_slot *slot = qg_layer_slot(l, QG_WEIGHT);
        const char    *why = slot ? advice_on(l, slot->q) : NULL;
        char           spelt[QG_SPELLING_BYTES], text[320];
        if (!why) continue;
        snprintf(text, sizeof text, "%s.weight: %s: %s", l->name,
                 qg_scheme_spelling(slot->q.scheme, QG_WEIGHT, spelt, sizeof spelt), why);
        qg__run_notice(r, QG_FIT_ADVICE, text);
        return;
    }
}

qg_status qg__fit_check_net(const qg__run *r, const qg_net *net)
{
    qg_status status = check_images(net, r->spec);
    if (!status) status = check_scores(net, r->spec);
    if (!status) status = check_batches(r, net);
    if (!status) warn_of_schemes(r, net);
    return status;
}
