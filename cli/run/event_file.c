#include "cli/run/event_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/io/file.h"
#include "core/io/paths.h"

/* --- bytes ---------------------------------------------------------------------------------- */

typedef struct message {
    unsigned char *byte;
    size_t         n;
    bool           short_of_memory;
} message;

static void put(message *m, const void *bytes, size_t n)
{
    unsigned char *grown = n ? realloc(m->byte, m->n + n) : m->byte;
    if (n && !grown) {
        m->short_of_memory = true;
        return;
    }
    m->byte = grown;
    if (n) memcpy(m->byte + m->n, bytes, n);
    m->n += n;
}

/* Seven bits a byte, the lowest first; all but the last have the eighth set. */
static void put_varint(message *m, uint64_t v)
{
    unsigned char text[10];
    size_t        n = 0;
    do {
        text[n++] = (unsigned char)((v & 127) | (v > 127 ? 128 : 0));
        v >>= 7;
    } while (v);
    put(m, text, n);
}

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };      /* the wire types of protocol buffers */

static void put_key(message *m, unsigned field, unsigned type) { put_varint(m, field << 3 | type); }

static void put_bytes(message *m, unsigned field, const void *bytes, size_t n)
{
    put_key(m, field, BYTES);
    put_varint(m, n);
    put(m, bytes, n);
}

static void put_message(message *m, unsigned field, message *part)
{
    put_bytes(m, field, part->byte, part->n);
    m->short_of_memory |= part->short_of_memory;
    free(part->byte);
}

static void put_number(message *m, double v)
{
    unsigned char text[8];
    uint64_t      bits;
    memcpy(&bits, &v, sizeof bits);
    qg_put_u64(text, bits);
    put(m, text, sizeof text);
}

static void put_double(message *m, unsigned field, double v)
{
    put_key(m, field, FIXED64);
    put_number(m, v);
}

static void put_float(message *m, unsigned field, float v)
{
    unsigned char text[4];
    uint32_t      bits;
    memcpy(&bits, &v, sizeof bits);
    qg_put_u32(text, bits);
    put_key(m, field, FIXED32);
    put(m, text, sizeof text);
}

static void put_doubles(message *m, unsigned field, size_t n, const double *v)
{
    put_key(m, field, BYTES);
    put_varint(m, 8 * n);
    for (size_t i = 0; i < n; i++) put_number(m, v[i]);
}

/* --- records -------------------------------------------------------------------------------- */

/* CRC-32C (Castagnoli), bit by bit: a few kilobytes an epoch. */
static uint32_t crc32c(const unsigned char *bytes, size_t n)
{
    uint32_t c = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        c ^= bytes[i];
        for (int k = 0; k < 8; k++) c = c >> 1 ^ (c & 1 ? 0x82F63B78u : 0);
    }
    return ~c;
}

static uint32_t masked(uint32_t c) { return (c >> 15 | c << 17) + 0xA282EAD8u; }

static qg_status write_record(event_file *f, message *m)
{
    unsigned char head[12], tail[4];
    qg_put_u64(head, m->n);
    qg_put_u32(head + 8, masked(crc32c(head, 8)));
    qg_put_u32(tail, masked(crc32c(m->byte, m->n)));
    const bool failed = m->short_of_memory || fwrite(head, 1, sizeof head, f->out) != sizeof head ||
                        fwrite(m->byte, 1, m->n, f->out) != m->n || fwrite(tail, 1, sizeof tail, f->out) != sizeof tail ||
                        fflush(f->out);
    const bool memory = m->short_of_memory;
    free(m->byte);
    *m = (message){ 0 };
    if (!failed) return QG_OK;
    return memory ? qg_fail(QG_EMEM, "out of memory for an event") : qg_fail(QG_EIO, "the event file: %s", strerror(errno));
}

/* tensorflow.Event: 1 wall_time, 2 step, 3 file_version, 5 summary, 7 session_log. */
static message event(uint64_t step)
{
    message         m = { 0 };
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    put_double(&m, 1, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
    put_key(&m, 2, VARINT);
    put_varint(&m, step);
    return m;
}

/* Summary: 1 value, each with 1 tag and what was put into *value. */
static qg_status write_value(event_file *f, uint64_t step, const char *tag, message *value)
{
    message m = event(step), one = { 0 }, summary = { 0 };
    put_bytes(&one, 1, tag, strlen(tag));
    put(&one, value->byte, value->n);
    one.short_of_memory |= value->short_of_memory;
    free(value->byte);
    put_message(&summary, 1, &one);
    put_message(&m, 5, &summary);
    return write_record(f, &m);
}

qg_status event_file_scalar(event_file *f, uint64_t step, const char *tag, double value)
{
    message v = { 0 };
    put_float(&v, 2, (float)value);         /* simple_value */
    return write_value(f, step, tag, &v);
}

qg_status event_file_histogram(event_file *f, uint64_t step, const char *tag, const event_histogram *h)
{
    message v = { 0 }, histogram = { 0 };
    double  n = 0;
    for (size_t b = 0; b < h->buckets; b++) n += h->count[b];
    put_double(&histogram, 1, h->min);
    put_double(&histogram, 2, h->max);
    put_double(&histogram, 3, n);
    put_double(&histogram, 4, h->sum);
    put_double(&histogram, 5, h->squares);
    put_doubles(&histogram, 6, h->buckets, h->limit);
    put_doubles(&histogram, 7, h->buckets, h->count);
    put_message(&v, 5, &histogram);         /* histo */
    return write_value(f, step, tag, &v);
}

qg_status event_file_begin(event_file *f, const char *dir, uint64_t step)
{
    char path[QG__PATH_BYTES], name[160], host[64] = "";
    if (gethostname(host, sizeof host - 1) || !*host) strcpy(host, "localhost");
    snprintf(name, sizeof name, "events.out.tfevents.%lld.%s.%ld", (long long)time(NULL), host, (long)getpid());
    qg_status s = qg__path_join(dir, name, path);
    if (s) return s;
    f->out = fopen(path, "wbx");       /* a new file: it follows no link */
    if (!f->out) return qg_fail(QG_EIO, "%s: %s", path, strerror(errno));
    static const char version[] = "brain.Event:2";
    message           m         = event(0);
    put_bytes(&m, 3, version, sizeof version - 1);
    s = write_record(f, &m);
    if (s) return s;
    message begins = event(step), log = { 0 };
    put_key(&log, 1, VARINT), put_varint(&log, 1);         /* SessionLog: status START */
    put_message(&begins, 7, &log);
    return write_record(f, &begins);
}

void event_file_end(event_file *f)
{
    if (f->out) fclose(f->out);
    f->out = NULL;
}
