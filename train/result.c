#include "train/result.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/io/file.h"
#include "core/io/hash.h"
#include "core/io/json.h"
#include "core/io/number.h"
#include "core/io/paths.h"
#include "core/io/utf8.h"
#include "layers/export/export.h"

/* Set by the Makefile. */
#ifndef QGRAD_COMMIT
#define QGRAD_COMMIT "unknown"
#endif

enum { MAX_RESULT_BYTES = 1 << 20 };

#define BLANK " \t\r\n"

typedef enum kind { TEXT, REAL, INTEGER, FLAG, END } kind;

/* Which files have a field: those of every run, of later versions, or of runs with validation images. */
typedef enum presence { EVERY_RUN, NEWER_RUNS, VALIDATION } presence;

static const char *const ends[QG_FIT_ENDS] = { "no", "complete", "budget", "stop" };

static const struct field {
    const char *key;
    kind        kind;
    size_t      offset;         /* in qg_fit_result */
    presence    has;
} fields[] = {
#define FIELD(name, kind) { #name, kind, offsetof(qg_fit_result, name), EVERY_RUN }
#define NEWER(name, kind) { #name, kind, offsetof(qg_fit_result, name), NEWER_RUNS }
#define OF_VALIDATION(name, kind) { #name, kind, offsetof(qg_fit_result, name), VALIDATION }
    FIELD(test_accuracy, REAL),        FIELD(best_test_accuracy, REAL), FIELD(best_epoch, INTEGER),
    FIELD(test_accuracy_stderr, REAL), FIELD(test_images, INTEGER),     FIELD(train_loss, REAL),
    FIELD(epochs, INTEGER),            FIELD(complete, FLAG),           FIELD(images_per_second, REAL),
    FIELD(seconds, REAL),              FIELD(threads, INTEGER),         FIELD(cpu_path, TEXT),
    FIELD(commit, TEXT),               NEWER(arithmetic, INTEGER),      FIELD(seed, INTEGER),
    FIELD(digest, TEXT),               NEWER(ended, END),
    NEWER(out_of_patience, FLAG),
    OF_VALIDATION(validation_accuracy, REAL),
    OF_VALIDATION(best_validation_accuracy, REAL),
    OF_VALIDATION(validation_images, INTEGER),
#undef OF_VALIDATION
#undef NEWER
#undef FIELD
};

enum { FIELDS = sizeof fields / sizeof *fields };

static bool read_text(qg_json *j, char *to)
{
    const char *text;
    if (!qg__json_string(j, &text)) return false;
    if (strlen(text) >= QG_FIT_TEXT) return qg__json_bad(j, "a text that is too long");
    strcpy(to, text);
    return true;
}

/* A number, or null. */
static bool read_real(qg_json *j, double *to)
{
    const char *from = (const char *)j->at + strspn((const char *)j->at, BLANK);
    if (!qg__json_skip(j)) return false;
    if (qg__number_read(from, (size_t)((const char *)j->at - from), to)) return true;
    *to = NAN;
    return !strncmp(from, "null", 4) || qg__json_bad(j, "expected a number");
}

static bool read_end(qg_json *j, qg_fit_end *to)
{
    const char *word;
    int         i = 0;
    if (!qg__json_string(j, &word)) return false;
    while (i < QG_FIT_ENDS && strcmp(ends[i], word)) i++;
    *to = (qg_fit_end)i;
    return i < QG_FIT_ENDS || qg__json_bad(j, "expected no, complete, budget or stop");
}

static bool read_flag(qg_json *j, bool *to)
{
    const char *from = (const char *)j->at + strspn((const char *)j->at, BLANK);
    if (!qg__json_skip(j)) return false;
    *to = *from == 't';
    return *from == 't' || *from == 'f' || qg__json_bad(j, "expected true or false");
}

static bool read_value(qg_json *j, const struct field *f, qg_fit_result *r)
{
    char  *to = (char *)r + f->offset;
    size_t n;
    switch (f->kind) {
    case TEXT: return read_text(j, to);
    case REAL: return read_real(j, (double *)(void *)to);
    case FLAG: return read_flag(j, (bool *)(void *)to);
    case END: return read_end(j, (qg_fit_end *)(void *)to);
    case INTEGER: break;
    }
    if (!qg__json_size(j, &n)) return false;
    *(uint64_t *)(void *)to = n;
    return true;
}

static bool read_object(qg_json *j, qg_fit_result *r, bool seen[FIELDS])
{
    if (!qg__json_expect(j, '{')) return false;
    for (bool first = true;; first = false) {
        const char *key;
        if (!qg__json_key(j, first, &key)) return false;
        if (!key) return qg__json_at_end(j);
        int i = 0;
        while (i < FIELDS && strcmp(fields[i].key, key)) i++;
        if (i < FIELDS) seen[i] = true;
        if (i < FIELDS ? !read_value(j, &fields[i], r) : !qg__json_skip(j)) return false;
    }
}

/* The last member, after everything that it covers. */
#define CHECKSUM ",\"checksum\":\""

/* The member, and the end of an object that begins with these n bytes. */
static void print_end(const char *object, size_t n, char end[64])
{
    snprintf(end, 64, CHECKSUM "%016" PRIx64 "\"}\n", qg_hash(QG_HASH_BASIS, object, n));
}

qg_status qg__result_write(int dir, const char *path, const char *object, size_t n)
{
    char         end[64];
    const size_t most = n - strlen("}\n");
    print_end(object, most, end);
    qg_file *f = qg__file_begin_in(dir, path);
    qg__file_put(f, object, most);
    qg__file_put(f, end, strlen(end));
    return qg__file_commit(f);
}

static bool is_damaged(const char *text)
{
    char        end[64];
    const char *at = NULL;
    for (const char *next = text; (next = strstr(next, CHECKSUM)); next++) at = next;   /* .about may have one */
    if (at) print_end(text, (size_t)(at - text), end);
    return at && strcmp(at, end);
}

qg_status qg__result_read(qg_fit_result *r, int dir, const char *path)
{
    char           *text;
    size_t          n;
    bool            seen[FIELDS] = { false };
    const qg_status status       = qg__text_read(dir, path, MAX_RESULT_BYTES, &text, &n);
    *r = (qg_fit_result){ .validation_accuracy = NAN, .best_validation_accuracy = NAN, .arithmetic = 1 };
    if (status) return status;
    qg_json j = { .path  = path,
                  .start = (unsigned char *)text,
                  .at    = (unsigned char *)text,
                  .end   = (unsigned char *)text + n };
    if (!qg__utf8_valid(text, n)) (void)qg__json_bad(&j, "not UTF-8");
    else if (is_damaged(text)) j.status = qg_fail(QG_EFORMAT, "%s: is damaged: its checksum is another", path);
    else (void)read_object(&j, r, seen);
    free(text);
    for (int i = 0; i < FIELDS && !j.status; i++)
        if (!seen[i] && fields[i].has == EVERY_RUN)
            j.status = qg_fail(QG_EFORMAT, "%s: %s is missing", path, fields[i].key);
    return j.status;
}

void qg__result_put(qg__json *j, const qg_fit_result *r)
{
    for (int i = 0; i < FIELDS; i++) {
        const void *from = (const char *)r + fields[i].offset;
        if (fields[i].has == VALIDATION && !r->validation_images) continue;
        switch (fields[i].kind) {
        case TEXT: qg__json_text(j, fields[i].key, from); break;
        case REAL: qg__json_real(j, fields[i].key, *(const double *)from); break;
        case INTEGER: qg__json_integer(j, fields[i].key, *(const uint64_t *)from); break;
        case FLAG: qg__json_flag(j, fields[i].key, *(const bool *)from); break;
        case END: qg__json_text(j, fields[i].key, ends[*(const qg_fit_end *)from]); break;
        }
    }
}

void qg__result_join(char to[QG_FIT_TEXT], const char *before, const char *now)
{
    const size_t n   = strlen(now);
    bool         has = n == 0;
    for (const char *at = before; !has && (at = strstr(at, now)); at++)
        has = (at == before || at[-1] == ' ') && (at[n] == ',' || !at[n]);
    const char *sep = *before ? ", " : "";
    const bool full = !has && strlen(before) + strlen(sep) + n + sizeof ", .." > QG_FIT_TEXT;
    if (full) now = "..";                       /* not half a name */
    if (has || (full && strstr(before, ".."))) snprintf(to, QG_FIT_TEXT, "%s", before);
    else snprintf(to, QG_FIT_TEXT, "%s%s%s", before, sep, now);
}

/* --- what it holds ------------------------------------------------------------------------- */

const char *qg_commit(void) { return QGRAD_COMMIT; }

void qg__digest(const qg_net *net, char text[17])
{
    snprintf(text, 17, "%016" PRIx64, qg_params_digest(qg_net_params(net)));
}

qg_status qg_fit_result_print(const qg_fit_result *r, const qg_fit_spec *spec, const qg_net *net, FILE *out)
{
    size_t packed;
    if (qg_net_packed_bytes(net, &packed)) return QG_EMEM;
    qg__json j = qg__json_begin(out);
    for (int i = 0; i < spec->abouts; i++) qg__json_text(&j, spec->about[i].key, spec->about[i].value);
    qg__json_integer(&j, "parameters", qg_params_trained(qg_net_params(net)));
    qg__json_integer(&j, "float_bytes", qg_net_float_bytes(net));
    qg__json_bytes(&j, "packed_bytes", packed);
    qg__json_integer(&j, "peak_rss_bytes", qg__peak_rss_bytes());
    if (spec->dir) qg__json_path(&j, "run", spec->dir);
    qg__result_put(&j, r);
    qg__json_end(&j);
    return QG_OK;
}

typedef struct printed {
    const qg_fit_result *r;
    qg_fit_spec          spec;
    const qg_net        *net;
} printed;

static qg_status print_result(const void *what, FILE *out)
{
    const printed *p = what;
    return qg_fit_result_print(p->r, &p->spec, p->net, out);
}

qg_status qg__result_save(const qg_fit_result *r, const qg_fit_spec *spec, const qg_net *net, int dir, const char *path)
{
    printed p = { r, *spec, net };
    char   *text;
    size_t  n;
    p.spec.dir       = NULL;        /* which may be moved */
    qg_status status = qg__text_print(print_result, &p, &text, &n);
    if (!status) status = qg__result_write(dir, path, text, n);
    free(text);
    return status;
}
