#include "cli/gradcheck/gradcheck_tensor.h"

#include <math.h>
#include <string.h>

#include "core/rng.h"

enum { KEY = 23 };

/* A row, and the values as they were. */
typedef struct trial {
    const tensor_row *row;
    held              was;
} trial;

void gradcheck_fill(float *x, size_t n, float centre, float spread, uint64_t key)
{
    /* The middles of equal parts, an even number of them, so that none is the centre. */
    const float part = 2 * spread / (float)(n + n % 2);
    for (size_t i = 0; i < n; i++) x[i] = centre - spread + part * ((float)i + 0.5f);
    for (size_t i = n; i > 1; i--) {
        const size_t j = (size_t)(qg_bits(key, i) % i);
        const float  v = x[i - 1];
        x[i - 1]       = x[j];
        x[j]           = v;
    }
}

/* --- functions on arrays as an op --------------------------------------------------------- */

static qg_array view(float *data)
{
    return (qg_array){ QG_F32, 4, { TENSOR_ROWS, 1, 1, TENSOR_ROW }, data };
}

static int learned_count(const plain *f)
{
    return (f->learned[0] != NULL) + (f->learned[1] != NULL);
}

static void plain_backward(qg_tape *t, qg_var *y)
{
    const plain *const *f     = y->saved;
    qg_var             *x     = y->in[0];
    float              *dx    = qg_scratch(t, TENSOR_N * sizeof *dx);
    float               dl[QG_MAX_LEARNED] = { 0 }, learned[QG_MAX_LEARNED] = { 0 };
    if (!dx) return;
    for (int i = 0; i < learned_count(*f); i++) learned[i] = y->in[1 + i]->data[0];
    qg_array       in = view(x->data), dy = view(y->grad), out = view(dx);
    const qg_status s = (*f)->backward(&in, learned, &dy, &out, dl);
    QG_ASSERT(s == QG_OK);                      /* as the forward, which had the same operands */
    for (size_t i = 0; i < TENSOR_N && x->grad; i++) x->grad[i] += dx[i];
    for (int i = 0; i < learned_count(*f); i++)
        if (y->in[1 + i]->grad) y->in[1 + i]->grad[0] += dl[i];
}

static const qg_op plain_op = { .name = "plain", .backward = plain_backward };

static qg_var *apply_plain(qg_tape *t, const plain *f, qg_var *x, qg_var **learned)
{
    qg_var       *y    = qg_record(t, &plain_op, x->shape, x, learned[0], learned[1]);
    const plain **kept = y ? qg_save(t, y, sizeof *kept) : NULL;
    if (!kept) return NULL;
    *kept                    = f;
    float    values[QG_MAX_LEARNED] = { 0 };
    for (int i = 0; i < learned_count(f); i++) values[i] = learned[i]->data[0];
    qg_array        in = view(x->data), out = view(y->data);
    const qg_status s = f->forward(&in, values, &out);
    return s ? qg_reject(t, s, "%s", qg_errmsg()) : y;
}

/* --- the two functions of a check --------------------------------------------------------- */

static qg_var *build(qg_tape *t, const qg_params *p, void *context)
{
    const trial *k                   = context;
    qg_var      *learned[QG_MAX_LEARNED] = { NULL };
    qg_var      *x                   = qg_parameter(t, p->item[0]);
    for (int i = 1; i < p->count; i++) learned[i - 1] = qg_parameter(t, p->item[i]);
    if (!x) return NULL;
    if (k->row->plain) return apply_plain(t, k->row->plain, x, learned);
    return qg_quantize(t, k->row->quant(), x, learned);
}

/* Only differences are taken of it, so it has no backward. */
static const qg_op surrogate_op = { .name = "surrogate" };

static qg_var *surrogate(qg_tape *t, const qg_params *p, void *context)
{
    const trial *k = context;
    qg_var      *x = qg_parameter(t, p->item[0]);
    qg_var      *y = x ? qg_record(t, &surrogate_op, x->shape, x, NULL, NULL) : NULL;
    if (!y) return NULL;
    for (size_t i = 0; i < TENSOR_N; i++) {
        float learned[QG_MAX_LEARNED] = { 0 };      /* of the channel, where there is one for each */
        for (int l = 1; l < p->count; l++)
            learned[l - 1] = p->item[l]->value[p->item[l]->shape.c > 1 ? i / TENSOR_ROW : 0];
        y->data[i] = (float)k->row->surrogate(&k->was, i, x->data, learned);
    }
    return y;
}

/* --- parameters --------------------------------------------------------------------------- */

static qg_status declare(const tensor_row *row, qg_params *p)
{
    const qg_shape    shape   = { TENSOR_ROWS, 1, 1, TENSOR_ROW };
    const qg_quant    q       = row->quant ? row->quant() : (qg_quant){ 0 };
    const qg_learned *learned = row->quant ? q.scheme->learned : NULL;
    const int         count   = row->quant ? qg_learned_count(q) : learned_count(row->plain);
    const qg_param x = { .name = "x", .shape = shape, .frozen = row->checked != 0 };
    if (!qg_params_declare(p, x)) return QG_EMEM;
    for (int i = 0; i < count; i++) {
        qg_param item = { .shape = { 1, 1, 1, 1 }, .frozen = row->checked != i + 1 };
        if (row->plain) item.name = row->plain->learned[i];
        if (learned) {
            item.name  = learned[i].name;
            item.shape = qg_learned_shape(q, &learned[i], shape, q.role);
            item.group = learned[i].tracked ? QG_TRACKED : QG_SCALES;
        }
        if (!qg_params_declare(p, item)) return QG_EMEM;
    }
    return qg_params_allocate(p);
}

static void fill(const tensor_row *row, qg_params *p, held *was)
{
    float *x = p->item[0]->value;
    gradcheck_fill(x, TENSOR_N, 0, row->spread, KEY);
    for (int i = 0; i < TENSOR_N; i++)
        for (int k = 0; k < 3; k++) {
            const float off = x[i] - row->kink[k];
            if (row->kink[k] != 0 && fabsf(off) < row->margin)
                x[i] = row->kink[k] + copysignf(row->margin, off);
        }
    memcpy(was->x, x, sizeof was->x);
    for (int i = 1; i < p->count; i++)
        for (size_t j = 0; j < qg_count(p->item[i]->shape); j++)
            was->learned[i - 1] = p->item[i]->value[j] = row->learned[i - 1];
}

qg_status tensor_check(const tensor_row *row, gradcheck_line *line)
{
    trial     k = { .row = row };
    qg_params p = { 0 };
    *line       = (gradcheck_line){ .name    = row->name,
                                    .against = row->surrogate ? "surrogate" : "loss",
                                    .why     = row->why };
    qg_status s = declare(row, &p);
    if (!s) {
        fill(row, &p, &k.was);
        s = qg_gradcheck((qg_gradcheck_spec){ .name      = row->name,
                                              .params    = &p,
                                              .build     = build,
                                              .surrogate = row->surrogate ? surrogate : NULL,
                                              .context   = &k,
                                              .key       = KEY,
                                              .tolerance = row->tolerance,
                                              .reason    = row->reason },
                         &line->result);
    }
    qg_params_release(&p);
    return s;
}
