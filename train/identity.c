/* What the configuration of a run is: the text that checkpoints contain, and that a run must have to continue, on all ranks. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/hash.h"
#include "core/io/number.h"
#include "core/io/paths.h"
#include "core/dist/exchange.h"
#include "core/kernels/cpu.h"
#include "datasets/dataset.h"
#include "layers/plan.h"
#include "quant/scheme.h"
#include "train/distil.h"
#include "train/result.h"
#include "train/run.h"

/* Values are hashed one by one, since structs have padding. */
#define HASH(h, value) qg_hash(h, &(value), sizeof(value))

static uint64_t hash_text(uint64_t h, const char *text) { return qg_hash(h, text, strlen(text) + 1); }

/* --- images ------------------------------------------------------------------------------- */

static uint64_t hash_loader(uint64_t h, const qg_loader *l)
{
    const qg_loader_spec s        = qg__loader_spec(l);
    const uint64_t       number[] = { qg__loader_digest(l), qg__loader_class_digest(l), s.seed };
    const int            count[]  = { qg_loader_classes(l), s.batch, s.in_order, (int)s.normalise.kind, s.augment.pad,
                                      (int)s.augment.border, s.augment.flip, s.augment.cutout };
    const float          range[]  = { s.normalise.low, s.normalise.high };
    h = HASH(HASH(HASH(h, number), count), range);
    if (s.normalise.given) h = HASH(HASH(h, s.normalise.mean), s.normalise.deviation);
    const float          warp[]   = { s.augment.rotate, s.augment.scale };
    if (s.augment.rotate > 0 || s.augment.scale > 0) h = HASH(h, warp);
    if (s.validation.images) h = HASH(h, s.validation.images);
    return s.validation.share != 0 ? HASH(h, s.validation.share) : h;
}

/* A preprocessing that the program gave in place of .normalise; others follow from the images. */
static uint64_t hash_given(uint64_t h, const qg_loader *train)
{
    int          n;
    const float *mean, *deviation;
    const qg_preprocess *p    = qg_loader_preprocess(train);
    const qg_normalise   how  = qg_preprocess_normalise(p);
    const float          is[] = { (float)how.kind, how.low, how.high };
    if (how.kind == qg__loader_spec(train).normalise.kind) return h;
    h = HASH(h, is);
    if (qg_preprocess_numbers(p, &n, &mean, &deviation)) return h;
    return qg_hash(qg_hash(h, mean, (size_t)n * sizeof *mean), deviation, (size_t)n * sizeof *deviation);
}

/* --- layers ------------------------------------------------------------------------------- */

/* What digests of earlier versions lack counts only where it is not 0, so that their runs continue. */
static uint64_t hash_if_set(uint64_t h, const double *number, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (number[i] != 0) return qg_hash(h, number, n * sizeof *number);
    return h;
}

static uint64_t hash_quantizer(uint64_t h, const qg_quant *q)
{
    const qg_surrogate *s        = &q->surrogate;
    const uint64_t      number[] = { (uint64_t)q->bits, q->per_channel, q->after, s->steps };
    const float         slope[]  = { s->arg, s->to };
    const double        kind     = s->slope ? 2 + qg__surrogate_word(*s) : 0;      /* 1: the program's own */
    h = HASH(HASH(HASH(hash_text(h, q->scheme->name), number), slope), q->arg);
    return hash_if_set(h, &kind, 1);
}

static uint64_t hash_numbers(uint64_t h, qg_layer *l)
{
    const qg_product        *p    = qg_layer_product(l);
    const qg_batchnorm      *bn   = qg__batchnorm(l);
    const qg_batchnorm_spec  spec = bn ? bn->spec : (qg_batchnorm_spec){ 0 };
    const double number[] = { spec.eps, spec.momentum, (double)spec.freeze_after, p ? p->conv.pad_value : 0 };
    return hash_if_set(h, number, sizeof number / sizeof *number);
}

static uint64_t hash_layer(uint64_t h, qg_layer *l)
{
    char      does[128] = "";
    const int wiring[]  = { l->after ? l->after->index : -1, l->with ? l->with->index : -1, l->frozen };
    if (l->type->describe) l->type->describe(l, does, sizeof does);
    h = hash_text(hash_text(hash_text(h, l->name), l->type->name), does);
    h = hash_numbers(HASH(HASH(HASH(h, wiring), l->in), l->out), l);
    for (int r = 0; r < QG_ROLES; r++) {
        const qg_slot *slot = qg_layer_slot(l, qg_roles[r]);
        if (slot && slot->q.scheme) h = hash_quantizer(HASH(h, qg_roles[r]), &slot->q);
    }
    return h;
}

static uint64_t hash_net(const qg_net *net)
{
    uint64_t h = QG_HASH_BASIS;
    for (int i = 0; i < qg_net_layers(net); i++) h = hash_layer(h, qg_net_layer(net, i));
    return net->spec.fold_batchnorm ? HASH(h, net->spec.fold_batchnorm) : h;
}

/* --- the text ----------------------------------------------------------------------------- */

/* Nothing if it is NULL or empty. */
static void put_text(FILE *out, const char *key, const char *text)
{
    if (text && *text) fprintf(out, "%s = \"%s\"\n", key, text);
}

static void put_digest(FILE *out, const char *key, uint64_t digest) { fprintf(out, "%s = \"%016" PRIx64 "\"\n", key, digest); }

static void put_teacher(FILE *out, const qg_fit_teacher *t)
{
    const double value[QG__DISTIL_KEYS] = { (double)t->temperature, (double)t->weight };
    char         text[QG_KEY_BYTES * 4];
    if (!t->net) return;
    qg_keys_print(NULL, qg__distil_keys, value, text, sizeof text);
    put_text(out, "distil", text);
    put_digest(out, "teacher-digest", qg_params_digest(qg_net_params(t->net)));
    put_digest(out, "teacher-net-digest", hash_net(t->net));
    if (t->steps) fprintf(out, "teacher-steps = %" PRIu64 "\n", t->steps);
}

static void put_double(FILE *out, const char *key, double value)
{
    char text[QG_NUMBER_BYTES];
    qg__number_print_double(text, value);
    fprintf(out, "%s = %s\n", key, text);
}

/* Nothing if it is 0. */
static void put_float(FILE *out, const char *key, float value)
{
    char text[QG_NUMBER_BYTES];
    qg__number_print_float(text, value);
    if (value != 0) fprintf(out, "%s = %s\n", key, text);
}

/* The keys are those of the command line, where it has the option.  What is not used has no line, so that a configuration
 * stays the same text when a version adds a key. */
static qg_status print(const void *what, FILE *out)
{
    const qg__run     *r      = what;
    const qg_fit_spec *s      = r->spec;
    const char        *config = s->config ? s->config : "";
    const size_t       n      = strlen(config);
    char               schedule[256];
    fputs(config, out);
    if (s->same) return QG_OK;
    if (n && config[n - 1] != '\n') fputc('\n', out);
    qg_schedule_print(&s->schedule, schedule, sizeof schedule);
    fprintf(out, "epochs = %d\n", s->epochs);
    put_double(out, "lr", s->lr);
    fprintf(out, "schedule = \"%s\"\nseed = %" PRIu64 "\n", schedule, s->seed);
    if (s->patience) fprintf(out, "patience = %d\n", s->patience);
    put_float(out, "label-smoothing", s->label_smoothing);
    put_float(out, "clip-norm", s->clip_norm);
    put_float(out, "ema", s->ema_decay);
    put_text(out, "init-digest", r->init_digest);
    put_text(out, "init-except", s->init_except);
    put_text(out, "freeze", s->freeze);
    put_text(out, "whiten-patches", s->whiten_patches);
    put_teacher(out, &s->teacher);
    put_text(out, "reestimate-batchnorm", s->keep_running_statistics ? "off" : "on");
    if (r->net->spec.batchnorm_per_rank) fprintf(out, "norm-sync = \"off\"\nranks = %d\n", qg_ranks());
    put_digest(out, "net-digest", hash_net(r->net));
    put_digest(out, "data-digest", hash_given(hash_loader(hash_loader(QG_HASH_BASIS, s->train), s->test), s->train));
    if (s->validation) put_digest(out, "validation-digest", hash_loader(QG_HASH_BASIS, s->validation));
    return QG_OK;
}

char *qg__run_identity(const qg__run *r)
{
    char  *text;
    size_t n;
    return qg__text_print(print, r, &text, &n) ? NULL : text;
}

/* --- comparing ---------------------------------------------------------------------------- */

/* What follows "key = " in the line; NULL: it is the line of another key. */
static const char *value_of(const char *line, const char *key)
{
    static const char blank[] = " \t";
    const size_t      n       = strlen(key);
    line += strspn(line, blank);
    if (strncmp(line, key, n)) return NULL;
    line += n + strspn(line + n, blank);
    return *line == '=' ? line + 1 + strspn(line + 1, blank) : NULL;
}

const char *qg__identity_value(const char *text, const char *key)
{
    const char *found = NULL;
    for (const char *at = text; *at; at = qg__lines_next(at)) found = value_of(at, key) ? value_of(at, key) : found;
    return found;
}

bool qg__identity_of_program(const char *text) { return text && qg__identity_value(text, "net-digest"); }

/* The lines of a span may differ. */
static const char *skip_span(const char *at)
{
    while (value_of(at, "epochs") || value_of(at, "patience") || value_of(at, "schedule")) at = qg__lines_next(at);
    return at;
}

static qg_status read_span(const char *lines, const char *path, qg_fit_span *was)
{
    const char *epochs   = qg__identity_value(lines, "epochs"), *patience = qg__identity_value(lines, "patience");
    const char *schedule = qg__identity_value(lines, "schedule");
    char        text[256];
    if (epochs) was->epochs = (int)strtol(epochs, NULL, 10);
    was->patience = patience ? (int)strtol(patience, NULL, 10) : 0;
    if (!schedule) return QG_OK;
    snprintf(text, sizeof text, "%.*s", (int)strcspn(schedule + 1, "\"\n"), schedule + 1);
    return qg_schedule_parse(text, &was->schedule) ? qg_fail(QG_EFORMAT, "%s: schedule: %s", path, qg_errmsg()) : QG_OK;
}

/* Line by line; the program's own lines come first. */
static qg_status same_text(const qg__run *r, const char *noted, const char *path, qg_fit_span *was)
{
    const size_t own   = r->spec->config ? strlen(r->spec->config) : 0;
    const char  *there = noted, *here = r->identity, *rest = here + own;
    while (*there || *here) {
        if (here >= rest) there = skip_span(there), here = skip_span(here);
        const size_t n = strcspn(here, "\n");
        const bool   same = !strncmp(there, here, n + 1);
        if (!same && there == noted && value_of(there, "defaults"))
            return qg_fail(QG_EARG, "%s: belongs to a run of qgrad train; choose another directory", path);
        if (!same)
            return qg_fail(QG_EARG, "%s: belongs to a run with '%.*s', but this one has '%.*s'", path,
                           (int)strcspn(there, "\n"), there, (int)n, here);
        there = qg__lines_next(there), here = qg__lines_next(here);
    }
    return read_span(noted + own, path, was);
}

qg_status qg__run_same(const qg__run *r, const char *noted, const char *path, qg_fit_span *was)
{
    const qg_fit_spec *s = r->spec;
    *was = (qg_fit_span){ .epochs = s->epochs, .patience = s->patience, .schedule = s->schedule };
    return s->same ? s->same(s->user, noted, path, was) : same_text(r, noted, path, was);
}

/* The number of bytes before the first line in which a and b differ. */
static size_t same_lines(const char *a, const char *b)
{
    size_t same = 0;
    for (size_t i = 0; a[i] && a[i] == b[i]; i++)
        if (a[i] == '\n') same = i + 1;
    return same;
}

qg_status qg__run_check_ranks(const qg__run *r)
{
    static const char *const mine = "%scommit = \"%s\"\nkernels = \"%s\"\nwhitening = \"%s\"\nweights = \"%s\"\n";
    const char              *white = qg_state_find_note(r->last, "normalise.whitening");
    char                     digest[17], said[512] = "";
    if (qg_ranks() == 1) return QG_OK;
    qg__digest(r->net, digest);
    if (!white) white = "none";
    const int n = snprintf(NULL, 0, mine, r->identity, qg_commit(), qg_cpu_path(), white, digest);
    char     *here  = malloc((size_t)n + 1), *there = NULL;
    size_t    bytes = (size_t)n + 1;
    if (here) snprintf(here, bytes, mine, r->identity, qg_commit(), qg_cpu_path(), white, digest);
    qg_status status = qg_ranks_broadcast(&bytes, sizeof bytes);
    if (!status) there = qg_rank() ? malloc(bytes) : here;
    if (qg_ranks_any(!here || !there)) status = qg_fail(QG_EMEM, "out of memory for the configurations of ranks");
    if (!status) status = qg_ranks_broadcast(there, bytes);
    if (!status && strcmp(here, there)) {
        const size_t at = same_lines(here, there);
        snprintf(said, sizeof said, "rank %d has '%.*s', but rank 0 has '%.*s'", qg_rank(), (int)strcspn(here + at, "\n"), here + at,
                 (int)strcspn(there + at, "\n"), there + at);
    }
    if (there != here) free(there);
    free(here);
    if (!status) status = qg__ranks_tell(said, sizeof said);
    return !status && *said ? qg_fail(QG_EARG, "ranks do not agree: %s", said) : status;
}

/* --- operands ----------------------------------------------------------------------------- */

static bool is_legal(const qg_key *key, double value)
{
    return key->words || (value >= key->min && value <= key->max) || (key->also != 0 && value == key->also);
}

/* Other versions may have other defaults, so none is left out.  Surrogates decide no value. */
static void put_quantizer(FILE *out, qg_quant q)
{
    double        value[QG_MAX_KEYS] = { 0 };
    char          text[512], word[QG_KEY_BYTES];
    const qg_key *keys = q.scheme ? qg_scheme_keys(q.scheme, q.role) : NULL;
    size_t        n    = (size_t)snprintf(text, sizeof text, "%.63s", q.scheme ? q.scheme->name : "float");
    qg_quant      known;
    if (keys) qg__quant_values(q, value);
    for (int i = 0, before = ':'; i < qg_keys_count(keys) && n < sizeof text; i++) {
        if (!strcmp(keys[i].name, "as") || !strncmp(keys[i].name, "surrogate", 9) || !qg__key_has_effect(keys, i, value)) continue;
        if (!is_legal(&keys[i], value[i])) continue;
        n += (size_t)snprintf(text + n, sizeof text - n, "%c%s=%s", before, keys[i].name, qg_key_value(&keys[i], value[i], word));
        before = ',';
    }
    const bool own = q.scheme && (qg_quant_parse(text, q.role, &known) || known.scheme != q.scheme);
    fprintf(out, "%s%s\n", own ? "own " : "", text);
}

static qg_status print_operands(const void *net, FILE *out)
{
    for (int i = 0; i < qg_net_layers(net); i++) {
        qg_layer         *l      = qg_net_layer(net, i);
        const qg_product *p      = qg_layer_product(l);
        const qg_slot    *weight = qg_layer_slot(l, QG_WEIGHT), *input = qg_layer_slot(l, QG_INPUT);
        if (weight && weight->of) {
            fprintf(out, "%s %s", weight->of->name, p && qg_product_is_folded(p) ? "folded " : "");
            put_quantizer(out, weight->q);
        }
        if (input && input->q.scheme) fprintf(out, "%s.input ", l->name), put_quantizer(out, input->q);
    }
    return QG_OK;
}

char *qg__run_operands(const qg_net *net)
{
    char  *text;
    size_t n;
    return qg__text_print(print_operands, net, &text, &n) ? NULL : text;
}
