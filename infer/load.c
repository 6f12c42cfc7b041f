#include <string.h>

#include "infer/kernels/isa.h"
#include "infer/net.h"

enum { LINE = 64 };

/* Memory that is handed out from front to back, in lines; NULL: only counted. */
typedef struct room {
    uint8_t *at;
    size_t   used;
} room;

static void *take(room *r, size_t bytes)
{
    void *p = r->at ? r->at + r->used : NULL;
    r->used += qg__lines_of(bytes);
    return p;
}

/* --- steps -------------------------------------------------------------------------------------- */

/* Where a step's numbers, rows and name begin in the file. */
typedef struct cursor {
    size_t floats, rows, text;
} cursor;

/* As the file has it; .groups of other steps is 1. */
static qg__infer_step step_of(qg_isa isa, const qg__file *f, int i)
{
    qg__infer_step s = { .isa = isa, .r = qg__file_step(f, i), .p = { .groups = 1 } };
    if (s.r.kind != QG__PRODUCT) return s;
    const qg__packed_step x = s.r.x ? qg__file_step(f, s.r.x - 1) : (qg__packed_step){ 0 };
    s.p                     = qg__product_of(&s.r, qg__codes_of_value(&x));
    return s;
}

static void unpack_row(const qg__packed_step *r, const uint8_t *row, size_t n, float *to)
{
    const size_t bits = (size_t)r->w_bits;
    for (size_t i = 0; i < n; i++)
        to[i] = (float)(r->w_lowest + r->w_step * (int32_t)qg__file_bits(row, i * bits, (int)bits));
}

/* row: room for one. */
static void pack_weights(qg_isa isa, const qg__file *f, const qg__product *p, const qg__packed_step *r,
                         size_t rows, float *row, void *packed)
{
    const size_t n = qg__row_numbers(r), bytes = qg__row_bytes(r);
    for (int o = 0; o < r->oc; o++) {
        const size_t at = rows + (size_t)o * bytes;
        if (r->w_count) unpack_row(r, f->bytes + at, n, row);
        else qg__file_floats(f, at, n, row);
        qg__product_pack(isa, p, o, row, packed);
    }
}

/* PReLU becomes RPReLU without shifts, which adds nothing: x - 0 and y + -0 are x and y. */
static void set_numbers(qg__infer_step *s, float *number)
{
    const size_t c = (size_t)s->r.c, oc = (size_t)s->r.oc;
    switch ((qg__kind)s->r.kind) {
    case QG__PRODUCT:
        s->k = (qg__scales){ number, s->r.two_sided ? number + oc : NULL,
                             number + (s->r.two_sided ? 2 * oc : oc) };
        break;
    case QG__PRELU:
        for (size_t k = 0; k < c; k++) number[c + k] = 0.0f, number[2 * c + k] = -0.0f;
        s->number[0] = number + c, s->number[1] = number, s->number[2] = number + 2 * c;
        break;
    case QG__CLIP: s->number[0] = number, s->number[1] = number + 1; break;
    default: s->number[0] = number, s->number[1] = number + c, s->number[2] = number + 2 * c; break;
    }
}

static bool finishes(const qg__infer_step *s)
{
    if (!qg__product_finishes(&s->p)) return false;
    return s->to.route == QG__ROUTE_FLOATS ||
           (s->to.route == QG__ROUTE_BYTES && qg__has_formula(&s->to.find));
}

/* Images that a product computes at a time: at least as many as fill some tiles, and with weights that must
 * be read or expanded once for all of them as many as share the second cache with the weights of a block,
 * for each block reads all of x and writes into lines of y that others write to. */
static int images_at_once(const qg__infer_step *s, size_t x_bytes)
{
    enum { RESULTS = 64, MOST = 64, CACHE = 1 << 19 };
    const size_t results = qg__results(&s->p.g), fewest = (RESULTS + results - 1) / results;
    const size_t y_bytes = s->finishes ? s->bytes : results * (size_t)s->p.g.oc * sizeof(float);
    const size_t most    = CACHE / (x_bytes + y_bytes), several = most < MOST ? most : MOST;
    return (int)(qg__product_coding(&s->p) != QG__AS_BITS && several > fewest ? several : fewest);
}

/* --- names -------------------------------------------------------------------------------------- */

static void append(char *text, size_t bytes, const char *more)
{
    size_t n = strlen(text);
    while (n + 1 < bytes && *more) text[n++] = *more++;
    text[n] = '\0';
}

/* 1 to 16 bits. */
static void append_bits(char *text, size_t bytes, qg__codes c)
{
    const int  bits = qg__code_bits(c.count);
    const char digits[] = { '1', (char)('0' + bits % 10), '\0' };
    append(text, bytes, digits + (bits < 10));
}

static void describe(qg__infer_step *s)
{
    /* Not pointers, which would have to be relocated. */
    static const char names[][12] = {
        [QG__PRODUCT] = "product",   [QG__AFFINE] = "affine",     [QG__QUANTIZE] = "quantize",
        [QG__MAXPOOL] = "maxpool",   [QG__AVGPOOL] = "avgpool",   [QG__RELU] = "relu",
        [QG__CLIP] = "clip",         [QG__SIGMOID] = "sigmoid",   [QG__TANH] = "tanh",
        [QG__PRELU] = "prelu",       [QG__RPRELU] = "rprelu",     [QG__ADD] = "add",
        [QG__CONCAT] = "concat",     [QG__SHORTCUT] = "shortcut", [QG__MEAN_ABS] = "mean |x|",
        [QG__MULTIPLY] = "multiply",
    };
    char *t = s->kind;
    append(t, sizeof s->kind, names[s->r.kind]);
    if (s->r.kind != QG__PRODUCT) return;
    append(t, sizeof s->kind, ", ");
    if (!s->p.w.count) append(t, sizeof s->kind, "floats");
    else append_bits(t, sizeof s->kind, s->p.w);
    if (s->p.x.count) {
        append(t, sizeof s->kind, " x ");
        append_bits(t, sizeof s->kind, s->p.x);
    }
    const char *units = s->p.x.count ? " bits" : s->p.w.count == 2 ? " bit x floats" : " bits x floats";
    if (s->p.w.count) append(t, sizeof s->kind, units);
    const qg__coding coding = qg__product_coding(&s->p);
    if (coding == QG__AS_BITS) append(t, sizeof s->kind, ", as bits");
    if (coding == QG__AS_BYTES) append(t, sizeof s->kind, ", as bytes");
}

/* --- the net ------------------------------------------------------------------------------------ */

typedef struct loading {
    qg_isa              isa;
    const qg__file     *f;
    qg_infer_requantize how;
    room                r;
    qg_infer           *net;        /* NULL: sizes only */
    char               *text;
    float              *row;        /* of the longest one */
    cursor              at;
} loading;

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* Room for the tables and the weights of a step, whatever is chosen for it: sizes are known before. */
static size_t tables_room(qg__infer_step s)
{
    const size_t own = qg__tables_bytes(&s.r, &s.p);
    if (s.r.coding != QG__AS_FLOATS) s.r.coding = QG__AS_BYTES;
    return larger(own, qg__tables_bytes(&s.r, &s.p));
}

static size_t weights_room(qg__infer_step s)
{
    if (s.r.kind != QG__PRODUCT) return 0;
    const size_t own = qg__product_weight_bytes(s.isa, &s.p);
    s.p.x_bytes      = qg__product_may_be_bytes(&s.p);
    return larger(own, qg__product_weight_bytes(s.isa, &s.p));
}

static void load_step(loading *l, int i)
{
    const qg__infer_step  file = step_of(l->isa, l->f, i);
    const qg__packed_step r = file.r;
    const bool            multiplies = r.kind == QG__PRODUCT;
    const size_t          listed = qg__step_floats(&r);
    const size_t          numbers = listed + (r.kind == QG__PRELU ? 2 * (size_t)r.c : 0);
    float                *number = take(&l->r, numbers * sizeof *number);
    uint8_t              *tables = take(&l->r, tables_room(file));
    void                 *packed = take(&l->r, weights_room(file));
    if (l->net) {
        const qg__codes q = qg__quantizer(&r);
        const float    *threshold = number + qg__step_own_floats(&r);
        qg__infer_step *s = &l->net->step[i];
        s->packed = packed;
        s->name   = l->text + (l->at.text - l->f->text);
        s->bytes  = qg__image_bytes((qg__coding)s->r.coding, qg__codes_of_value(&r), r.oh, r.ow, r.oc);
        l->net->value[i + 1].bytes = qg__lines_of(s->bytes);
        qg__file_floats(l->f, l->at.floats, listed, number);
        set_numbers(s, number);
        describe(s);
        /* TFLite's operator takes the place of the arithmetic of codes that are bytes in the file. */
        qg__tables_make(s, threshold, q.count ? threshold + q.count - 1 : NULL,
                        s->r.coding == r.coding ? l->how : QG_INFER_EVALUATE, tables);
        if (multiplies) {
            s->finishes = finishes(s);
            s->images   = images_at_once(s, l->net->value[r.x].bytes);
            pack_weights(l->isa, l->f, &s->p, &r, l->at.rows, l->row, packed);
            l->net->weight_bytes += qg__product_weight_bytes(l->isa, &s->p);
            l->net->fixed_point += s->to.route == QG__ROUTE_FIXED;
        }
        l->at.text += strlen(s->name) + 1;
    }
    l->at.floats += 4 * listed;
    l->at.rows += qg__row_bytes(&r) * (size_t)r.oc;
}

static void load_normalisation(loading *l)
{
    const size_t m = l->f->normal;
    float       *mean = take(&l->r, m * sizeof *mean), *deviation = take(&l->r, m * sizeof *deviation);
    if (l->net) {
        qg__file_floats(l->f, l->at.floats, m, mean);
        qg__file_floats(l->f, l->at.floats + 4 * m, m, deviation);
        l->net->mean      = mean;
        l->net->deviation = deviation;
    }
    l->at.floats += 8 * m;
}

/* Lays out everything; with memory, fills it.  Returns the bytes. */
static size_t load(qg_isa isa, const qg__file *f, qg_infer_requantize how, void *memory, qg_infer **net)
{
    const size_t    steps = (size_t)f->steps, text_bytes = f->n - f->text;
    loading l = { .isa = isa, .f = f, .how = how, .r = { memory, 0 }, .at = { f->floats, f->rows, f->text } };
    qg_infer       *to     = take(&l.r, sizeof *to);
    qg__infer_step *step   = take(&l.r, steps * sizeof *step);
    qg__place      *value  = take(&l.r, (steps + 1) * sizeof *value);
    size_t          longest = 0;
    l.text = take(&l.r, text_bytes);
    for (int i = 0; i < f->steps; i++) {
        const qg__packed_step r = qg__file_step(f, i);
        if (qg__row_numbers(&r) > longest) longest = qg__row_numbers(&r);
    }
    l.row = take(&l.r, longest * sizeof *l.row);
    l.net = to;
    if (to) {
        *to = (qg_infer){ .h = f->h, .w = f->w, .c = f->c, .steps = f->steps, .normal = f->normal,
                          .notes = f->notes, .step = step, .value = value };
        memcpy(l.text, f->bytes + f->text, text_bytes);
        value[0].bytes = qg__lines_of(qg__image_bytes(QG__AS_FLOATS, (qg__codes){ 0 }, f->h, f->w, f->c));
        for (int i = 0; i < f->steps; i++) step[i] = step_of(isa, f, i);
        qg__choose(to);
    }
    load_normalisation(&l);
    for (int i = 0; i < f->steps; i++) load_step(&l, i);
    if (to) {
        to->note = l.text + (l.at.text - f->text);
        qg__plan(to);
        *net = to;
    }
    return l.r.used;
}

qg_infer_status qg_infer_size(const void *file, size_t n, size_t *bytes)
{
    qg__file              f;
    const qg_infer_status s = bytes ? qg__file_open(file, n, &f) : QG_INFER_EARG;
    if (bytes) *bytes = s ? 0 : load(qg__infer_isa(), &f, QG_INFER_EVALUATE, NULL, NULL);
    return s;
}

qg_infer_status qg_infer_load_with(const void *file, size_t n, qg_infer_requantize how, void *memory,
                                   size_t bytes, const qg_infer **net)
{
    qg__file f;
    if (!net) return QG_INFER_EARG;
    *net = NULL;
    if (how != QG_INFER_EVALUATE && how != QG_INFER_TFLITE) return QG_INFER_EARG;
    if (!qg__ieee_mode()) return QG_INFER_EMODE;
    if (!memory || (uintptr_t)memory % LINE) return QG_INFER_EMEMORY;
    const qg_infer_status s = qg__file_open(file, n, &f);
    if (s) return s;
    const qg_isa isa = qg__infer_isa();
    if (bytes < load(isa, &f, how, NULL, NULL)) return QG_INFER_EMEMORY;
    qg_infer *loaded;
    load(isa, &f, how, memory, &loaded);
    *net = loaded;
    return QG_INFER_OK;
}

qg_infer_status qg_infer_load(const void *file, size_t n, void *memory, size_t bytes, const qg_infer **net)
{
    return qg_infer_load_with(file, n, QG_INFER_EVALUATE, memory, bytes, net);
}

/* --- what it is --------------------------------------------------------------------------------- */

const char *qg_infer_message(qg_infer_status s)
{
    switch (s) {
    case QG_INFER_OK: return "no error";
    case QG_INFER_EFORMAT:
        return "not a packed net, or one that is truncated or whose parts contradict each other";
    case QG_INFER_EVERSION: return "a packed net of a newer version than this program reads";
    case QG_INFER_ECHECKSUM: return "damaged: its checksum is another";
    case QG_INFER_EMEMORY: return "the memory is too small, or not aligned to 64 bytes";
    case QG_INFER_EARG: return "an argument is illegal";
    case QG_INFER_ENAN: return "an image has a value that is not finite";
    case QG_INFER_EMODE: return QG_IEEE_MODE_REFUSAL;
    }
    return "unknown status";
}

qg_infer_shape qg_infer_input(const qg_infer *net)
{
    return net ? (qg_infer_shape){ net->h, net->w, net->c } : (qg_infer_shape){ 0 };
}

int qg_infer_scores(const qg_infer *net)
{
    if (!net) return 0;
    const qg__packed_step *r = &net->step[net->steps - 1].r;
    return r->oh * r->ow * r->oc;
}

const char *qg_infer_note(const qg_infer *net, const char *key)
{
    if (!net || !key) return NULL;
    const char *at = net->note;
    for (size_t i = 0; i < net->notes; i++) {
        const char *value = at + strlen(at) + 1;
        if (!strcmp(at, key)) return value;
        at = value + strlen(value) + 1;
    }
    return NULL;
}

size_t      qg_infer_weight_bytes(const qg_infer *net)             { return net ? net->weight_bytes : 0; }
int         qg_infer_fixed_point(const qg_infer *net)              { return net ? net->fixed_point : 0; }
int         qg_infer_images_at_once(const qg_infer *net)           { return net ? net->images : 0; }
int         qg_infer_steps(const qg_infer *net)                    { return net ? net->steps : 0; }
static bool has_step(const qg_infer *net, int step)
{
    return net && step >= 0 && step < net->steps;
}

const char *qg_infer_step_name(const qg_infer *net, int step)
{
    return has_step(net, step) ? net->step[step].name : NULL;
}

const char *qg_infer_step_kind(const qg_infer *net, int step)
{
    return has_step(net, step) ? net->step[step].kind : NULL;
}
