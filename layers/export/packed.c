#include "layers/export/writer.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/hash.h"
#include "layers/plan.h"

/* --- sizes ---------------------------------------------------------------------------------- */

static size_t text_bytes(const qg__records *s, qg_export_spec spec)
{
    size_t n = 0;
    for (int i = 0; i < s->count; i++) n += strlen(s->record[i].name) + 1;
    for (int i = 0; i < spec.notes; i++) n += strlen(spec.note[i].key) + 1 + strlen(spec.note[i].value) + 1;
    return n;
}

/* As the file has them, which knows no single number for all channels. */
static int numbers_of(const qg_net *net, qg_export_spec spec) { return spec.numbers == 1 ? net->spec.channels : spec.numbers; }

static size_t size_of(const qg_net *net, const qg__records *s, qg_export_spec spec)
{
    size_t floats = 2 * (size_t)numbers_of(net, spec), rows = 0;
    for (int i = 0; i < s->count; i++) {
        const qg__packed_step *r = &s->record[i].r;
        floats += qg__step_floats(r);
        rows += qg__row_bytes(r) * (size_t)r->oc;
    }
    return QG__HEADER_BYTES + (size_t)s->count * QG__STEP_BYTES + floats * sizeof(float) + rows + text_bytes(s, spec);
}

qg_status qg_net_packed_bytes(const qg_net *net, size_t *bytes)
{
    qg__records     s;
    const qg_status status = qg__records_of(net, UINT64_MAX, true, &s);
    *bytes                 = status ? 0 : size_of(net, &s, (qg_export_spec){ 0 });
    qg__records_free(&s);
    return status == QG_EMEM ? status : QG_OK;
}

/* --- writing -------------------------------------------------------------------------------- */

typedef unsigned char *cursor;

static cursor put_floats(cursor to, size_t n, const float *x)
{
    if (n) memcpy(to, x, n * sizeof *x);
    return to + n * sizeof *x;
}

/* The means, or the deviations. */
static cursor put_numbers(cursor to, const qg_net *net, qg_export_spec spec, const float *x)
{
    for (int i = 0; i < numbers_of(net, spec); i++) to = put_floats(to, 1, &x[spec.numbers == 1 ? 0 : i]);
    return to;
}

static cursor put_text(cursor to, const char *text)
{
    const size_t n = strlen(text) + 1;
    memcpy(to, text, n);
    return to + n;
}

/* The lowest version that can express the steps. */
static uint32_t version_of(const qg__records *s)
{
    for (int i = 0; i < s->count; i++)
        if (s->record[i].r.w_zeros) return 2;
    return 1;
}

/* Once all else is there, for the checksum. */
static void put_header(cursor file, const qg_net *net, qg_export_spec spec, const qg__records *s, size_t bytes)
{
    const qg_net_spec in   = net->spec;
    qg__packed_header h    = { .magic = QG__PACKED_MAGIC, .version = version_of(s), .steps = (uint32_t)s->count, .bytes = bytes,
                               .h = in.height, .w = in.width, .c = in.channels, .normal = (uint32_t)numbers_of(net, spec),
                               .notes = (uint32_t)spec.notes };
    const uint64_t    head = qg_hash_words(QG_HASH_BASIS, &h, offsetof(qg__packed_header, checksum));
    h.checksum = qg_hash_words(head, file + sizeof h, bytes - sizeof h);
    memcpy(file, &h, sizeof h);
}

static cursor put_step(cursor to, const qg__packed_step *r)
{
    memset(to, 0, QG__STEP_BYTES);
    memcpy(to, r, sizeof *r);
    return to + QG__STEP_BYTES;
}

/* Codes of fewer than 32 bits, the first in the lowest. */
void qg__pack_row(unsigned char *to, const qg__packed_step *r, size_t n, const float *w)
{
    memset(to, 0, qg__row_bytes(r));
    for (size_t i = 0, at = 0; i < n; i++) {
        const unsigned code = (unsigned)((int)w[i] - r->w_lowest) / (unsigned)r->w_step;
        for (int j = 0; j < r->w_bits; j++, at++) to[at / 8] |= (unsigned char)((code >> j & 1) << at % 8);
    }
}

static cursor put_rows(cursor to, const qg__record *s)
{
    const qg__packed_step *r = &s->r;
    const size_t           n = qg__row_numbers(r);
    if (r->kind != QG__PRODUCT) return to;
    for (size_t o = 0; o < (size_t)r->oc; o++, to += qg__row_bytes(r)) {
        if (r->w_count) qg__pack_row(to, r, n, s->w + o * n);
        else put_floats(to, n, s->w + o * n);
    }
    return to;
}

static void put_file(cursor file, const qg_net *net, qg_export_spec spec, const qg__records *s,
                     size_t bytes)
{
    cursor at = file + QG__HEADER_BYTES;
    for (int i = 0; i < s->count; i++) at = put_step(at, &s->record[i].r);
    at = put_numbers(at, net, spec, spec.mean);
    at = put_numbers(at, net, spec, spec.deviation);
    for (int i = 0; i < s->count; i++)
        at = put_floats(at, qg__step_floats(&s->record[i].r), s->record[i].floats);
    for (int i = 0; i < s->count; i++) at = put_rows(at, &s->record[i]);
    for (int i = 0; i < s->count; i++) at = put_text(at, s->record[i].name);
    for (int i = 0; i < spec.notes; i++) at = put_text(put_text(at, spec.note[i].key), spec.note[i].value);
    put_header(file, net, spec, s, bytes);
}

qg_status qg__write_packed(const qg_net *net, const qg__records *s, qg_export_spec spec, unsigned char **file,
                           size_t *bytes)
{
    const size_t n = size_of(net, s, spec);
    if (s->count > QG__MOST_STEPS)
        return qg_fail(QG_ESHAPE, "the net has %d steps, and a packed file at most %d", s->count, QG__MOST_STEPS);
    *file = malloc(n);
    if (!*file) return qg_fail(QG_EMEM, "out of memory: a packed file of %zu bytes", n);
    put_file(*file, net, spec, s, *bytes = n);
    return QG_OK;
}
