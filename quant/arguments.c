/* What qg_scheme.keys says, between texts, values and quantizers. */
#include "quant/engine.h"

#include <string.h>

/* --- surrogates --------------------------------------------------------------------------- */

enum { IDENTITY, CLIP, APPROX_SIGN, SWISH, TANH, ANNEALED_TANH, SURROGATES };

/* One of QG_SURROGATE_WORDS; arg 0: the usual bound of clip, beta of swish or temperature of tanh. */
static qg_surrogate surrogate_of(int word, float arg)
{
    if (word == IDENTITY) return qg_surrogate_identity();
    if (word == APPROX_SIGN) return qg_surrogate_approx_sign();
    if (word == CLIP) return qg_surrogate_clip(arg > 0 ? arg : 1.0f);
    if (word == SWISH) return qg_surrogate_swish(arg > 0 ? arg : 5.0f);
    if (word == TANH) return qg_surrogate_tanh(arg > 0 ? arg : 1.0f);
    return qg_surrogate_annealed_tanh(0);       /* its steps are set where the length of training is known */
}

int qg__surrogate_word(qg_surrogate s)
{
    static const qg_key arg = QG_SURROGATE_ARG_KEY;
    for (int i = 0; i < SURROGATES; i++) {
        const qg_surrogate known = surrogate_of(i, 0);
        if (s.slope != known.slope || s.to != known.to) continue;
        const bool takes = i == CLIP || i == SWISH || i == TANH;
        return s.arg == known.arg || (takes && (double)s.arg >= arg.min && (double)s.arg <= arg.max) ? i : -1;
    }
    return -1;
}

/* If a scheme's own surrogate is not in the list, its words begin with "own". */
static int words_before(const qg_key *key) { return qg_key_words(key) - SURROGATES; }

/* --- values and quantizers ---------------------------------------------------------------- */

enum { ARGUMENTS = sizeof((qg_quant *)0)->arg / sizeof(double) };

typedef enum field { ARGUMENT, AS, BITS, PER_CHANNEL, SURROGATE, SURROGATE_ARG } field;

static field field_of(const qg_key *key)
{
    static const char *const names[] = { [AS]            = "as",
                                         [BITS]          = "bits",
                                         [PER_CHANNEL]   = "per-channel",
                                         [SURROGATE]     = "surrogate",
                                         [SURROGATE_ARG] = "surrogate-arg" };
    for (int f = AS; f <= SURROGATE_ARG; f++)
        if (!strcmp(key->name, names[f])) return (field)f;
    return ARGUMENT;
}

const qg_key *qg_scheme_keys(const qg_scheme *scheme, qg_role role)
{
    if (!scheme) return NULL;
    return role == QG_WEIGHT && scheme->weight_keys ? scheme->weight_keys : scheme->keys;
}

void qg__quant_values(qg_quant q, double value[QG_MAX_KEYS])
{
    const qg_key *keys     = qg_scheme_keys(q.scheme, qg__quant_role(q));
    const int     word     = q.surrogate.slope ? qg__surrogate_word(q.surrogate) : -1;
    const bool    usual    = word < 0 || q.surrogate.arg == surrogate_of(word, 0).arg;
    int           argument = 0;
    for (int i = 0; i < qg_keys_count(keys); i++) {
        const field f = field_of(&keys[i]);
        if (f == ARGUMENT) value[i] = argument < ARGUMENTS ? q.arg[argument++] : 0;
        else if (f == AS) value[i] = q.as_paper;
        else if (f == BITS) value[i] = q.bits;
        else if (f == PER_CHANNEL) value[i] = q.per_channel;
        else if (f == SURROGATE) value[i] = word < 0 ? keys[i].fallback : word + words_before(&keys[i]);
        else value[i] = usual ? 0 : (double)q.surrogate.arg;
    }
}

static qg_quant quant_of(const qg_scheme *scheme, qg_role role, const double *value)
{
    const qg_key *keys     = qg_scheme_keys(scheme, role);
    qg_quant      q        = { .scheme = scheme };
    int           argument = 0, word = -1;
    for (int i = 0; i < qg_keys_count(keys); i++) {
        const field f = field_of(&keys[i]);
        if (f == ARGUMENT && argument < ARGUMENTS) q.arg[argument++] = value[i];
        else if (f == AS) q.as_paper = value[i] != 0;
        else if (f == BITS) q.bits = (int)value[i];
        else if (f == PER_CHANNEL) q.per_channel = value[i] != 0;
        else if (f == SURROGATE) word = (int)value[i] - words_before(&keys[i]);
        else if (word >= 0 && ((float)value[i] > 0 || value[i - 1] != keys[i - 1].fallback))
            q.surrogate = surrogate_of(word, (float)value[i]);
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

/* Zero selects the default, unless it is a legal value; as_paper sets what the source prescribes. */
qg_quant qg_quant_defaults(qg_quant q)
{
    const qg_key *keys     = qg_scheme_keys(q.scheme, q.role);
    int           argument = 0;
    double        value[QG_MAX_KEYS];
    qg__quant_values(q, value);
    if (q.as_paper) qg__keys_over(q.scheme->paper, keys, value);
    for (int i = 0; i < qg_keys_count(keys); i++) {
        const field f    = field_of(&keys[i]);
        const bool  zero = keys[i].words || (keys[i].min <= 0 && keys[i].max >= 0);
        if (value[i] == 0 && !zero && qg__key_has_effect(keys, i, value)) value[i] = keys[i].fallback;
        if (f == ARGUMENT && argument < ARGUMENTS) q.arg[argument++] = value[i];
        if (f == BITS) q.bits = (int)value[i];
    }
    return completed(q);
}

qg_status qg__quant_check_keys(qg_quant q)
{
    double        value[QG_MAX_KEYS];
    const qg_key *keys = qg_scheme_keys(q.scheme, qg__quant_role(q));
    int           own  = 0;
    for (int i = 0; i < qg_keys_count(keys); i++) own += field_of(&keys[i]) == ARGUMENT;
    if (own > ARGUMENTS)
        return qg_fail(QG_EARG, "%s: has %d own keys, more than %d", q.scheme->name, own, (int)ARGUMENTS);
    qg__quant_values(q, value);
    return qg__keys_check(q.scheme->name, keys, value);
}

/* --- texts -------------------------------------------------------------------------------- */

/* What stands under the keys of a text: the defaults of a version, or the rule of the source. */
static const char *under(const qg_scheme *scheme, bool as_paper, int version)
{
    if (as_paper) return scheme->paper;
    if (version >= QG_DEFAULTS) return NULL;
    return scheme->before ? scheme->before : scheme->paper;
}

static bool says_as_paper(const char *text)
{
    const char *at = text ? strstr(text, "as=paper") : NULL;
    return at && (at == text || at[-1] == ',') && (at[8] == ',' || at[8] == '\0');
}

/* Whether it names a key that the scheme has in this role. */
static bool names_a_key(const char *text, const qg_key *keys)
{
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (qg_keys_find(keys, at, strcspn(at, "=,")) >= 0) return true;
    return false;
}

qg_status qg__scheme_parse_as(int version, const qg_scheme *scheme, qg_role role, const char *text, qg_quant *out)
{
    double value[QG_MAX_KEYS];
    if (!scheme || !out) return qg__fail_null(QG_EARG, scheme ? "out" : "scheme");
    const char *base = under(scheme, says_as_paper(text), version);
    if (qg__keys_parse_over(scheme->name, base, text, qg_scheme_keys(scheme, role), value)) return QG_EARG;
    qg_quant q        = completed(quant_of(scheme, role, value));
    q.role            = role;
    q.as_paper       |= base && base == scheme->paper && names_a_key(base, qg_scheme_keys(scheme, role));
    const qg_status s = qg__quant_check(q);
    if (!s) *out = q;
    return s;
}

qg_status qg_scheme_parse(const qg_scheme *scheme, qg_role role, const char *text, qg_quant *out)
{
    return qg__scheme_parse_as(QG_DEFAULTS, scheme, role, text, out);
}

void qg__quant_print_as(int version, qg_quant q, char *text, size_t bytes)
{
    double        value[QG_MAX_KEYS] = { 0 };
    const qg_key *keys = q.scheme ? qg_scheme_keys(q.scheme, qg__quant_role(q)) : NULL;
    if (version < QG_DEFAULTS && q.scheme && !q.scheme->before) q.as_paper = false;     /* which it says by itself */
    if (q.scheme) qg__quant_values(q, value);
    qg__keys_print_over(q.scheme ? q.scheme->name : "float", q.scheme ? under(q.scheme, q.as_paper, version) : NULL, keys, value,
                       text, bytes);
}

void qg_quant_print(qg_quant q, char *text, size_t bytes) { qg__quant_print_as(QG_DEFAULTS, q, text, bytes); }
