/* Rows of qgrad gradcheck about quantizers.  Each scheme of cli/config/schemes.c, in each of its roles, has rows for
 * its defaults, for few and many bits, and for every word of its options; a row is named as --weight and --input spell
 * it. */
#include <stdio.h>
#include <string.h>

#include "cli/config/schemes.h"
#include "cli/gradcheck/gradcheck_quantizer.h"

enum { NAME_BYTES = 160 };

/* Combinations of options that matter together. */
static const struct {
    unsigned    role;
    const char *quantizer;
} combinations[] = {
    { QG_WEIGHT, "ttq:per-channel=yes,gradient=scaled" },
    { QG_WEIGHT, "dorefa:bits=3,max=through" },
    { QG_WEIGHT, "fake_quant:range=learned,per-channel=yes" },
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
    int         checked;
    const char *why;
} loss_row;

static const loss_row by_way_of_alpha = { "xnor, by way of alpha: w", "xnor:" BY_WAY_OF_ALPHA, 0, NULL };

static const loss_row papers[] = {
    { "TTQ, dWn as printed: wn", "ttq:rule=as-printed", 2, TTQ_WHY },
    { "XNOR, dw by way of alpha as printed: w", "xnor:rule=paper," BY_WAY_OF_ALPHA, 0, XNOR_WHY },
};

/* --- rows --------------------------------------------------------------------------------- */

/* A scale has no surrogate, nor has an end of a range so fine that its codes do not show, nor a rounded gradient, whose
 * values of +-1 are codes.  A gradient that is scaled on purpose is not that of the loss. */
static bool is_smooth(qg_quant q, int checked)
{
    const bool fine  = q.bits == QG_FLOAT_BITS || (!q.scheme->form && q.bits == 16);
    const bool scale = q.scheme->form == &qg_ternary_form && quantizer_option(q, "gradient") == 0;
    return checked ? fine || scale : q.role == QG_GRADIENT;
}

static qg_status add_row(gradcheck_report *r, subject k)
{
    gradcheck_line  line;
    const qg_status s = quantizer_check(&k, &line);
    if (!s) gradcheck_add(r, &line);
    return s;
}

/* Of x, and of the first `learned` numbers that q learns. */
static qg_status add_rows(gradcheck_report *r, const char *label, qg_quant q, const plain *f, int learned)
{
    for (int i = 0; i <= learned; i++) {
        char        name[NAME_BYTES];
        subject     k  = { .name = name, .q = q, .plain = f, .checked = i, .against_loss = is_smooth(q, i) };
        const char *of = i ? q.scheme->learned[i - 1].name : q.role == QG_WEIGHT ? "w" : "x";
        snprintf(name, sizeof name, "%s: %s", label, of);
        if (i && k.against_loss && q.bits == 16) k.q.numbers = 1;   /* not scaled by how many share the range */
        const qg_status s = add_row(r, k);
        if (s) return s;
    }
    return QG_OK;
}

static qg_status parsed(const char *text, unsigned role, qg_quant *q)
{
    char canonical[NAME_BYTES];
    return scheme_parse(text, role, q, canonical, sizeof canonical);
}

/* The scheme at its defaults but for one option; without rows, if it refuses the value or does not quantize. */
static qg_status add_option(gradcheck_report *r, const qg_scheme *scheme, unsigned role, const qg_key *key,
                            double value)
{
    char     text[NAME_BYTES], word[QG_KEY_BYTES];
    qg_quant q;
    snprintf(text, sizeof text, "%s:%s=%s", scheme->name, key->name, qg_key_value(key, value, word));
    if (parsed(text, role, &q) || !q.scheme) return QG_OK;
    return add_rows(r, text, q, NULL, strcmp(key->name, "surrogate") ? quantizer_learned(q) : 0);
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
    if (!s) s = add_rows(r, scheme->name, q, NULL, quantizer_learned(q));
    for (int k = 0; k < qg_keys_count(keys) && !s; k++) s = add_key(r, scheme, role, &keys[k]);
    return s;
}

static qg_status run_role(gradcheck_report *r, unsigned role)
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
        if (!s) s = add_rows(r, text, q, NULL, quantizer_learned(q));
    }
    return s;
}

static qg_status add_loss_row(gradcheck_report *r, const loss_row *row)
{
    subject         k = { .name = row->name, .checked = row->checked, .against_loss = true, .why = row->why };
    const qg_status s = parsed(row->quantizer, QG_WEIGHT, &k.q);
    return s ? s : add_row(r, k);
}

static qg_status run_weights(gradcheck_report *r)
{
    const qg_status s = run_role(r, QG_WEIGHT);
    return s ? s : add_loss_row(r, &by_way_of_alpha);
}

static qg_status run_inputs(gradcheck_report *r) { return run_role(r, QG_INPUT); }
static qg_status run_gradients(gradcheck_report *r) { return run_role(r, QG_GRADIENT); }

static qg_status run_arrays(gradcheck_report *r)
{
    qg_status s = QG_OK;
    for (const plain *f = gradcheck_plain; f->name && !s; f++) {
        qg_quant q;
        s = parsed(f->quantizer, f->role, &q);
        if (!s) s = add_rows(r, f->name, q, f, quantizer_learned(q));
    }
    return s;
}

static qg_status run_papers(gradcheck_report *r)
{
    qg_status s = QG_OK;
    for (size_t i = 0; i < sizeof papers / sizeof *papers && !s; i++) s = add_loss_row(r, &papers[i]);
    return s;
}

const gradcheck_table gradcheck_weights   = { "schemes for weights", run_weights };
const gradcheck_table gradcheck_inputs    = { "schemes for inputs", run_inputs };
const gradcheck_table gradcheck_gradients = { "schemes for gradients", run_gradients };
const gradcheck_table gradcheck_arrays    = { "quantizers on arrays", run_arrays };
const gradcheck_table gradcheck_papers    = { "formulas as printed", run_papers };
