#include "train/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/file.h"
#include "core/io/hash.h"
#include "core/io/number.h"
#include "core/io/paths.h"

enum { MAX_METRICS_BYTES = 1 << 28 };

enum { COLUMNS = 8 };

/* The columns that every run has: without and with validation. */
static const struct {
    const char *name;
    size_t      at;             /* in qg_epoch */
    bool        is_time;        /* differs from process to process */
} column[2][COLUMNS] = {
#define COLUMN(name, is_time) { #name, offsetof(qg_epoch, name), is_time }
#define OF_SPLIT(split)                                                                                \
    { COLUMN(epoch, false),          COLUMN(lr, false),                COLUMN(train_loss, false),      \
      COLUMN(train_accuracy, false), COLUMN(split##_loss, false),      COLUMN(split##_accuracy, false), \
      COLUMN(images_per_second, true), COLUMN(seconds, true) }
    OF_SPLIT(test),
    OF_SPLIT(validation),
#undef OF_SPLIT
#undef COLUMN
};

/* After a failure, nothing. */
QG_PRINTF(2, 3)
static void append(qg__metrics *m, const char *fmt, ...)
{
    char    text[512];
    va_list args;
    va_start(args, fmt);
    const size_t n = (size_t)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    char *grown = m->failed || n >= sizeof text ? NULL : realloc(m->text, m->length + n + 1);
    m->failed   = !grown;
    if (m->failed) return;
    memcpy(grown + m->length, text, n + 1);
    m->text = grown;
    m->length += n;
}

/* A value and the comma before it, which the first in a line does not have. */
static void append_real(qg__metrics *m, double value)
{
    char text[QG_NUMBER_BYTES];
    qg__number_print(text, 9, value);
    append(m, "%s%s", m->text[m->length - 1] == '\n' ? "" : ",", text);
}

static qg_status end_line(qg__metrics *m)
{
    append(m, "\n");
    return m->failed ? qg_fail(QG_EMEM, "out of memory for metrics.csv") : QG_OK;
}

static double chosen_by(const qg__metrics *m, const qg_epoch *row)
{
    return m->validates ? row->validation_accuracy : row->test_accuracy;
}

static void count(qg__metrics *m, qg_epoch row)
{
    m->epochs++;
    if (row.seconds > 0) m->seconds += row.seconds;         /* an older version could write others */
    if (row.images_per_second > 0) {
        m->slowness += 1 / row.images_per_second;
        m->rates++;
    }
    m->last = row;
    const bool first = m->epochs == 1 || (m->best.epoch < m->best_from && row.epoch >= m->best_from);
    if (first || chosen_by(m, &row) > chosen_by(m, &m->best)) m->best = row;
}

qg_status qg__metrics_begin(qg__metrics *m, bool validates, const qg__code_stats *c, const qg__learned_list *l)
{
    *m = (qg__metrics){ .validates = validates, .digests = true };
    for (int i = 0; i < COLUMNS; i++) append(m, "%s%s", i ? "," : "", column[validates][i].name);
    append(m, "," QG__METRICS_DIGEST);
    for (int r = 0; r < c->rows; r++) {
        const char *name = c->row[r].layer->name;
        append(m, ",%.64s.zeros,%.64s.flipped", name, name);
        for (int k = 0; k < c->row[r].shares; k++) append(m, ",%.64s.code.%d", name, k);
    }
    for (int r = 0; r < l->count; r++) {
        const qg_param *p    = l->item[r].param;
        const char     *name = p->name;
        if (qg_count(p->shape) == 1) append(m, ",%.128s", name);
        else append(m, ",%.128s.least,%.128s.mean,%.128s.greatest", name, name, name);
    }
    return end_line(m);
}

qg_status qg__metrics_add(qg__metrics *m, qg_epoch row, const qg__code_stats *c, const qg__learned_list *l)
{
    for (int i = 0; i < COLUMNS; i++)
        append_real(m, *(const double *)(const void *)((const char *)&row + column[m->validates][i].at));
    append(m, ",%s", row.digest);
    for (int r = 0; r < c->rows; r++) {
        append_real(m, c->row[r].zeros);
        append_real(m, c->row[r].flipped);
        for (int k = 0; k < c->row[r].shares; k++) append_real(m, c->row[r].share[k]);
    }
    for (int r = 0; r < l->count; r++) {
        const qg_param          *p = l->item[r].param;
        const qg__learned_values s = qg__learned_values_of(p, l->item[r].entry);
        const double         each[] = { s.least, s.mean, s.greatest };
        const int            n      = qg_count(p->shape) == 1 ? 1 : 3;
        for (int i = 0; i < n; i++) append_real(m, each[i]);
    }
    const qg_status status = end_line(m);
    if (!status) count(m, row);
    return status;
}

/* Reads the first columns of the line at `at`. */
static bool parse_row(const char *at, const qg__metrics *m, qg_epoch *row)
{
    const size_t digits = sizeof row->digest - 1;
    *row = (qg_epoch){ .test_loss = NAN, .test_accuracy = NAN, .validation_loss = NAN, .validation_accuracy = NAN };
    for (int i = 0; i < COLUMNS; i++) {
        const size_t n  = strcspn(at, ",\n");
        double      *to = (double *)(void *)((char *)row + column[m->validates][i].at);
        if (!qg__number_read(at, n, to) || (at[n] != ',' && (at[n] != '\n' || i + 1 < COLUMNS))) return false;
        at += n + 1;
    }
    if (!m->digests) return true;
    memcpy(row->digest, at, strcspn(at, ",\n") == digits ? digits : 0);
    return strspn(row->digest, "0123456789abcdef") == digits;
}

/* The line begins with the columns that every run has.  *digests: the next one is that of digests. */
static bool is_header(const char *line, bool validates, bool *digests)
{
    static const char next[] = QG__METRICS_DIGEST;
    for (int i = 0; i < COLUMNS; i++) {
        const size_t n = strlen(column[validates][i].name);
        if (strncmp(line, column[validates][i].name, n) || (i + 1 < COLUMNS && line[n] != ',')) return false;
        line += n + 1;
    }
    *digests = line[-1] == ',' && strcspn(line, ",\n") == strlen(next) && !strncmp(line, next, strlen(next));
    return true;
}

static int columns(const char *line)
{
    int n = 1;
    for (; *line && *line != '\n'; line++) n += *line == ',';
    return n;
}

qg_status qg__metrics_read(qg__metrics *m, int dir, const char *path, int epochs, uint64_t best_from)
{
    *m = (qg__metrics){ .best_from = (double)best_from };
    size_t          n;
    const qg_status status = qg__text_read(dir, path, MAX_METRICS_BYTES, &m->text, &n);
    if (status) return status;
    m->validates = is_header(m->text, true, &m->digests);
    if (!m->validates && !is_header(m->text, false, &m->digests))
        return qg_fail(QG_EFORMAT, "%s: the first line is not that of a metrics.csv", path);
    const int   wide = columns(m->text);
    const char *at   = strchr(m->text, '\n');
    while (at && at[1] && m->epochs != epochs) {
        qg_epoch row;
        if (!strchr(at + 1, '\n') || !parse_row(at + 1, m, &row) || row.epoch != m->epochs + 1 || columns(at + 1) != wide)
            return qg_fail(QG_EFORMAT, "%s: line %d is not the row of epoch %d", path, m->epochs + 2,
                           m->epochs + 1);
        count(m, row);
        at = strchr(at + 1, '\n');
    }
    if (!at || m->epochs < epochs)
        return qg_fail(QG_EFORMAT, "%s: has %d epoch%s, but the checkpoint was written after %d", path, m->epochs,
                       m->epochs == 1 ? "" : "s", epochs);
    m->length          = (size_t)(at + 1 - m->text);
    m->text[m->length] = '\0';
    return QG_OK;
}

bool qg__metrics_row(const qg__metrics *m, int i, qg_epoch *row)
{
    const char *at = m->text;
    if (i < 0 || i >= m->epochs) return false;
    for (int line = 0; line <= i; line++) at = strchr(at, '\n') + 1;
    return parse_row(at, m, row);
}

qg_status qg__metrics_has_rows(int dir, const char *path, bool *rows)
{
    char  *text;
    size_t n;
    bool   exists;
    *rows = false;
    qg_status status = qg__file_exists_in(dir, path, &exists);
    if (status || !exists) return status;
    status = qg__text_read(dir, path, MAX_METRICS_BYTES, &text, &n);
    if (status) return status;
    const char *end = strchr(text, '\n');
    *rows           = end && end[1];
    free(text);
    return QG_OK;
}

void qg__metrics_digest(const qg__metrics *m, char text[17])
{
    uint64_t h = QG_HASH_BASIS;
    int      c = 0;             /* of the field at `at` */
    for (const char *at = m->text, *end = at + m->length; at < end;) {
        const size_t n = strcspn(at, ",\n") + 1;       /* with what ends it */
        if (c >= COLUMNS || !column[m->validates][c].is_time) h = qg_hash(h, at, n);
        c = at[n - 1] == '\n' ? 0 : c + 1;
        at += n;
    }
    snprintf(text, 17, "%016" PRIx64, h);
}

qg_status qg__metrics_write(const qg__metrics *m, int dir, const char *path)
{
    qg_file *f = qg__file_begin_in(dir, path);
    qg__file_put(f, m->text, m->length);
    return qg__file_commit(f);
}

double qg__metrics_rate(const qg__metrics *m) { return m->rates ? m->rates / m->slowness : 0; }

void qg__metrics_end(qg__metrics *m)
{
    free(m->text);
    *m = (qg__metrics){ 0 };
}
