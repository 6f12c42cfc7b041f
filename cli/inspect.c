/* qgrad inspect: the weights of a layer, and their quantized values. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/print.h"
#include "cli/report/weights.h"
#include "cli/run/run_spec.h"
#include "core/io/json_write.h"
#include "layers/layer.h"

enum { INSPECT_LEVELS = 8 };    /* as many values are listed one by one */

/* One code, and the values it stands for: one, or one per channel. */
typedef struct level {
    int32_t code;
    float   min, max;
    size_t  count;
} level;

typedef struct tensor {
    const char    *name;           /* of its layer */
    const qg_slot *slot, *input;
    size_t         count;
    bool           folded;         /* a batch norm is multiplied into it before it is quantized */
    float          latent_min, latent_max;
    float          min, max;       /* quantized */
    size_t         zeros;          /* quantized values that are 0 */
    bool           has_codes;
    int            bits, scales;
    size_t         codes;          /* how many different ones are used, by the channel with the most
                                      if each has a scale */
    int            levels;         /* entries of level; 0: too many to list */
    level          level[INSPECT_LEVELS];
} tensor;

/* min..max comes to hold v. */
static inline void widen(float v, float *min, float *max)
{
    *min = v < *min ? v : *min;
    *max = v > *max ? v : *max;
}

typedef struct inspection {
    config    *asked;
    qg_run    *run;
    qg_tape   *tape;
} inspection;

/* --- measuring ---------------------------------------------------------------------------- */

static int by_code(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Returns the number of different codes among n and writes the first of them, in increasing order, to level. */
static size_t distinct(size_t n, const int32_t *code, int32_t *sorted, level list[INSPECT_LEVELS])
{
    size_t found = 0;
    memcpy(sorted, code, n * sizeof *code);
    qsort(sorted, n, sizeof *sorted, by_code);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && sorted[i] == sorted[i - 1]) continue;
        if (found < INSPECT_LEVELS) list[found] = (level){ sorted[i], INFINITY, -INFINITY, 0 };
        found++;
    }
    return found;
}

/* The different codes, and the values y they became. */
static void count_levels(tensor *v, const int32_t *code, int32_t *sorted, const float *y)
{
    const size_t row = v->count / (size_t)v->scales;
    for (size_t i = 0; i < v->count; i += row) {
        const size_t used = distinct(row, code + i, sorted, v->level);
        if (used > v->codes) v->codes = used;
    }
    const size_t all = distinct(v->count, code, sorted, v->level);
    v->levels        = all > INSPECT_LEVELS ? 0 : (int)all;
    for (size_t i = 0; i < v->count && v->levels; i++) {
        int k = 0;
        while (v->level[k].code != code[i]) k++;
        widen(y[i], &v->level[k].min, &v->level[k].max);
        v->level[k].count++;
    }
}

static qg_status measure_codes(tensor *v, qg_tensor x, const float *y)
{
    const qg_slot *slot     = v->slot;
    const size_t   channels = (size_t)x.shape.n;
    int32_t       *code = malloc(2 * v->count * sizeof *code);
    float         *scale = malloc(channels * sizeof *scale);
    qg_codes       codes = { .code = code, .scale = scale };
    qg_status      s     = code && scale ? QG_OK : qg_fail(QG_EMEM, "out of memory");
    if (!s)
        v->has_codes = !qg_slot_encode(slot, x, &codes);
    if (!s && v->has_codes) {
        v->bits   = codes.bits;
        v->scales = codes.n_scale;
        count_levels(v, code, code + v->count, y);
    }
    free(scale);
    free(code);
    return s;
}

/* The quantized values of w. */
static qg_status measure_quantized(inspection *e, qg_tensor w, tensor *v)
{
    qg_tape_begin(e->tape, QG_EVAL, 0, UINT64_MAX);     /* long after any delay */
    const qg_var *y = qg_slot_apply(v->slot, e->tape, qg_input(e->tape, w));
    if (!y) return qg_tape_status(e->tape);
    for (size_t i = 0; i < v->count; i++) {
        widen(y->data[i], &v->min, &v->max);
        v->zeros += y->data[i] == 0.0f;
    }
    return qg_has_codes(v->slot->q) ? measure_codes(v, w, y->data) : QG_OK;
}

/* The latent weight, and the weight that the net computes with. */
static qg_status measure(inspection *e, qg_layer *l, tensor *v)
{
    const qg_product *p    = qg_layer_product(l);
    const qg_slot    *slot = qg_layer_slot(l, QG_WEIGHT);
    const float      *x    = slot->of->value;
    *v = (tensor){ .name       = l->name,
                   .slot       = slot,
                   .input      = qg_layer_slot(l, QG_INPUT),
                   .count      = qg_count(slot->of->shape),
                   .folded     = p && qg_product_is_folded(p),
                   .latent_min = INFINITY,
                   .latent_max = -INFINITY,
                   .min        = INFINITY,
                   .max        = -INFINITY };
    for (size_t i = 0; i < v->count; i++) widen(x[i], &v->latent_min, &v->latent_max);
    if (!v->slot->q.scheme) return QG_OK;
    float          *folded = malloc(v->count * sizeof *folded);
    const qg_status s      = folded ? measure_quantized(e, qg_layer_weight(l, folded), v)
                                    : qg_fail(QG_EMEM, "out of memory");
    free(folded);
    return s;
}

/* --- for people --------------------------------------------------------------------------- */

static double percent(size_t part, size_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void print_levels(const tensor *v)
{
    printf("{");
    for (int k = 0; k < v->levels; k++) {
        const level *l = &v->level[k];
        printf(k ? ", " : "");
        if (l->max - l->min <= 1e-6f * fabsf(l->max))
            printf(l->max == 0 ? "0" : "%+.4g", (double)l->max);
        else printf("%+.4g..%+.4g", (double)l->min, (double)l->max);
    }
    printf("}  ");
    for (int k = 0; k < v->levels; k++)
        printf("%s%.1f", k ? ", " : "", percent(v->level[k].count, v->count));
    printf(" %%");
}

/* Prints the values that a quantizer learned or observed: a number, or the range over the channels. */
static void print_learned(const qg_slot *slot)
{
    for (int i = 0; i < QG_MAX_LEARNED; i++) {
        const qg_param *p   = slot->param[i];
        if (!p || slot->q.scheme->learned[i].quiet) continue;
        const float  legal = slot->q.scheme->learned[i].least;      /* to which a test raises a value below */
        const size_t n     = qg_count(p->shape);
        float        min = INFINITY, max = -INFINITY;
        for (size_t k = 0; k < n; k++) widen(legal > 0 && p->value[k] != 0 && p->value[k] < legal ? legal : p->value[k], &min, &max);
        printf("  %-10s %s %.6g", p->group == QG_TRACKED ? "observed" : "learned", p->name, (double)min);
        if (n > 1) printf(" .. %.6g, %zu channels", (double)max, n);
        printf("\n");
    }
}

static void print_input(const qg_slot *input)
{
    char scheme[QG_SPELLING_BYTES];
    printf("  %-10s %s, %d bit%s\n", "input", qg_scheme_spelling(input->q.scheme, QG_INPUT, scheme, sizeof scheme),
           input->q.bits, input->q.bits == 1 ? "" : "s");
    print_learned(input);
}

static const char only[] = "only its program can compute it";

static void print_unknown_input(const qg_slot *input)
{
    if (input && input->unknown) print_safe(stdout, "  %-10s %s; %s\n", "input", input->unknown, only);
}

static void print_quantizer(qg_layer *l)
{
    const qg_slot *input = qg_layer_slot(l, QG_INPUT);
    printf("%s: has no weights\n", l->name);
    if (input->q.scheme) print_input(input);
    print_unknown_input(input);
}

static void print_tensor(const tensor *v)
{
    const qg_quant q = v->slot->q;
    char           scheme[QG_SPELLING_BYTES];
    printf("%s: ", v->name);
    if (v->slot->unknown) {
        print_safe(stdout, "%s; %s\n", v->slot->unknown, only);
    } else if (!q.scheme) {
        printf("float, not quantized\n");
    } else if (v->levels) {
        print_levels(v);
        printf(", %.0f %% zero\n", percent(v->zeros, v->count));
    } else if (v->has_codes) {
        printf("%zu of %.0f codes used%s, %+.4g .. %+.4g, %.0f %% zero\n", v->codes, ldexp(1, v->bits),
               v->scales > 1 ? " by a channel at most" : "", (double)v->min, (double)v->max,
               percent(v->zeros, v->count));
    } else {
        printf("%+.4g .. %+.4g\n", (double)v->min + 0.0, (double)v->max + 0.0);     /* -0 is printed as 0 */
    }
    if (q.scheme) {
        printf("  %-10s %s, %d bit%s", "quantized", qg_scheme_spelling(q.scheme, QG_WEIGHT, scheme, sizeof scheme), q.bits,
               q.bits == 1 ? "" : "s");
        if (v->scales > 1) printf(", %d scales", v->scales);
        if (v->folded) printf(", with its batch norm folded in");
        if (q.after) printf(", from step %" PRIu64 " on", q.after);
        printf("\n");
        print_learned(v->slot);
    }
    printf("  %-10s %zu %s, %+.4g .. %+.4g\n", q.scheme || v->slot->unknown ? "latent" : "float", v->count,
           v->count == 1 ? "weight" : "weights", (double)v->latent_min, (double)v->latent_max);
    if (v->input && v->input->q.scheme) print_input(v->input);
    print_unknown_input(v->input);
}

/* The latent weights as bars, lowest first, with the level that most of a row becomes where there are few. */
static void print_histogram(const weight_picture *w)
{
    enum { ROWS = 21, LETTERS = 50 };
    const int each = (w->bins + ROWS - 1) / ROWS;
    size_t    most = 1;
    for (int pass = 0; pass < 2; pass++)
        for (int b = 0; b < w->bins; b += each) {
            const int end = b + each < w->bins ? b + each : w->bins;
            size_t    n   = 0;
            for (int i = b; i < end; i++) n += w->in_bin[i];
            if (n > most) most = n;
            if (pass == 0) continue;
            const int letters = (int)((double)n / (double)most * LETTERS + 0.5);
            printf("  %+10.4g  %-*.*s", (w->edge[b] + w->edge[end]) / 2, w->thresholds ? LETTERS : letters, letters,
                   "##################################################");
            int k = 0;
            while (k < w->thresholds && (w->edge[b] + w->edge[end]) / 2 > w->threshold[k]) k++;
            if (w->thresholds) printf("  -> %.4g", (double)w->level[k] + 0.0);     /* -0 is printed as 0 */
            putchar('\n');
        }
}

/* --- for programs ------------------------------------------------------------------------- */

static void json_learned(qg__json *j, const qg_slot *slot)
{
    qg__json_open(j, "learned", '[');
    for (int i = 0; i < QG_MAX_LEARNED; i++) {
        const qg_param *p = slot->param[i];
        if (!p) continue;
        qg__json_open(j, NULL, '{');
        qg__json_text(j, "name", p->name);
        qg__json_flag(j, "trained", p->group != QG_TRACKED);
        qg__json_open(j, "value", '[');
        for (size_t k = 0; k < qg_count(p->shape); k++) qg__json_real(j, NULL, (double)p->value[k]);
        qg__json_close(j, ']');
        qg__json_close(j, '}');
    }
    qg__json_close(j, ']');
}

static void json_histogram(qg__json *j, const weight_picture *w)
{
    qg__json_open(j, "histogram", '{');
    qg__json_open(j, "edges", '[');
    for (int b = 0; b <= w->bins && w->count; b++) qg__json_real(j, NULL, w->edge[b]);
    qg__json_close(j, ']');
    qg__json_open(j, "counts", '[');
    for (int b = 0; b < w->bins; b++) qg__json_integer(j, NULL, w->in_bin[b]);
    qg__json_close(j, ']');
    qg__json_open(j, "thresholds", '[');
    for (int k = 0; k < w->thresholds; k++) qg__json_real(j, NULL, w->threshold[k]);
    qg__json_close(j, ']');
    qg__json_close(j, '}');
}

static void json_scheme(qg__json *j, const qg_slot *slot, qg_role role)
{
    char text[QG_SPELLING_BYTES];
    qg__json_text(j, "scheme", qg_scheme_spelling(slot->q.scheme, role, text, sizeof text));
}

static void json_quantized(qg__json *j, const tensor *v)
{
    qg__json_open(j, "quantized", '{');
    json_scheme(j, v->slot, QG_WEIGHT);
    qg__json_integer(j, "bits", (uint64_t)v->slot->q.bits);
    qg__json_flag(j, "folded", v->folded);
    qg__json_real(j, "min", (double)v->min);
    qg__json_real(j, "max", (double)v->max);
    qg__json_real(j, "zero_share", percent(v->zeros, v->count) / 100);
    if (v->has_codes) {
        qg__json_integer(j, "scales", (uint64_t)v->scales);
        qg__json_integer(j, "codes_used", v->codes);
    }
    if (v->levels) qg__json_open(j, "values", '[');
    for (int k = 0; k < v->levels; k++) {
        qg__json_open(j, NULL, '{');
        qg__json_real(j, "code", (double)v->level[k].code);
        qg__json_real(j, "min", (double)v->level[k].min);
        qg__json_real(j, "max", (double)v->level[k].max);
        qg__json_real(j, "share", percent(v->level[k].count, v->count) / 100);
        qg__json_close(j, '}');
    }
    if (v->levels) qg__json_close(j, ']');
    json_learned(j, v->slot);
    qg__json_close(j, '}');
}

/* Of a quantizer that only another program knows, the scheme alone. */
static void json_unknown(qg__json *j, const char *member, const char *quantizer)
{
    qg__json_open(j, member, '{');
    qg__json_text(j, "scheme", quantizer);
    qg__json_flag(j, "known", false);
    qg__json_close(j, '}');
}

static void json_input(qg__json *j, const qg_slot *input)
{
    if (input && input->unknown) json_unknown(j, "input", input->unknown);
    if (!input || !input->q.scheme) return;
    qg__json_open(j, "input", '{');
    json_scheme(j, input, QG_INPUT);
    json_learned(j, input);
    qg__json_close(j, '}');
}

static void json_quantizer(qg__json *j, qg_layer *l)
{
    qg__json_open(j, NULL, '{');
    qg__json_text(j, "layer", l->name);
    qg__json_integer(j, "weights", 0);
    json_input(j, qg_layer_slot(l, QG_INPUT));
    qg__json_close(j, '}');
}

static void json_tensor(qg__json *j, const tensor *v, const weight_picture *w)
{
    qg__json_open(j, NULL, '{');
    qg__json_text(j, "layer", v->name);
    qg__json_integer(j, "weights", v->count);
    qg__json_open(j, "latent", '{');
    qg__json_real(j, "min", (double)v->latent_min);
    qg__json_real(j, "max", (double)v->latent_max);
    qg__json_close(j, '}');
    if (v->slot->q.scheme) json_quantized(j, v);
    else if (v->slot->unknown) json_unknown(j, "quantized", v->slot->unknown);
    else qg__json_text(j, "quantized", NULL);
    json_input(j, v->input);
    if (w) json_histogram(j, w);
    qg__json_close(j, '}');
}

/* --- the verb ----------------------------------------------------------------------------- */

static qg_status print_all(inspection *e)
{
    const bool  as_json = config_flag(e->asked, "json"), draws = config_flag(e->asked, "histogram");
    const char *file    = run_file_name(e->run);
    qg__json    j       = { 0 };
    qg_status   s       = QG_OK;
    if (as_json) {
        j = qg__json_begin(stdout);
        qg__json_path(&j, "run", qg_run_directory(e->run));
        qg__json_text(&j, "file", file);
        qg__json_integer(&j, "arithmetic", qg_run_arithmetic(e->run));
        qg__json_open(&j, "layers", '[');
    } else {
        print_safe(stdout, "%s, %s, arithmetic %" PRIu64 "\n", qg_run_file(e->run),
                   qg_run_config(e->run) ? "trained by a program" : qg_run_get(e->run, "model"), qg_run_arithmetic(e->run));
    }
    for (int i = 0; i < qg_net_layers(qg_run_net(e->run)) && !s; i++) {
        qg_layer      *l     = qg_net_layer(qg_run_net(e->run), i);
        const qg_slot *slot  = qg_layer_slot(l, QG_WEIGHT);
        const bool     has   = slot && slot->of;
        const qg_slot *alone = has ? NULL : qg_layer_slot(l, QG_INPUT);
        tensor         v;
        weight_picture w;
        if (has) s = measure(e, l, &v);
        if (has && !s && draws) s = weights_measure(l, e->tape, &w);
        if (s) break;
        if (has) as_json ? json_tensor(&j, &v, draws ? &w : NULL) : print_tensor(&v);
        if (has && draws && !as_json) print_histogram(&w);
        else if (alone && (alone->q.scheme || alone->unknown))
            as_json ? json_quantizer(&j, l) : print_quantizer(l);
    }
    if (as_json) {
        qg__json_close(&j, ']');
        qg__json_end(&j);
    }
    return s;
}

static int inspect(inspection *e, const char *dir)
{
    const char *asked = config_text(e->asked, "run");
    if (!dir == !asked)
        return refuse(e->asked, dir ? "two run directories were given; pass only one"
                                    : "the run directory is missing; usage: qgrad inspect DIR");
    if (!dir) dir = asked;
    e->run = qg_run_open(dir, config_flag(e->asked, "best") ? QG_RUN_BEST : QG_RUN_LAST);
    if (!e->run) return print_failure(e->asked);
    e->tape = qg_run_net(e->run) ? qg_tape_new() : NULL;
    const qg_status status = e->tape ? print_all(e) : qg_errcode();
    return status ? print_failure(e->asked) : EXIT_DONE;
}

static int inspect_main(config *asked)
{
    inspection e      = { .asked = asked };
    const int  status = inspect(&e, asked->word);
    qg_tape_free(e.tape);
    qg_run_close(e.run);
    return status;
}

static const verb_option own_options[] = {
    { "run", "the run directory, or a checkpoint of its own, in place of DIR" }, { "best" }, { "histogram" }, { NULL }
};

const verb inspect_verb = {
    .name = "inspect", .about = "Show the values of a run's quantized weights, layer by layer",
    .usage = "inspect DIR [options]", .run = inspect_main, .has_operand = true, .reads_run = true,
    .options = (const verb_option *const[]){ common_options, own_options, NULL },
};
