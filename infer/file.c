#include "infer/file.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "core/io/hash.h"
#include "core/io/utf8.h"

/* Numbers are copied as they are, and kernels and slices take the bytes of words for their bits in ascending
 * order, since infer/infer.h refuses big-endian machines. */
_Static_assert(sizeof(qg__packed_header) == QG__HEADER_BYTES, "the header of infer/format.h");
_Static_assert(sizeof(qg__packed_step) == 116, "the fields of a record in infer/format.h");

static const uint8_t magic[8] = QG__PACKED_MAGIC;

/* Values of all steps together are less, in bytes per image: no sum of sizes overflows, not even for all
 * images of a group. */
static const uint64_t most_bytes = (uint64_t)SIZE_MAX / 65536 < (uint64_t)1 << 40 ? SIZE_MAX / 65536
                                                                                  : (uint64_t)1 << 40;

/* --- numbers ------------------------------------------------------------------------------------ */

static float get_float(const uint8_t *b)
{
    float v;
    memcpy(&v, b, sizeof v);
    return v;
}

void qg__file_floats(const qg__file *f, size_t at, size_t n, float *to)
{
    if (n) memcpy(to, f->bytes + at, n * sizeof *to);
}

uint32_t qg__file_bits(const uint8_t *row, size_t at, int bits)
{
    const size_t first = at / 8, last = (at + (size_t)bits - 1) / 8;
    uint32_t     v     = 0;
    for (size_t i = first; i <= last; i++) v |= (uint32_t)row[i] << 8 * (i - first);
    return v >> at % 8 & (((uint32_t)1 << bits) - 1);
}

/* --- records ------------------------------------------------------------------------------------ */

static const uint8_t *record_at(const qg__file *f, int step)
{
    return f->bytes + QG__HEADER_BYTES + (size_t)step * QG__STEP_BYTES;
}

qg__packed_step qg__file_step(const qg__file *f, int step)
{
    qg__packed_step r;
    memcpy(&r, record_at(f, step), sizeof r);
    return r;
}

qg__codes qg__quantizer(const qg__packed_step *r)
{
    const bool has = r->kind == QG__PRODUCT || r->kind == QG__QUANTIZE;
    return has ? (qg__codes){ r->q_lowest, r->q_step, r->q_count } : (qg__codes){ 0 };
}

qg__codes qg__codes_of_value(const qg__packed_step *r)
{
    return r->coding == QG__AS_FLOATS ? (qg__codes){ 0 } : (qg__codes){ r->q_lowest, r->q_step, r->q_count };
}

qg__product qg__product_of(const qg__packed_step *r, qg__codes x)
{
    return (qg__product){
        .g = { .h = r->h, .w = r->w, .c = r->c, .oh = r->oh, .ow = r->ow, .oc = r->oc,
               .kh = r->kh, .kw = r->kw, .stride = r->stride, .top = r->top, .left = r->left },
        .groups = r->groups, .x = x, .w = { r->w_lowest, r->w_step, r->w_count }, .two_sided = r->two_sided,
        .zeros = r->w_zeros, .pad = r->pad,
    };
}

bool qg__is_elementwise(int32_t kind)
{
    static const bool elementwise[QG__KINDS] = {
        [QG__AFFINE] = true,  [QG__QUANTIZE] = true, [QG__RELU] = true,  [QG__CLIP] = true,
        [QG__SIGMOID] = true, [QG__TANH] = true,     [QG__PRELU] = true, [QG__RPRELU] = true,
        [QG__ADD] = true,     [QG__MULTIPLY] = true,
    };
    return elementwise[kind];
}

size_t qg__step_own_floats(const qg__packed_step *r)
{
    const size_t c = (size_t)r->c;
    switch ((qg__kind)r->kind) {
    case QG__PRODUCT: return (r->two_sided ? 3 : 2) * (size_t)r->oc;
    case QG__AFFINE: return 2 * c;
    case QG__PRELU: return c;
    case QG__RPRELU: return 3 * c;
    case QG__CLIP: return 2;
    default: return 0;
    }
}

size_t qg__step_floats(const qg__packed_step *r)
{
    const size_t codes = (size_t)qg__quantizer(r).count;
    return qg__step_own_floats(r) + (codes ? codes - 1 + (r->coding == QG__AS_FLOATS ? codes : 0) : 0);
}

size_t qg__row_numbers(const qg__packed_step *r)
{
    if (r->kind != QG__PRODUCT) return 0;
    return (size_t)r->kh * (size_t)r->kw * (size_t)(r->c / r->groups) + (r->w_zeros ? 1 : 0);
}

size_t qg__row_bytes(const qg__packed_step *r) { return ((size_t)r->w_bits * qg__row_numbers(r) + 7) / 8; }

/* --- what is legal ------------------------------------------------------------------------------ */

enum { MOST_EXTENT = 1 << 30 };

static bool is_size(int h, int w, int c)
{
    return h >= 1 && w >= 1 && c >= 1 && (double)h * w * c <= INT32_MAX;
}

/* A value that a step reads. */
typedef struct value {
    int        h, w, c;
    qg__coding coding;
    qg__codes  codes;
} value;

static value value_at(const qg__file *f, int i)
{
    if (i == 0) return (value){ f->h, f->w, f->c, QG__AS_FLOATS, { 0 } };
    const qg__packed_step r = qg__file_step(f, i - 1);
    return (value){ r.oh, r.ow, r.oc, (qg__coding)r.coding, qg__codes_of_value(&r) };
}

static bool same_size(const qg__packed_step *r) { return r->oh == r->h && r->ow == r->w && r->oc == r->c; }

static bool is_flag(int32_t v) { return v == 0 || v == 1; }

/* Windows along one axis, each of which has pixels of the image. */
static bool windows_fit(int in, int out, int size, int stride, int before)
{
    return size >= 1 && size <= MOST_EXTENT && stride >= 1 && before >= 0 &&
           before < size && (int64_t)(out - 1) * stride - before < in;
}

/* Windows of MEAN_ABS may be outside of the image, as those of the product that it scales. */
static bool windows_are_legal(const qg__packed_step *r)
{
    const qg__product p = qg__product_of(r, (qg__codes){ 0 });
    return qg__geometry_valid(&p.g);
}

static bool has_no_window(const qg__packed_step *r)
{
    return !r->kh && !r->kw && !r->stride && !r->top && !r->left;
}

static bool is_zero(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits == 0;
}

/* Fields of products. */
static bool is_no_product(const qg__packed_step *r)
{
    return !r->groups && !r->w_lowest && !r->w_step && !r->w_count && !r->w_bits && !r->two_sided &&
           !r->w_zeros && is_zero(r->pad) && !r->relu;
}

static bool has_no_codes(const qg__packed_step *r)
{
    return !r->q_lowest && !r->q_step && !r->q_count && is_zero(r->q_scale) && r->coding == QG__AS_FLOATS;
}

static bool codes_are_legal(const qg__packed_step *r)
{
    const qg__codes q = { r->q_lowest, r->q_step, r->q_count };
    if (!qg__codes_valid(q) || q.count > QG__MOST_CODES || !(r->q_scale >= 0 && isfinite(r->q_scale)))
        return false;
    switch (r->coding) {
    case QG__AS_FLOATS: return true;
    case QG__AS_BITS: return qg__alphabet_of(q).bits > 0;
    case QG__AS_BYTES: return qg__highest(q) - q.lowest <= 255;
    default: return false;
    }
}

static bool weights_are_legal(const qg__packed_step *r)
{
    if (r->w_count == 0) return !r->w_lowest && !r->w_step && r->w_bits == QG__FLOAT_BITS;
    return qg__codes_valid((qg__codes){ r->w_lowest, r->w_step, r->w_count }) &&
           r->w_bits == qg__code_bits(r->w_count);
}

static bool product_is_legal(const qg__packed_step *r, const value *x)
{
    if (r->flag || !is_flag(r->relu) || !is_flag(r->two_sided) || !is_flag(r->w_zeros) ||
        !weights_are_legal(r))
        return false;
    if (r->q_count ? !codes_are_legal(r) : !has_no_codes(r)) return false;
    const qg__product p = qg__product_of(r, x->codes);
    return qg__product_fits(&p) && (int)qg__product_coding(&p) == (int)x->coding;
}

static bool maxpool_is_legal(const qg__packed_step *r, const value *x)
{
    const qg__codes own = qg__codes_of_value(r);
    if ((int)x->coding != r->coding) return false;
    if (r->coding == QG__AS_FLOATS) return has_no_codes(r);
    return codes_are_legal(r) && own.lowest == x->codes.lowest && own.step == x->codes.step &&
           own.count == x->codes.count;
}

static bool pool_is_legal(const qg__packed_step *r)
{
    return r->oc == r->c && windows_fit(r->h, r->oh, r->kh, r->stride, r->top) &&
           windows_fit(r->w, r->ow, r->kw, r->stride, r->left);
}

/* The second operand. */
static bool z_is_legal(const qg__file *f, const qg__packed_step *r, int step)
{
    const bool reads = r->kind == QG__ADD || r->kind == QG__CONCAT || r->kind == QG__MULTIPLY;
    if (!reads) return r->z == -1;
    if (r->z < 0 || r->z > step) return false;
    const value z = value_at(f, r->z);
    if (z.coding != QG__AS_FLOATS || z.h != r->h || z.w != r->w) return false;
    if (r->kind == QG__CONCAT) return r->oh == r->h && r->ow == r->w && r->oc > r->c && z.c == r->oc - r->c;
    return same_size(r) && z.c == (r->kind == QG__ADD ? r->c : 1);
}

/* What belongs to the kind alone. */
static bool kind_is_legal(const qg__packed_step *r, const value *x)
{
    if (r->kind == QG__PRODUCT) return product_is_legal(r, x);
    if (!is_no_product(r) || (r->flag && r->kind != QG__AVGPOOL)) return false;
    if (r->kind == QG__MAXPOOL) return pool_is_legal(r) && maxpool_is_legal(r, x);
    if (x->coding != QG__AS_FLOATS) return false;
    if (r->kind == QG__QUANTIZE) return has_no_window(r) && same_size(r) && codes_are_legal(r);
    if (!has_no_codes(r)) return false;
    if (qg__is_elementwise(r->kind)) return has_no_window(r) && same_size(r);
    switch ((qg__kind)r->kind) {
    case QG__AVGPOOL: return is_flag(r->flag) && pool_is_legal(r);
    case QG__MEAN_ABS: return r->oc == 1 && windows_are_legal(r);
    case QG__SHORTCUT:
        return r->stride >= 1 && !r->kh && !r->kw && !r->top && !r->left && r->oc >= r->c &&
               r->oh == (r->h - 1) / r->stride + 1 && r->ow == (r->w - 1) / r->stride + 1;
    case QG__CONCAT: return has_no_window(r);
    default: return false;
    }
}

static bool step_is_legal(const qg__file *f, const qg__packed_step *r, int step)
{
    const uint8_t *record = record_at(f, step);
    for (size_t i = f->version < 2 ? offsetof(qg__packed_step, w_zeros) : sizeof *r; i < QG__STEP_BYTES; i++)
        if (record[i]) return false;
    if (r->kind < 0 || r->kind >= QG__KINDS || r->x < 0 || r->x > step) return false;
    const value x = value_at(f, r->x);
    return x.h == r->h && x.w == r->w && x.c == r->c && is_size(r->oh, r->ow, r->oc) &&
           z_is_legal(f, r, step) && kind_is_legal(r, &x);
}

/* --- numbers of steps --------------------------------------------------------------------------- */

static bool are_finite(const uint8_t *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(get_float(b + 4 * i))) return false;
    return true;
}

/* Ascending, equal ones included; false for NaN. */
static bool are_ascending(const uint8_t *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(get_float(b + 4 * i) >= (i ? get_float(b + 4 * (i - 1)) : -INFINITY))) return false;
    return true;
}

static bool floats_are_legal(const qg__packed_step *r, const uint8_t *b)
{
    const qg__codes q    = qg__quantizer(r);
    const size_t    all  = qg__step_floats(r), own = qg__step_own_floats(r);
    const size_t    thresholds = q.count ? (size_t)q.count - 1 : 0;
    if (r->kind == QG__CLIP) return get_float(b) < get_float(b + 4);
    return are_finite(b, own) && are_ascending(b + 4 * own, thresholds) &&
           are_finite(b + 4 * (own + thresholds), all - own - thresholds);
}

static bool normalisation_is_legal(const uint8_t *b, size_t m)
{
    if (!are_finite(b, 2 * m)) return false;
    for (size_t i = m; i < 2 * m; i++)
        if (!(get_float(b + 4 * i) > 0)) return false;
    return true;
}

/* Codes exist, and the bits that fill the last byte are 0. */
static bool row_is_legal(const qg__packed_step *r, const uint8_t *row)
{
    const size_t n = qg__row_numbers(r), bits = n * (size_t)r->w_bits;
    if (r->w_count && r->w_count < 1 << r->w_bits)
        for (size_t i = 0; i < n; i++)
            if (qg__file_bits(row, i * (size_t)r->w_bits, r->w_bits) >= (uint32_t)r->w_count) return false;
    return bits % 8 == 0 || row[bits / 8] >> bits % 8 == 0;
}

static bool rows_are_legal(const qg__packed_step *r, const uint8_t *rows)
{
    const size_t bytes = qg__row_bytes(r);
    for (size_t o = 0; bytes && o < (size_t)r->oc; o++)
        if (!row_is_legal(r, rows + o * bytes)) return false;
    return true;
}

/* --- text --------------------------------------------------------------------------------------- */

/* Whether the last section has so many texts and nothing else. */
static bool text_is_legal(const qg__file *f, uint64_t texts)
{
    uint64_t seen = 0;
    if (f->text == f->n || f->bytes[f->n - 1]) return false;
    for (size_t at = f->text, n; at < f->n; at += n) {
        uint32_t c;
        n = qg__utf8_character(f->bytes + at, f->bytes + f->n, &c);
        if (!n) return false;
        seen += f->bytes[at] == 0;
    }
    return seen == texts;
}

/* --- the file ----------------------------------------------------------------------------------- */

static qg_infer_status read_header(qg__file *f)
{
    qg__packed_header h;
    if (f->n < sizeof h) return QG_INFER_EFORMAT;
    memcpy(&h, f->bytes, sizeof h);
    if (memcmp(h.magic, magic, sizeof magic)) return QG_INFER_EFORMAT;
    if (h.version > QG__FORMAT_VERSION) return QG_INFER_EVERSION;
    if (h.version < 1 || h.bytes != f->n) return QG_INFER_EFORMAT;
    const uint64_t head = qg_hash_words(QG_HASH_BASIS, f->bytes, offsetof(qg__packed_header, checksum));
    if (h.checksum != qg_hash_words(head, f->bytes + sizeof h, f->n - sizeof h)) return QG_INFER_ECHECKSUM;
    if (h.zeros[0] || h.zeros[1] || h.zeros[2]) return QG_INFER_EFORMAT;
    if (h.steps < 1 || h.steps > QG__MOST_STEPS || !is_size(h.h, h.w, h.c)) return QG_INFER_EFORMAT;
    f->version = h.version, f->steps = (int)h.steps;
    f->h = h.h, f->w = h.w, f->c = h.c;
    f->normal = h.normal, f->notes = h.notes;
    const size_t all = (size_t)f->h * (size_t)f->w * (size_t)f->c;
    return f->normal == 0 || f->normal == (size_t)f->c || f->normal == all ? QG_INFER_OK : QG_INFER_EFORMAT;
}

/* The steps, and where the sections begin that follow from them. */
static bool read_steps(qg__file *f)
{
    uint64_t floats = 2 * (uint64_t)f->normal, rows = 0;
    uint64_t bytes  = qg__image_bytes(QG__AS_FLOATS, (qg__codes){ 0 }, f->h, f->w, f->c);
    f->floats       = QG__HEADER_BYTES + (size_t)f->steps * QG__STEP_BYTES;
    if (f->floats > f->n) return false;
    for (int i = 0; i < f->steps; i++) {
        const qg__packed_step r = qg__file_step(f, i);
        if (!step_is_legal(f, &r, i)) return false;
        floats += qg__step_floats(&r);
        rows += qg__row_bytes(&r) * (uint64_t)r.oc;
        bytes += qg__image_bytes((qg__coding)r.coding, qg__codes_of_value(&r), r.oh, r.ow, r.oc);
        if (f->floats + 4 * floats + rows > f->n || bytes > most_bytes) return false;
    }
    f->rows = f->floats + 4 * (size_t)floats;
    f->text = f->rows + (size_t)rows;
    return qg__file_step(f, f->steps - 1).coding == QG__AS_FLOATS;
}

static bool read_contents(const qg__file *f)
{
    size_t floats = f->floats + 8 * f->normal, rows = f->rows;
    if (!normalisation_is_legal(f->bytes + f->floats, f->normal)) return false;
    for (int i = 0; i < f->steps; i++) {
        const qg__packed_step r = qg__file_step(f, i);
        if (!floats_are_legal(&r, f->bytes + floats) || !rows_are_legal(&r, f->bytes + rows)) return false;
        floats += 4 * qg__step_floats(&r);
        rows += qg__row_bytes(&r) * (size_t)r.oc;
    }
    return text_is_legal(f, (uint64_t)f->steps + 2 * (uint64_t)f->notes);
}

qg_infer_status qg__file_open(const void *bytes, size_t n, qg__file *f)
{
    *f = (qg__file){ .bytes = bytes, .n = n };
    if (!bytes) return QG_INFER_EARG;
    const qg_infer_status s = read_header(f);
    if (s) return s;
    return read_steps(f) && read_contents(f) ? QG_INFER_OK : QG_INFER_EFORMAT;
}
