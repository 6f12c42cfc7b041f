#include "layers/models/text_parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/number.h"
#include "core/io/utf8.h"
#include "layers/models/text.h"

enum { MOST_NESTED = 16, MOST_NUMBER = 1 << 20, SHOWN = 120 };

typedef struct parser {
    const char *text, *at;
    qg__part   *part;
    int         count, capacity;
    int         convs, denses, nested;
} parser;

qg_status qg__net_text_refuse(const char *text, size_t at, const char *why)
{
    char said[256];                         /* why may be the message itself */
    snprintf(said, sizeof said, "%s", why);
    return qg_fail(QG_EARG, "net '%.*s%s': character %zu: %s", SHOWN, text, strlen(text) > SHOWN ? ".." : "", at + 1,
                   said);
}

static qg_status refuse(const parser *p, const char *at, const char *why)
{
    return qg__net_text_refuse(p->text, (size_t)(at - p->text), why);
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

static bool take(parser *p, char c)
{
    if (*p->at != c) return false;
    p->at++;
    return true;
}

static qg_status append(parser *p, qg__part part)
{
    if (p->count == QG_NET_TEXT_PARTS) return refuse(p, p->at, "the net has more than 4096 layers");
    if (p->count == p->capacity) {
        const int more  = p->capacity ? 2 * p->capacity : 32;
        qg__part *grown = realloc(p->part, (size_t)more * sizeof *grown);
        if (!grown) return qg_fail(QG_EMEM, "out of memory: a net of %d layers", p->count);
        p->part     = grown;
        p->capacity = more;
    }
    p->part[p->count++] = part;
    return QG_OK;
}

/* --- numbers ------------------------------------------------------------------------------ */

static qg_status number(parser *p, const char *what, int *n)
{
    char        why[96];
    const char *at = p->at;
    *n             = 0;
    while (is_digit(*p->at) && *n <= MOST_NUMBER) *n = 10 * *n + *p->at++ - '0';
    if (at == p->at) snprintf(why, sizeof why, "%s is missing", what);
    else if (*n > MOST_NUMBER) snprintf(why, sizeof why, "%s is larger than %d", what, (int)MOST_NUMBER);
    else return QG_OK;
    return refuse(p, at, why);
}

static qg_status positive(parser *p, const char *what, int *n)
{
    char        why[96];
    const char *at = p->at;
    if (number(p, what, n)) return QG_EARG;
    if (*n > 0) return QG_OK;
    snprintf(why, sizeof why, "%s is 0", what);
    return refuse(p, at, why);
}

/* --- layers ------------------------------------------------------------------------------- */

/* p1, or of a convolution psame. */
static qg_status padding(parser *p, qg__part *part)
{
    part->same = part->is == QG__CONV && !strncmp(p->at, "same", 4);
    if (!part->same) return number(p, "the padding", &part->pad);
    part->pad = 0;
    p->at += 4;
    return QG_OK;
}

static qg_status grouped(parser *p, qg__part *part)
{
    char        why[96];
    const char *at = p->at;
    if (positive(p, "the number of groups", &part->groups)) return QG_EARG;
    if (part->out % part->groups == 0) return QG_OK;
    snprintf(why, sizeof why, "%d groups do not divide %d channels", part->groups, part->out);
    return refuse(p, at, why);
}

/* What follows the size of a convolution or a window, or the number of a dense layer. */
static qg_status modifiers(parser *p, qg__part *part, const char *allowed)
{
    char given[8] = "";
    for (;;) {
        const char c = *p->at;
        if (!c || !strchr(allowed, c)) return QG_OK;
        if (strchr(given, c)) return refuse(p, p->at, "this is given twice");
        given[strlen(given)] = c;
        const char *at = p->at++;
        int         n;
        if (c == 'x' && positive(p, "the width of the kernel", &part->size_w)) return QG_EARG;
        if (c == 's' && positive(p, "the stride", &part->stride)) return QG_EARG;
        if (c == 'p' && padding(p, part)) return QG_EARG;
        if (c == 'g' && grouped(p, part)) return QG_EARG;
        if (c == 'k') part->keeps = true;
        if (c == 'b') {
            if (number(p, "0, for no bias,", &n)) return QG_EARG;
            if (n) return refuse(p, at, "b0 stands for no bias; a layer has one without it");
            part->no_bias = true;
        }
    }
}

/* at: where the layer begins.  With groups QG_DEPTHWISE there is nothing more to say of them. */
static qg_status conv(parser *p, qg__part *part, const char *at, int groups)
{
    part->is     = QG__CONV;
    part->number = ++p->convs;
    part->stride = 1;
    part->pad    = -1;
    part->groups = groups;
    if (positive(p, "the size of the kernel", &part->size)) return QG_EARG;
    part->size_w = part->size;
    if (modifiers(p, part, groups == QG_DEPTHWISE ? "xspb" : "xspgb")) return QG_EARG;
    if (part->pad < 0 && (part->size % 2 == 0 || part->size_w != part->size))
        return refuse(p, at, "only a square kernel of odd size keeps the size of the image; give a padding, as in p0 or psame");
    if (part->pad < 0) part->pad = part->size / 2;
    return QG_OK;
}

/* 32C5, 512FC, or 10 at the end. */
static qg_status product(parser *p, qg__part *part)
{
    const char *at = p->at;
    if (positive(p, "the number of channels or units", &part->out)) return QG_EARG;
    if (take(p, 'C')) return conv(p, part, at, 1);
    part->is     = QG__DENSE;
    part->number = ++p->denses;
    if (p->at[0] == 'F' && p->at[1] == 'C') {
        p->at += 2;
        return modifiers(p, part, "b");
    }
    return is_letter(*p->at) ? refuse(p, p->at, "after a number: C (convolution), FC (dense) or * (repeated)") : QG_OK;
}

static const qg_key norm_keys[] = {
    { .name = "eps", .fallback = 0, .max = 1, .is = QG_KEY_ABOVE_MIN },
    { .name = "momentum", .fallback = 0, .max = 1, .is = QG_KEY_ABOVE_MIN },
    { .name = "no-scale", .is = QG_KEY_FLAG },
    { .name = "no-shift", .is = QG_KEY_FLAG },
    { .name = "whole", .is = QG_KEY_FLAG },
    { .name = NULL }
};

static const qg_key prelu_keys[] = {
    { .name = "start", .fallback = QG__PRELU_START, .min = -100, .max = 100 },
    { .name = "shared", .is = QG_KEY_FLAG },
    { .name = NULL }
};

static const qg_key affine_keys[] = {
    { .name = "scale", .fallback = 1, .min = -1e6, .max = 1e6 },
    { .name = "shift", .min = -1e6, .max = 1e6 },
    { .name = NULL }
};

/* "(key=value,..)", or nothing. */
static qg_status arguments(parser *p, const char *name, const qg_key *keys, double value[QG__PART_VALUES])
{
    enum { MOST = 96 };
    char        text[MOST] = "";
    double      all[QG_MAX_VALUES];
    const char *at    = p->at;
    const bool  given = take(p, '(');
    if (given) {
        const size_t n = strcspn(p->at, ")");
        if (!p->at[n]) return refuse(p, at, "the parenthesis is not closed");
        if (n >= MOST) return refuse(p, at, "the options are too long");
        memcpy(text, p->at, n);
        text[n] = '\0';
        p->at += n + 1;
    }
    if (qg_keys_parse(name, given ? text : NULL, keys, all)) return refuse(p, at, qg_errmsg());
    memcpy(value, all, (size_t)qg_keys_count(keys) * sizeof *value);
    return QG_OK;
}

/* MP3s2p1, MP2k; windows are side by side unless there is a stride. */
static qg_status window(parser *p, qg__part *part)
{
    const char *at = p->at;
    if (positive(p, "the size of the window", &part->size)) return QG_EARG;
    part->stride = part->size_w = part->size;
    if (modifiers(p, part, part->is == QG__MAXPOOL ? "spk" : "sp")) return QG_EARG;
    return part->pad < part->size ? QG_OK : refuse(p, at, "the padding of a window must be less than its size");
}

/* 0.5 or 1e-3: the length of a number without a sign. */
static size_t decimal(const char *at)
{
    static const char digits[] = "0123456789";
    const size_t n = strspn(at, "0123456789.");
    if (n == 0 || at[n] != 'e') return n;
    const size_t sign = at[n + 1] == '-' || at[n + 1] == '+', exponent = strspn(at + n + 1 + sign, digits);
    return exponent ? n + 1 + sign + exponent : n;
}

static qg_status dropout(parser *p, qg__part *part)
{
    const size_t n = decimal(p->at);
    if (!qg__number_read(p->at, n, &part->value[0]) || part->value[0] <= 0 || (float)part->value[0] >= 1)
        return refuse(p, p->at, "the rate of a dropout must be between 0 and 1, as in D0.5");
    p->at += n;
    return QG_OK;
}

static const struct word {
    const char   *name;
    qg__part_kind is;
    const qg_key *keys;         /* of its arguments */
} words[] = { { "BN", QG__BATCHNORM, norm_keys }, { "PR", QG__PRELU, prelu_keys }, { "RPR", QG__RPRELU, prelu_keys },
              { "AF", QG__AFFINE, affine_keys },  { "HT", QG__HARDTANH },          { "MP", QG__MAXPOOL },
              { "AP", QG__AVGPOOL },              { "GAP", QG__GLOBAL },           { "R", QG__RELU },
              { "D", QG__DROPOUT },               { "SG", QG__SIGMOID },           { "TH", QG__TANH },
              { "DW", QG__CONV },                 { "Q", QG__NONLINEARITY },       { "IQ", QG__IMAGE } };

static qg_status word(parser *p, qg__part *part)
{
    char        why[160], shown[QG_SHOWN_BYTES];
    const char *at = p->at;
    size_t      n  = 0;
    while (is_letter(at[n])) n++;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i].name) != n || strncmp(words[i].name, at, n)) continue;
        part->is = words[i].is;
        p->at += n;
        if (words[i].keys && arguments(p, words[i].name, words[i].keys, part->value)) return QG_EARG;
        if (words[i].keys == prelu_keys && part->value[QG__START] == 0)
            return refuse(p, at, "start is 0, but must not be");
        if (words[i].keys) return QG_OK;
        switch (part->is) {
        case QG__CONV:    return conv(p, part, at, QG_DEPTHWISE);
        case QG__MAXPOOL:
        case QG__AVGPOOL: return window(p, part);
        case QG__DROPOUT: return dropout(p, part);
        case QG__IMAGE:   return at == p->text ? QG_OK : refuse(p, at, "IQ stands only at the beginning of a net");
        default:          return QG_OK;
        }
    }
    if (!*at) return refuse(p, at, "a layer is missing");
    if (n == 0) n = qg__utf8_show(at, strlen(at), shown);
    snprintf(why, sizeof why, "'%.*s' is no layer; available: 32C5, DW3, 512FC, 10, BN, R, PR, RPR, HT, SG, TH, MP2, AP2, GAP, D0.5, AF(..), Q, IQ",
             n < 32 ? (int)n : 32, at);
    return refuse(p, at, why);
}

static qg_status layer(parser *p)
{
    qg__part        part = { .at = (size_t)(p->at - p->text) };
    const qg_status s    = is_digit(*p->at) ? product(p, &part) : word(p, &part);
    return s ? s : append(p, part);
}

/* --- structure ---------------------------------------------------------------------------- */

static qg_status sequence(parser *p);

static qg_status nested(parser *p, const char *open, char close)
{
    if (p->nested == MOST_NESTED) return refuse(p, open, "more than 16 brackets are open here");
    p->nested++;
    const qg_status s = sequence(p);
    p->nested--;
    if (s) return s;
    return take(p, close) ? QG_OK : refuse(p, open, "this bracket is not closed");
}

/* The length of a shortcut's name; *kind -1: there is none. */
static size_t shortcut_name(const char *at, int *kind)
{
    static const char *const names[] = { [QG_SHORTCUT_A] = "A", [QG_SHORTCUT_POOL] = "pool", [QG_SHORTCUT_B] = "B",
                                         [QG_SHORTCUT_POOL_B] = "poolB" };
    size_t n = 0;
    *kind    = -1;
    while (is_letter(at[n])) n++;
    for (int i = 0; i <= QG_SHORTCUT_POOL_B; i++)
        if (strlen(names[i]) == n && !strncmp(names[i], at, n)) *kind = i;
    return n;
}

/* ":A" after a block. */
static qg_status shortcut(parser *p, qg__part *close)
{
    const char *at = p->at;
    if (!take(p, ':')) return QG_OK;
    if (close->first) return refuse(p, at, "the block has a shortcut before it already");
    p->at += shortcut_name(p->at, &close->shortcut);
    return close->shortcut < 0 ? refuse(p, at, "a shortcut is :A, :pool, :B or :poolB") : QG_OK;
}

/* first: the shortcut that is named before the block; -1: none is. */
static qg_status block(parser *p, int first)
{
    const char *at    = p->at++;
    const int   open  = p->count;
    qg__part    brace = { .is       = QG__OPEN,
                          .at       = (size_t)(at - p->text),
                          .shortcut = first,
                          .first    = first >= 0 };
    qg_status   s     = append(p, brace);
    brace.is      = QG__CLOSE;
    brace.partner = open;
    if (!s) s = nested(p, at, '}');
    if (!s) s = shortcut(p, &brace);
    if (!s) s = append(p, brace);
    if (!s) p->part[open].partner = p->count - 1;
    return s;
}

static qg_status single(parser *p)
{
    const char  *at = p->at;
    int          kind;
    const size_t n = shortcut_name(at, &kind);
    if (*at == '{') return block(p, -1);
    if (kind >= 0 && at[n] == ':' && at[n + 1] == '{') {
        p->at += n + 1;
        return block(p, kind);
    }
    return take(p, '(') ? nested(p, at, ')') : layer(p);
}

static qg_status part(parser *p)
{
    int         times = 1;
    const char *at    = p->at;
    if (at[strspn(at, "0123456789")] == '*') {
        if (positive(p, "the number of repetitions", &times)) return QG_EARG;
        p->at++;
    }
    const char *first = p->at;
    qg_status   s     = QG_OK;
    for (int i = 0; i < times && !s; i++) {
        p->at = first;
        s     = single(p);
    }
    return s;
}

static qg_status sequence(parser *p)
{
    qg_status s = part(p);
    while (!s && take(p, '-')) s = part(p);
    return s;
}

qg_status qg__net_text_parse(const char *text, qg__part **parts, int *count)
{
    if (!text) return qg_fail(QG_EARG, "the text of a net is NULL");
    parser    p = { .text = text, .at = text };
    qg_status s = sequence(&p);
    if (!s && *p.at) s = refuse(&p, p.at, strchr(")}", *p.at) ? "this bracket was not opened" : "'-' is missing between two layers");
    if (!s && p.convs + p.denses == 0) s = refuse(&p, text, "the net has no layer with weights");
    if (s) {
        free(p.part);
        return s;
    }
    *parts = p.part;
    *count = p.count;
    return QG_OK;
}
