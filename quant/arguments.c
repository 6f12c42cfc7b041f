/* What qg_scheme.keys says, between texts, values and quantizers. */
#include "quant/scheme.h"

#include <string.h>

/* --- surrogates --------------------------------------------------------------------------- */

enum { IDENTITY, CLIP, APPROX_SIGN, SWISH, TANH, ANNEALED_TANH, SURROGATES };

/* One of QG_SURROGATE_WORDS; arg 0: the usual bound of clip, beta of swish or temperature of tanh. */
static qg_surrogate surrogate_of(int word, float arg)
{
    switch (word) {
    case IDENTITY: return qg_surrogate_identity();
    case CLIP: return qg_surrogate_clip(arg > 0 ? arg : 1.0f);
    case APPROX_SIGN: return qg_surrogate_approx_sign();
    case SWISH: return qg_surrogate_swish(arg > 0 ? arg : 5.0f);
    case TANH: return qg_surrogate_tanh(arg > 0 ? arg : 1.0f);
    }
    return qg_surrogate_annealed_tanh(0);       /* its steps are set where the length of training is known */
}

/* -1: none of the words. */
static int word_of(qg_surrogate s)
{
    for (int i = 0; i < SURROGATES; i++) {
        const qg_surrogate known = surrogate_of(i, 0);
        if (s.slope == known.slope && s.to == known.to) return i;
    }
    return -1;
}

/* If a scheme's own surrogate is not in the list, its words begin with "own". */
static int words_before(const qg_key *key) { return qg_key_words(key) - SURROGATES; }

/* --- values and quantizers ---------------------------------------------------------------- */

enum { ARGUMENTS = sizeof((qg_quant *)0)->arg / sizeof(double) };

typedef enum field { ARGUMENT, BITS, PER_CHANNEL, SURROGATE, SURROGATE_ARG } field;

static field field_of(const qg_key *key)
{
    static const char *const names[] = { [BITS]          = "bits",
                                         [PER_CHANNEL]   = "per-channel",
                                         [SURROGATE]     = "surrogate",
                                         [SURROGATE_ARG] = "surrogate-arg" };
    for (int f = BITS; f <= SURROGATE_ARG; f++)
        if (!strcmp(key->name, names[f])) return (field)f;
    return ARGUMENT;
}

const qg_key *qg_scheme_keys(const qg_scheme *scheme, qg_role role)
{
    if (!scheme) return NULL;
    return role == QG_WEIGHT && scheme->weight_keys ? scheme->weight_keys : scheme->keys;
}

void qg_quant_values(qg_quant q, double value[QG_MAX_KEYS])
{
    const qg_key *keys     = qg_scheme_keys(q.scheme, qg_quant_role(q));
    int           argument = 0;
    for (int i = 0; i < qg_keys_count(keys); i++) {
        QG_ASSERT(argument < ARGUMENTS || field_of(&keys[i]) != ARGUMENT);
        switch (field_of(&keys[i])) {
        case ARGUMENT: value[i] = q.arg[argument++]; break;
        case BITS: value[i] = q.bits; break;
        case PER_CHANNEL: value[i] = q.per_channel; break;
        case SURROGATE: {
            const int word = q.surrogate.slope ? word_of(q.surrogate) : -1;
            value[i]       = word < 0 ? keys[i].fallback : word + words_before(&keys[i]);
            break;
        }
        case SURROGATE_ARG: {
            const int word = q.surrogate.slope ? word_of(q.surrogate) : -1;
            value[i]       = word < 0 || q.surrogate.arg == surrogate_of(word, 0).arg ? 0 : (double)q.surrogate.arg;
            break;
        }
        }
    }
}

static qg_quant quant_of(const qg_scheme *scheme, qg_role role, const double *value)
{
    const qg_key *keys     = qg_scheme_keys(scheme, role);
    qg_quant      q        = { .scheme = scheme };
    int           argument = 0, word = -1;
    float         bound = 0;
    for (int i = 0; i < qg_keys_count(keys); i++) {
        QG_ASSERT(argument < ARGUMENTS || field_of(&keys[i]) != ARGUMENT);
        switch (field_of(&keys[i])) {
        case ARGUMENT: q.arg[argument++] = value[i]; break;
        case BITS: q.bits = (int)value[i]; break;
        case PER_CHANNEL: q.per_channel = value[i] != 0; break;
        case SURROGATE: word = (int)value[i] - words_before(&keys[i]); break;
        case SURROGATE_ARG:
            bound = (float)value[i];
            if (word >= 0 && (bound > 0 || value[i - 1] != keys[i - 1].fallback))
                q.surrogate = surrogate_of(word, bound);
            break;
        }
    }
    return q;
}

/* --- what is not given -------------------------------------------------------------------- */

static qg_quant completed(qg_quant q)
{
    if (q.bits == 0) q.bits = q.scheme->bits;
    if (q.scheme->granularity == QG_CHANNEL_SCALE) q.per_channel = true;
    return q.scheme->complete ? q.scheme->complete(q) : q;
}

/* Zero selects the default, unless it is a legal value. */
qg_quant qg_quant_defaults(qg_quant q)
{
    const qg_key *keys     = qg_scheme_keys(q.scheme, q.role);
    int           argument = 0;
    double        value[QG_MAX_KEYS];
    qg_quant_values(q, value);
    for (int i = 0; i < qg_keys_count(keys); i++) {
        const field f    = field_of(&keys[i]);
        const bool  zero = keys[i].words || (keys[i].min <= 0 && keys[i].max >= 0);
        if (value[i] == 0 && !zero && qg_key_has_effect(keys, i, value)) value[i] = keys[i].fallback;
        if (f == ARGUMENT) q.arg[argument++] = value[i];
        if (f == BITS) q.bits = (int)value[i];
    }
    return completed(q);
}

qg_status qg_quant_check_keys(qg_quant q)
{
    double        value[QG_MAX_KEYS];
    const qg_key *keys = qg_scheme_keys(q.scheme, qg_quant_role(q));
    qg_quant_values(q, value);
    return qg_keys_check(q.scheme->name, keys, value);
}

/* --- texts -------------------------------------------------------------------------------- */

qg_status qg_scheme_parse(const qg_scheme *scheme, qg_role role, const char *text, qg_quant *out)
{
    double value[QG_MAX_KEYS];
    if (!scheme || !out) return qg_fail_null(QG_EARG, scheme ? "out" : "scheme");
    if (qg_keys_parse(scheme->name, text, qg_scheme_keys(scheme, role), value)) return QG_EARG;
    qg_quant q        = completed(quant_of(scheme, role, value));
    q.role            = role;
    const qg_status s = qg_quant_check(q);
    if (!s) *out = q;
    return s;
}

void qg_quant_print(qg_quant q, char *text, size_t bytes)
{
    double        value[QG_MAX_KEYS] = { 0 };
    const qg_key *keys = q.scheme ? qg_scheme_keys(q.scheme, qg_quant_role(q)) : NULL;
    if (q.scheme) qg_quant_values(q, value);
    qg_keys_print(q.scheme ? q.scheme->name : "float", keys, value, text, bytes);
}
