/* The canonical text of a net, which any declared net can print and which declares it again. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/paths.h"
#include "layers/plan.h"
#include "quant/engine.h"

enum { LINE_BYTES = 2048, WORD_BYTES = 512 };

/* The types that a text may name; only qg_net_parse reads this list. */
static const qg_layer_type *const types[] = {
    &qg__conv2d_type,    &qg__dense_type,   &qg__batchnorm_type, &qg__relu_type,
    &qg__hardtanh_type,  &qg__sigmoid_type, &qg__tanh_type,      &qg__prelu_type,
    &qg__rprelu_type,    &qg__affine_type,  &qg__dropout_type,   &qg__maxpool_type,
    &qg__avgpool_type,   &qg__global_type,  &qg__quantize_type,  &qg__add_type,
    &qg__concat_type,    &qg__shortcut_type, NULL
};

/* --- fields ------------------------------------------------------------------------------- */

#define AT(field)          .at = offsetof(qg_net_spec, field)
#define SIZE(field)        { .name = #field, \
                             .min = 1, .max = INT_MAX, .is = QG_KEY_WHOLE | QG_KEY_REQUIRED, AT(field) }
#define STEPS(text, field) { .name = text, .max = QG__MAX_STEPS, .is = QG_KEY_WHOLE, AT(field) }
static const qg_key net_keys[] = {
    SIZE(height),
    SIZE(width),
    SIZE(channels),
    { .name = "fold-batchnorm", .is = QG_KEY_FLAG, AT(fold_batchnorm) },
    STEPS("freeze-batchnorm-after", freeze_batchnorm_after),
    STEPS("quantize-weights-after", quantize_weights_after),
    STEPS("quantize-inputs-after", quantize_inputs_after),
    { .name = "batchnorm-per-rank", .is = QG_KEY_FLAG, AT(batchnorm_per_rank) },
    { .name = "initial-weights", .words = "glorot|he", AT(initial_weights) },
    { .name = NULL }
};

/* In both, at: where the value of a key is (qg_layer_type.keys). */
static double field(const qg_key *key, const void *at)
{
    if (key->is & QG_KEY_FLAG) return *(const bool *)at;
    if (!key->words && !(key->is & QG_KEY_WHOLE)) return (double)*(const float *)at;
    return key->max > INT_MAX ? (double)*(const uint64_t *)at : *(const int *)at;
}

static void set_field(const qg_key *key, double value, void *at)
{
    if (key->is & QG_KEY_FLAG) *(bool *)at = value != 0;
    else if (!key->words && !(key->is & QG_KEY_WHOLE)) *(float *)at = (float)value;
    else if (key->max > INT_MAX) *(uint64_t *)at = (uint64_t)value;
    else *(int *)at = (int)value;
}

/* "(key=value,..)", or nothing.  QG_EARG: a value is one that no text gives, as -0 or NaN. */
static qg_status put_fields(FILE *out, const qg_key *keys, const void *from)
{
    const int n = qg_keys_count(keys);
    char      text[LINE_BYTES];
    double    value[QG_MAX_VALUES] = { 0 }, same[QG_MAX_VALUES] = { 0 };
    for (int i = 0; i < n; i++) value[i] = field(&keys[i], (const char *)from + keys[i].at);
    qg_keys_print(NULL, keys, value, text, sizeof text);
    const qg_status s = qg_keys_parse(NULL, *text ? text : NULL, keys, same);
    for (int i = 0; i < n && !s; i++) {
        union { int whole; bool flag; float real; uint64_t steps; } room = { .steps = 0 };
        set_field(&keys[i], same[i], &room);
        const double kept = field(&keys[i], &room);
        if (memcmp(&kept, &value[i], sizeof kept))
            return qg_fail(QG_EARG, "%s is %g, which has no text", keys[i].name, value[i]);
    }
    if (*text) fprintf(out, "(%s)", text);
    return s;
}

static qg_status parse_fields(const char *text, const qg_key *keys, void *to)
{
    double          value[QG_MAX_VALUES];
    const qg_status s = qg_keys_parse(NULL, text, keys, value);
    const int       n = s ? 0 : qg_keys_count(keys);
    for (int i = 0; i < n; i++) set_field(&keys[i], value[i], (char *)to + keys[i].at);
    return s;
}

/* --- printing ----------------------------------------------------------------------------- */

/* In quotation marks, which no name contains, if anything but letters, digits, '.', '_' and '-' is
 * in it. */
static void put_name(FILE *out, const char *name)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char       *mark    = name[strspn(name, plain)] ? "\"" : "";
    fprintf(out, "%s%s%s", mark, name, mark);
}

static bool is_of_the_library(const qg_layer_type *type)
{
    for (const qg_layer_type *const *t = types; *t; t++)
        if (*t == type) return true;
    return false;
}

/* Whether a is what the text of b says. */
static bool is_same(qg_quant a, qg_quant b)
{
    double of_a[QG_MAX_KEYS] = { 0 }, of_b[QG_MAX_KEYS] = { 0 };
    if (a.scheme != b.scheme || a.bits != b.bits || a.per_channel != b.per_channel) return false;
    qg__quant_values(a, of_a);
    qg__quant_values(b, of_b);
    const qg_surrogate s     = a.surrogate;
    const bool         named = !s.slope || s.slope == b.surrogate.slope || qg__surrogate_word(s) >= 0;
    const bool         own   = !s.slope || !b.surrogate.slope;
    const bool         equal = own || (s.arg == b.surrogate.arg && s.to == b.surrogate.to);
    return named && equal && !s.whole && !memcmp(of_a, of_b, sizeof of_a);
}

/* Steps that the text of a scheme does not contain. */
static void put_steps(FILE *out, qg_role role, const char *what, uint64_t steps)
{
    if (steps) fprintf(out, " %s-%s=%llu", qg_role_name(role), what, (unsigned long long)steps);
}

static qg_status put_quantizer(FILE *out, qg_layer *l, qg_role role)
{
    char           text[WORD_BYTES];
    const qg_slot *slot = qg_layer_slot(l, role);
    if (!slot || !slot->q.scheme) return QG_OK;
    const qg_quant q = qg__quant_in(slot->q, role);
    qg_quant       same;
    qg_quant_print(q, text, sizeof text);
    if (qg_quant_parse(text, role, &same) || (same.role = role, !is_same(q, same)))
        return qg_fail(QG_EARG,
                       "%s: the scheme %s of its %s or the surrogate is not the library's, or an argument is "
                       "illegal", l->name, q.scheme->name, qg_role_name(role));
    fprintf(out, " %s=%s", qg_role_name(role), text);
    if (q.after != qg__slot_delay(l->net, role)) put_steps(out, role, "after", q.after);
    put_steps(out, role, "anneal", q.surrogate.steps);
    return QG_OK;
}

static qg_status put_layer(FILE *out, qg_layer *l)
{
    const qg_layer *before = l->index ? l->net->layer[l->index - 1] : NULL;
    if (!is_of_the_library(l->type))
        return qg_fail(QG_EARG, "%s: its type '%s' is not the library's", l->name, l->type->name);
    put_name(out, l->name);
    fputc(' ', out);
    put_name(out, l->type->name);
    qg_status s = put_fields(out, l->type->keys, l);
    if (s) return qg_fail(s, "%s: %s", l->name, qg_errmsg());
    if (l->after != before) fputs(" after=", out), put_name(out, l->after->name);
    if (l->with) fputs(" with=", out), put_name(out, l->with->name);
    for (int i = 0; i < QG_ROLES && !s; i++) s = put_quantizer(out, l, qg_roles[i]);
    fputs(l->result ? " result\n" : "\n", out);
    return s;
}

static qg_status print(const void *what, FILE *out)
{
    const qg_net *net = what;
    qg_status     s   = net->status ? qg_fail(net->status, "%s", net->why) : QG_OK;
    fputs("net", out);
    if (!s) s = put_fields(out, net_keys, &net->spec);
    fprintf(out, " seed=%llu\n", (unsigned long long)net->spec.seed);
    for (int i = 0; i < net->layers && !s; i++) s = put_layer(out, net->layer[i]);
    return s;
}

char *qg_net_print(const qg_net *net)
{
    char  *text = NULL;
    size_t n;
    if (!net) qg__fail_null(QG_EARG, "net");
    else if (qg__text_print(print, net, &text, &n)) return NULL;
    return text;
}

/* --- parsing ------------------------------------------------------------------------------ */

typedef struct parser {
    const char *at;
    int         line;
    qg_net     *net;
} parser;

__attribute__((format(printf, 2, 3)))
static qg_status refuse(const parser *p, const char *format, ...)
{
    char    why[WORD_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(why, sizeof why, format, values);
    va_end(values);
    return qg_fail(QG_EARG, "text of a net: line %d: %s", p->line, why);
}

/* The next word of the line, without its quotation marks; empty: the line has ended. */
static qg_status next_word(parser *p, char word[WORD_BYTES])
{
    size_t n      = 0;
    bool   quoted = false;
    while (*p->at == ' ') p->at++;
    for (; *p->at && *p->at != '\n' && (quoted || *p->at != ' '); p->at++) {
        if (*p->at == '"') quoted = !quoted;
        else if (n + 1 < WORD_BYTES) word[n++] = *p->at;
        else return refuse(p, "a word is longer than %d bytes", WORD_BYTES - 1);
    }
    word[n] = '\0';
    return quoted ? refuse(p, "a quotation mark is not closed") : QG_OK;
}

/* Splits "type(key=value)" or "type"; *options NULL: there are none. */
static qg_status split_options(const parser *p, char *word, char **options)
{
    char *open = strchr(word, '('), *end = word + strlen(word);
    *options   = NULL;
    if (!open) return QG_OK;
    if (end[-1] != ')') return refuse(p, "'%s' lacks its ')'", word);
    *open = end[-1] = '\0';
    *options        = open + 1;
    return QG_OK;
}

/* What follows "key=", or NULL. */
static const char *value_of(const char *word, const char *key)
{
    const size_t n = strlen(key);
    return !strncmp(word, key, n) && word[n] == '=' ? word + n + 1 : NULL;
}

static qg_status parse_count(const parser *p, const char *text, uint64_t *count)
{
    char *end;
    errno  = 0;
    *count = strtoull(text, &end, 10);
    const bool whole = *text >= '0' && *text <= '9' && !*end && !errno;
    return whole ? QG_OK : refuse(p, "'%s' is no whole number", text);
}

static qg_status parse_net(parser *p)
{
    qg_net_spec spec = { 0 };
    char        word[WORD_BYTES], *options;
    qg_status   s = next_word(p, word);
    if (!s) s = split_options(p, word, &options);
    if (s) return s;
    if (strcmp(word, "net"))
        return refuse(p, "'%s' is not net(height=..,width=..,channels=..)", word);
    if (parse_fields(options, net_keys, &spec)) return refuse(p, "%s", qg_errmsg());
    for (s = next_word(p, word); !s && *word; s = s ? s : next_word(p, word)) {
        const char *seed = value_of(word, "seed");
        s = seed ? parse_count(p, seed, &spec.seed)
                 : refuse(p, "unknown word '%s' after net(..)", word);
    }
    if (s) return s;
    p->net = qg_net_new(spec);
    return p->net ? QG_OK : QG_EMEM;
}

static qg_status parse_layer_name(const parser *p, const char *name, qg_layer **l)
{
    *l = qg__net_named(p->net, name);
    return *l ? QG_OK : refuse(p, "no layer before it is named '%s'", name);
}

/* weight=.., weight-after=.., weight-anneal=..; *taken: word is one of these. */
static qg_status parse_quantizer(const parser *p, qg_layer *l, const char *word, bool *taken)
{
    *taken = false;
    for (int i = 0; i < QG_ROLES; i++) {
        char           after[32], anneal[32];
        const qg_role  role = qg_roles[i];
        const char    *name = qg_role_name(role), *text, *steps;
        snprintf(after, sizeof after, "%s-after", name);
        snprintf(anneal, sizeof anneal, "%s-anneal", name);
        qg_slot *slot = (qg_slot *)qg_layer_slot(l, role);
        text          = value_of(word, name);
        steps         = value_of(word, after) ? value_of(word, after) : value_of(word, anneal);
        if (!text && !steps) continue;
        *taken = true;
        if (!slot) return refuse(p, "the type %s has no quantizer of its %s", l->type->name, name);
        if (text && qg_quant_parse(text, role, &slot->q)) return refuse(p, "%s", qg_errmsg());
        if (text) return QG_OK;
        if (!slot->q.scheme) return refuse(p, "'%s' needs %s=.. before it", word, name);
        return parse_count(p, steps,
                           value_of(word, after) ? &slot->q.after : &slot->q.surrogate.steps);
    }
    return QG_OK;
}

static qg_status parse_word(const parser *p, qg_layer *l, const char *word)
{
    const char     *with = value_of(word, "with");
    bool            taken;
    const qg_status s = parse_quantizer(p, l, word, &taken);
    if (s || taken) return s;
    const bool other = with && l->type->traits & QG_READS_TWO;
    if (other && !strcmp(with, l->name)) return refuse(p, "no layer before it is named '%s'", with);
    if (other) return parse_layer_name(p, with, &l->with);
    if (strcmp(word, "result")) return refuse(p, "unknown word '%s'", word);
    (void)qg_net_mark_output(l);
    return QG_OK;
}

static const qg_layer_type *type_named(const char *name)
{
    for (const qg_layer_type *const *t = types; *t; t++)
        if (!strcmp((*t)->name, name)) return *t;
    return NULL;
}

static qg_status append(const parser *p, const qg_layer_type *type, const char *after,
                        const char *name, qg_layer **l)
{
    qg_layer *input = NULL;
    if (after && parse_layer_name(p, after, &input)) return QG_EARG;
    *l = qg_net_append(p->net, type, input, type->name, name);
    return *l ? QG_OK : refuse(p, "%s", p->net->why);
}

static qg_status parse_layer(parser *p, const char *name)
{
    char      what[WORD_BYTES], word[WORD_BYTES], *options;
    qg_layer *l = NULL;
    qg_status s = next_word(p, what);
    if (!s) s = split_options(p, what, &options);
    const qg_layer_type *type = s ? NULL : type_named(what);
    if (!s && !type) s = refuse(p, *what ? "unknown type '%s'" : "the type is missing%s", what);
    if (!s) s = next_word(p, word);
    const char *after = s ? NULL : value_of(word, "after");
    if (!s) s = append(p, type, after, name, &l);
    if (!s && parse_fields(options, type->keys, l)) s = refuse(p, "%s", qg_errmsg());
    qg_batchnorm *norm = !s && type->traits & QG_NORMALISES ? (qg_batchnorm *)l : NULL;
    if (norm && norm->spec.freeze_after == 0) norm->spec.freeze_after = p->net->spec.freeze_batchnorm_after;
    if (!s && after) s = next_word(p, word);
    for (; !s && *word; s = s ? s : next_word(p, word)) s = parse_word(p, l, word);
    if (!s && type->traits & QG_READS_TWO && !l->with)
        s = refuse(p, "with= is missing, the other layer that it reads");
    return s;
}

static qg_status parse(parser *p)
{
    char      name[WORD_BYTES];
    qg_status s = parse_net(p);
    while (!s && *p->at) {
        p->line += *p->at == '\n';
        p->at += *p->at == '\n';
        s = next_word(p, name);
        if (!s && *name) s = parse_layer(p, name);
    }
    return s;
}

qg_net *qg_net_parse(const char *text)
{
    parser p = { .at = text, .line = 1 };
    if (!text) qg__fail_null(QG_EARG, "text");
    else if (!parse(&p)) return p.net;
    qg_net_free(p.net);
    return NULL;
}
