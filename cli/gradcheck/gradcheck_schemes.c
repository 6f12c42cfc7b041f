/* Rows of qgrad gradcheck about quantizers.  Each scheme of cli/config/schemes.c, in each of its roles, has rows for
 * its defaults, for few and many bits, and for every word of its options; a row is named as --weight and --input spell
 * it. */
#include <stdio.h>
#include <string.h>

#include "cli/config/schemes.h"
#include "cli/gradcheck/gradcheck_quantizer.h"
#include "quant/scheme.h"

enum { NAME_BYTES = 160 };

/* Combinations of options that matter together. */
static const struct {
    unsigned    role;
    const char *quantizer;
} combinations[] = {
    { QG_WEIGHT, "ttq:per-channel=yes,straight=no" },
    { QG_WEIGHT, "dorefa:bits=3,max=through" },
    { QG_WEIGHT, "fake_quant:range=learned,per-channel=yes" },
    { QG_WEIGHT, "fake_quant:range=learned,per-channel=yes,gradient=sum" },
    { QG_WEIGHT, "fake_quant:range=learned,narrow-range=yes" },
    { QG_INPUT, "sign:surrogate=clip,surrogate-arg=0.5" },
    { QG_INPUT, "sign:surrogate=tanh,surrogate-arg=0.5" },
    { QG_INPUT, "sign:surrogate=tanh,surrogate-arg=3" },
    { QG_INPUT, "lsq:bits=3,signed=yes" },
    { QG_INPUT, "fake_quant:range=fixed,min=-1,max=3" },
    { QG_WEIGHT, "qdq:bits=4,range=given,min=-1,max=3,narrow-range=yes,ties=up" },
    { QG_INPUT, "qdq:bits=1,signed=no,range=given,min=-1,max=3" },
    { QG_INPUT, "qdq:range=given,surrogate=identity" },
};

#define TTQ_WHY                                                                                    \
    "arXiv:1612.01064, eq. 7, prints dL/dWn = +sum of dL/dq over the negative set.  There q = -Wn,\n" \
    "so the chain rule gives -sum: with the printed sign every step moves Wn uphill."

#define XNOR_WHY                                                                                   \
    "arXiv:1603.05279 prints dL/dw_i = dL/dq_i (1/n + 1[|w_i| <= 1] alpha).  alpha = mean|w| is in\n" \
    "every q_j of the filter, so w_i acts through all of them: sign(w_i)/n sum_j dL/dq_j sign(w_j).\n" \
    "The printed 1/n keeps the term j = i of that sum and drops the others."

/* A surrogate that no w meets leaves what acts through XNOR-Net's scale, which is smooth while no sign flips. */
#define BY_WAY_OF_ALPHA "surrogate=clip,surrogate-arg=0.01"

typedef struct loss_row {
    const char *name, *quantizer;
    unsigned    role;
    int         checked;
    const char *why;
} loss_row;

/* A scale needs no surrogate, nor does a clip, nor an end of a range so fine that its codes do not show: these gradients are
 * the slopes of the quantizer itself. */
static const loss_row exact[] = {
    { "xnor, by way of alpha: w", "xnor:rule=exact," BY_WAY_OF_ALPHA, QG_WEIGHT, 0, NULL },
    { "ttq:gradient=sum, of the values: wp", "ttq:gradient=sum", QG_WEIGHT, 1, NULL },
    { "ttq:gradient=sum, of the values: wn", "ttq:gradient=sum", QG_WEIGHT, 2, NULL },
    { "fake_quant:bits=16, of the values: min", "fake_quant:range=learned,bits=16", QG_INPUT, 1, NULL },
    { "fake_quant:bits=16, of the values: max", "fake_quant:range=learned,bits=16", QG_INPUT, 2, NULL },
    { "pact:bits=32, of the values: alpha", "pact:bits=32", QG_INPUT, 1, NULL },
};

static const loss_row papers[] = {
    { "TTQ, dWn as printed: wn", "ttq:rule=as-printed,gradient=sum", QG_WEIGHT, 2, TTQ_WHY },
    { "XNOR, dw by way of alpha as printed: w", "xnor:rule=paper," BY_WAY_OF_ALPHA, QG_WEIGHT, 0, XNOR_WHY },
};

/* --- rows --------------------------------------------------------------------------------- */

static qg_status add_row(gradcheck_report *r, subject k)
{
    gradcheck_line  line;
    const qg_status s = quantizer_check(&k, &line);
    if (!s) gradcheck_add(r, &line);
    return s;
}

/* Of x, and of the first `learned` numbers that q learns. */
static qg_status add_rows(gradcheck_report *r, const char *label, qg_quant q, int learned)
{
    for (int i = 0; i <= learned; i++) {
        char        name[NAME_BYTES];
        subject     k  = { .name = name, .q = q, .checked = i };
        const char *of = i ? q.scheme->learned[i - 1].name : q.role == QG_WEIGHT ? "w" : "x";
        snprintf(name, sizeof name, "%s: %s", label, of);
        const qg_status s = add_row(r, k);
        if (s) return s;
    }
    return QG_OK;
}

static qg_status parsed(const char *text, unsigned role, qg_quant *q)
{
    return qg_quant_parse(text, (qg_role)role, q);
}

/* The scheme at its defaults but for one option; without rows, if it refuses the value or does not quantize. */
static qg_status add_option(gradcheck_report *r, const qg_scheme *scheme, unsigned role, const qg_key *key,
                            double value)
{
    char     text[NAME_BYTES], word[QG_KEY_BYTES];
    qg_quant q;
    snprintf(text, sizeof text, "%s:%s=%s", scheme->name, key->name, qg_key_value(key, value, word));
    if (parsed(text, role, &q) || !q.scheme) return QG_OK;
    return add_rows(r, text, q, strcmp(key->name, "surrogate") ? quantizer_learned(q) : 0);
}

/* Bits are few, or many; other numbers keep their default. */
static qg_status add_key(gradcheck_report *r, const qg_scheme *scheme, unsigned role, const qg_key *key)
{
    const double bits[] = { 1, 2, 3, 4, key->max, key->also };
    const bool   is_bits = !strcmp(key->name, "bits");
    const int    count   = is_bits ? (int)(sizeof bits / sizeof *bits) : qg_key_words(key);
    qg_status    s       = QG_OK;
    for (int i = 0; i < count && !s; i++) {
        const double value = is_bits ? bits[i] : i;
        char         word[QG_KEY_BYTES];
        /* What the paper prints is no derivative: it is one of the papers. */
        if (value == key->fallback || !strcmp(qg_key_value(key, value, word), "as-printed")) continue;
        s = add_option(r, scheme, role, key, value);
    }
    return s;
}

static qg_status add_scheme(gradcheck_report *r, const qg_scheme *scheme, unsigned role)
{
    const qg_key *keys = qg_scheme_keys(scheme, role);
    qg_quant      q;
    qg_status     s = parsed(scheme->name, role, &q);
    if (!s) s = add_rows(r, scheme->name, q, quantizer_learned(q));
    for (int k = 0; k < qg_keys_count(keys) && !s; k++) s = add_key(r, scheme, role, &keys[k]);
    return s;
}

/* The rows of a role. */
static qg_status add_loss_rows(gradcheck_report *r, const loss_row *row, size_t n, unsigned role)
{
    qg_status s = QG_OK;
    for (size_t i = 0; i < n && !s; i++) {
        subject k = { .name = row[i].name, .checked = row[i].checked, .against_loss = true, .why = row[i].why };
        if (row[i].role != role) continue;
        s           = parsed(row[i].quantizer, role, &k.q);
        k.numbers   = 1;        /* no gradient is scaled by how many share a range */
        if (!s) s = add_row(r, k);
    }
    return s;
}

qg_status gradcheck_schemes(gradcheck_report *r, unsigned role)
{
    const qg_scheme *scheme;
    unsigned         use;
    qg_status        s = QG_OK;
    for (int i = 0; scheme_in_role(i, &scheme, &use) && !s; i++)
        if (use == role) s = add_scheme(r, scheme, role);
    for (size_t i = 0; i < sizeof combinations / sizeof *combinations && !s; i++) {
        const char *text = combinations[i].quantizer;
        qg_quant    q;
        if (combinations[i].role != role) continue;
        s = parsed(text, role, &q);
        if (!s) s = add_rows(r, text, q, quantizer_learned(q));
    }
    return s ? s : add_loss_rows(r, exact, sizeof exact / sizeof *exact, role);
}

qg_status gradcheck_papers(gradcheck_report *r, unsigned role)
{
    return add_loss_rows(r, papers, sizeof papers / sizeof *papers, role);
}
