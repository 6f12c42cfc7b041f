/* The smooth functions whose slopes are the gradients of quantizers, as their schemes state them. */
#include <math.h>
#include <string.h>

#include "cli/gradcheck/gradcheck_quantizer.h"

double quantizer_option(qg_quant q, const char *name)
{
    double        value[QG_MAX_KEYS];
    const qg_key *keys = qg_scheme_keys(q.scheme, q.role);
    const int     at   = qg_keys_find(keys, name, strlen(name));
    qg_quant_values(q, value);
    return at < 0 ? -1 : value[at];
}

/* The surrogate of every number by itself; {0}: the scheme has a function of its own, or states none. */
static qg_surrogate named_of(qg_quant q)
{
    const qg_scheme *scheme = q.scheme;
    if (scheme->mix) return (qg_surrogate){ 0 };
    if (q.surrogate.slope) return q.surrogate;
    if (scheme->surrogate) return (qg_surrogate){ 0 };
    if (scheme->own) return scheme->own(q);
    const bool passes = scheme->form && !scheme->own_slope && !scheme->apply;
    return passes ? qg_surrogate_identity() : (qg_surrogate){ 0 };
}

bool surrogate_is_stated(const subject *k)
{
    return k->q.scheme->surrogate || (!k->checked && named_of(k->q).value);
}

bool is_elementwise(qg_quant q)
{
    const bool measured = q.scheme->measures_weights && q.role == QG_WEIGHT;
    return named_of(q).value || (q.scheme->activation && !measured);
}

double surrogate_value(const subject *k, size_t i, const qg_point *at, const qg_point *to)
{
    const qg_surrogate named = named_of(k->q);
    return named.value && !k->checked ? named.value(named.arg, to->x[i]) : k->q.scheme->surrogate(k->q, i, at, to);
}
