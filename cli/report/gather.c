#include "cli/report/gather.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const moment_name[MOMENTS] = { "start", "best", "last" };

/* --- weights -------------------------------------------------------------------------------- */

/* The quantizer of an operand; nothing for an input that is not quantized. */
static void spell(qg_layer *l, qg_role role, char text[QUANTIZER_BYTES])
{
    const qg_slot *slot    = qg_layer_slot(l, role);
    const char    *unknown = slot ? slot->unknown : NULL;
    const qg_quant q       = slot ? slot->q : (qg_quant){ 0 };
    char           scheme[QG_SPELLING_BYTES];
    if (unknown) snprintf(text, QUANTIZER_BYTES, "%.120s", unknown);
    else if (q.scheme || role == QG_WEIGHT)
        snprintf(text, QUANTIZER_BYTES, "%s", qg_scheme_spelling(q.scheme, role, scheme, sizeof scheme));
    const size_t n = strlen(text);
    if (q.scheme && q.bits < QG_FLOAT_BITS) snprintf(text + n, QUANTIZER_BYTES - n, ", %d bit%s", q.bits, q.bits == 1 ? "" : "s");
}

static qg_status take_layers(shown_run *r, qg_net *net)
{
    const int n = qg_net_layers(net);
    r->layer    = calloc((size_t)n + 1, sizeof *r->layer);
    r->input    = calloc((size_t)n + 1, sizeof *r->input);
    if (!r->layer || !r->input) return qg_fail(QG_EMEM, "out of memory for %d layers", n);
    for (int i = 0; i < n; i++) {
        qg_layer      *l    = qg_net_layer(net, i);
        const qg_slot *slot = qg_layer_slot(l, QG_WEIGHT);
        if (!slot || !slot->of) continue;
        shown_layer *to = &r->layer[r->layers++];
        to->index       = i;
        snprintf(to->name, sizeof to->name, "%s", l->name);
        spell(l, QG_WEIGHT, to->quantizer);
        spell(l, QG_INPUT, to->input);
    }
    return QG_OK;
}

static qg_status measure(shown_run *r, qg_net *net, qg_tape *t, moment m)
{
    qg_status s = QG_OK;
    for (int i = 0; i < r->layers && !s; i++)
        s = weights_measure(qg_net_layer(net, r->layer[i].index), t, &r->layer[i].weight[m]);
    return s;
}

static qg_status measure_moment(shown_run *r, qg_tape *t, moment m)
{
    qg_run   *run = qg_run_open(r->dir, m == AT_START ? QG_RUN_START : QG_RUN_BEST);
    qg_status s   = run && qg_run_net(run) ? QG_OK : qg_errcode();
    const bool unknown = m == AT_START && s == QG_ESTATE;       /* they do not follow from the seed */
    if (!s) s = measure(r, qg_run_net(run), t, m);
    qg_run_close(run);
    return unknown ? QG_OK : s;
}

/* The best weights may be those of an epoch that has not been saved as best.safetensors of this version. */
static qg_status measure_all(shown_run *r, const shown_layer *before)
{
    const bool ends_with_best = r->result.best_epoch == r->result.epochs && r->result.batch == 0;
    qg_tape   *t = qg_tape_new();
    qg_status  s = t ? measure(r, qg_run_net(r->last), t, AT_LAST) : QG_EMEM;
    for (int i = 0; i < r->layers; i++) {
        if (ends_with_best) r->layer[i].weight[AT_BEST] = r->layer[i].weight[AT_LAST];
        if (before) r->layer[i].weight[AT_START] = before[i].weight[AT_START];
    }
    if (!s && !ends_with_best) s = measure_moment(r, t, AT_BEST);
    if (!s && !before) s = measure_moment(r, t, AT_START);
    qg_tape_free(t);
    return s;
}

static qg_status print_summary(const void *net, FILE *out)
{
    return qg_net_summary(net, out);
}

/* What the page says of the whole net. */
static qg_status take_sizes(shown_run *r, const qg_net *net)
{
    size_t n;
    r->floats = qg_net_float_bytes(net);
    if (qg_net_packed_bytes(net, &r->packed)) return QG_EMEM;
    if (qg_run_config(r->run) && !qg_run_note(r->run, "net")) return QG_OK;
    return qg__text_print(print_summary, net, &r->summary, &n);
}

qg_status shown_run_read(shown_run *r, const char *dir, const shown_layer *before)
{
    *r      = (shown_run){ .run = qg_run_open(dir, QG_RUN_LAST) };
    r->last = r->run ? qg_run_open(dir, QG_RUN_LAST) : NULL;
    if (!r->last) return qg_errcode();
    if (!strcmp(run_file_name(r->run), run_file_names[RUN_BEST]))
        return qg_fail(QG_EARG, "%s: a page shows the last weights; name the directory of the run", dir);
    r->dir      = qg_run_directory(r->run);
    r->recipe   = qg_run_config(r->run) ? NULL : qg_recipe_of_run(r->dir);
    qg_status s = qg_run_result(r->dir, &r->result);
    if (!s && !qg_run_column(r->run, "epoch", &r->epochs)) s = qg_errcode();
    qg_net *net = s ? NULL : qg_run_net(r->last);
    if (!s && !net) s = qg_errcode();
    if (!s) s = take_layers(r, net);
    if (!s) s = take_sizes(r, net);
    const bool measured = r->epochs > 0 || r->result.complete || r->result.test_images > 0;
    if (!s && !measured) s = qg_fail(QG_ESTATE, "%s: no epoch is finished yet", r->dir);
    return s ? s : measure_all(r, before);
}

/* --- inputs --------------------------------------------------------------------------------- */

/* Nothing is folded here, and the results of all layers stay in memory at the same time. */
enum { INPUT_IMAGES = 16 };

/* The quantizer of what l reads: that of a product, or of a quantize layer. */
static const qg_slot *quantizer_of(qg_layer *l)
{
    const qg_slot *slot = qg_layer_slot(l, QG_INPUT);
    return slot && slot->q.scheme ? slot : NULL;
}

static void count_values(size_t n, const float *q, shown_input *out)
{
    out->least = INFINITY, out->greatest = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        out->least    = fminf(out->least, q[i]);
        out->greatest = fmaxf(out->greatest, q[i]);
    }
    size_t zeros = 0, low = 0, high = 0;
    for (size_t i = 0; i < n; i++) {
        zeros += q[i] == 0.0f;
        low += q[i] == out->least;
        high += q[i] == out->greatest;
    }
    out->zeros   = (double)zeros / (double)n;
    out->lowest  = (double)low / (double)n;
    out->highest = (double)high / (double)n;
}

static qg_var *run_layer(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    return l->with ? l->type->forward(l, t, x, z) : qg_apply(l, t, x);
}

/* Layer by layer, as declared, so that what a layer reads can be seen. */
static qg_status run_layers(shown_run *r, qg_tape *t, qg_var *image, qg_var **result)
{
    for (int i = 0; i < qg_net_layers(qg_run_net(r->last)); i++) {
        qg_layer      *l    = qg_net_layer(qg_run_net(r->last), i);
        qg_var        *x    = l->after ? result[l->after->index] : image;
        const qg_slot *slot = quantizer_of(l);
        const qg_var  *q    = slot ? qg_slot_apply(slot, t, x) : NULL;
        if (q) {
            shown_input *out = &r->input[r->inputs++];
            snprintf(out->layer, sizeof out->layer, "%s", l->name);
            count_values(qg_count(q->shape), q->data, out);
        }
        result[i] = run_layer(l, t, x, l->with ? result[l->with->index] : NULL);
        if (!result[i]) return qg_tape_status(t);
    }
    return QG_OK;
}

qg_status shown_run_inputs(shown_run *r, qg_loader *images)
{
    qg_tensor x      = { .shape = qg_loader_shape(images) };
    qg_tape  *t      = qg_tape_new();
    qg_var  **result = calloc((size_t)qg_net_layers(qg_run_net(r->last)) + 1, sizeof *result);
    if (x.shape.n > INPUT_IMAGES) x.shape.n = INPUT_IMAGES;
    x.data      = malloc(qg_count(x.shape) * sizeof *x.data);
    qg_status s = t && result && x.data ? QG_OK : qg_fail(QG_EMEM, "out of memory for a tape");
    for (int i = 0; i < x.shape.n && !s; i++) s = qg_loader_image(images, (uint64_t)i, x.data + (size_t)i * qg_row(x.shape));
    r->inputs       = 0;
    r->input_images = x.shape.n;
    if (!s) {
        qg_tape_begin(t, QG_EVAL, 0, qg_run_steps(r->last));
        s = run_layers(r, t, qg_input(t, x), result);
    }
    free(x.data);
    free(result);
    qg_tape_free(t);
    return s;
}

void shown_run_release(shown_run *r)
{
    qg_run_close(r->last);
    r->last = NULL;
}

void shown_run_free(shown_run *r)
{
    shown_run_release(r);
    qg_run_close(r->run);
    qg_recipe_free(r->recipe);
    free(r->summary);
    free(r->layer);
    free(r->input);
    *r = (shown_run){ .layers = 0 };
}

const char *metric_column_part(const char *name)
{
    static const char *const parts[] = { "zeros", "flipped", "code.", "weight.", "input.", "gradient." };
    for (const char *at = name + strlen(name); at-- > name;)        /* the last; others are of the layer's name */
        for (size_t i = 0; *at == '.' && i < sizeof parts / sizeof *parts; i++) {
            const size_t n = strlen(parts[i]);
            if (!strncmp(at + 1, parts[i], n) && (parts[i][n - 1] == '.' || !at[1 + n])) return at + 1;
        }
    return NULL;
}

/* --- runs that differ in their seeds alone ---------------------------------------------------- */

/* Checkpoints note their training with a line for each key; versions differ in their keys. */
static bool are_together(const shown_run *one, const shown_run *other)
{
    static const char key[] = "seed = ";
    const char       *a = qg_run_note(one->run, "recipe"), *b = qg_run_note(other->run, "recipe");
    if (one->recipe && other->recipe) {
        const qg_recipe_key *k = NULL;
        while ((k = qg_recipe_difference(one->recipe, other->recipe, k)) && (!(k->is & QG_RECIPE_IDENTITY) || !strcmp(k->name, "seed"))) continue;
        return !k;
    }
    while (*a && *b) {
        const size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");
        const bool   seeds = !strncmp(a, key, strlen(key)) && !strncmp(b, key, strlen(key));
        if (!seeds && (n != m || strncmp(a, b, n))) return false;
        a += n + (a[n] != '\0'), b += m + (b[m] != '\0');
    }
    return *a == *b;
}

/* A run that repeats another to the bit says nothing about the spread. */
static bool has_new_seed(const shown_run *run, int i, const int *group, int number)
{
    for (int k = 0; k < i; k++)
        if (group[k] == number && run[k].result.seed == run[i].result.seed) return false;
    return true;
}

/* "runs/ttq" of runs/ttq-1 and runs/ttq-2, and how many they are. */
static void name_group(shown_group *g, const shown_run *run, int runs, const int *group, int number)
{
    const char *dir = g->first->dir;
    size_t      n   = strlen(dir);
    for (int i = 0; i < runs; i++)
        while (group[i] == number && strncmp(run[i].dir, dir, n)) n--;
    while (g->runs > 1 && n > 0 && dir[n - 1] >= '0' && dir[n - 1] <= '9') n--;
    while (g->runs > 1 && n > 0 && strchr("-_.=", dir[n - 1])) n--;
    if (n == 0) n = strlen(dir);
    if (g->runs == 1) strcpy(g->name, dir);
    else snprintf(g->name, sizeof g->name, "%.*s (%d seeds)", (int)n, dir, g->runs);
}

/* The sum and the number of the values of a column, or, once these are known, the sum of their squared distances from the mean:
 * in two passes, because accuracies are much larger than their deviations. */
static void sum_column(const shown_run *r, const char *name, double *mean, double *n, double *squares)
{
    int           epochs;
    const double *x = qg_run_column(r->run, name, &epochs);
    for (int e = 0; x && e < epochs; e++) {
        if (!isfinite(x[e])) continue;
        if (squares) squares[e] += (x[e] - mean[e]) * (x[e] - mean[e]);
        else mean[e] += x[e], n[e]++;
    }
}

static qg_status average(shown_group *g, const shown_run *run, int runs, const int *group, int number)
{
    size_t columns = 0;
    for (int k = 0; k < runs; k++)
        if (group[k] == number && run[k].epochs > g->epochs) g->epochs = run[k].epochs;
    while (qg_run_column_name(g->first->run, (int)columns)) columns++;
    const size_t epochs = (size_t)g->epochs;
    for (int c = 0; c < SHOWN_CURVES; c++)
        if (!(g->curve[c] = calloc(columns * epochs + 1, sizeof **g->curve)))
            return qg_fail(QG_EMEM, "out of memory for the means of %d epochs", g->epochs);
    for (size_t i = 0; i < columns; i++) {
        const char *name = qg_run_column_name(g->first->run, (int)i);
        double     *mean = g->curve[SHOWN_MEAN] + i * epochs, *low = g->curve[SHOWN_LOW] + i * epochs;
        double     *high = g->curve[SHOWN_HIGH] + i * epochs;
        for (int k = 0; k < runs; k++)
            if (group[k] == number) sum_column(&run[k], name, mean, low, NULL);
        for (size_t e = 0; e < epochs; e++) mean[e] = low[e] > 0 ? mean[e] / low[e] : (double)NAN;
        for (int k = 0; k < runs; k++)
            if (group[k] == number) sum_column(&run[k], name, mean, low, high);
        for (size_t e = 0; e < epochs; e++) {
            const double deviation = low[e] > 1 ? sqrt(high[e] / (low[e] - 1)) : (double)NAN;
            low[e]  = mean[e] - deviation;
            high[e] = mean[e] + deviation;
        }
    }
    return QG_OK;
}

const double *shown_group_curve(const shown_group *g, shown_curve which, const char *column)
{
    const char *name;
    for (int i = 0; column && (name = qg_run_column_name(g->first->run, i)); i++)
        if (!strcmp(name, column)) return g->curve[which] + (size_t)i * (size_t)g->epochs;
    return NULL;
}

shown_group *shown_groups(const shown_run *run, int runs, int *group, int *groups)
{
    shown_group *g = calloc((size_t)runs + 1, sizeof *g);
    qg_status    s = g ? QG_OK : qg_fail(QG_EMEM, "out of memory for %d runs", runs);
    *groups        = 0;
    for (int i = 0; i < runs && !s; i++) {
        int k = 0;
        while (k < *groups && !(are_together(g[k].first, &run[i]) && has_new_seed(run, i, group, k))) k++;
        if (k == *groups) g[(*groups)++].first = &run[i];
        g[k].runs++;
        group[i] = k;
    }
    for (int k = 0; k < *groups && !s; k++) {
        name_group(&g[k], run, runs, group, k);
        s = average(&g[k], run, runs, group, k);
    }
    if (!s) return g;
    shown_groups_free(g, *groups);
    return NULL;
}

void shown_groups_free(shown_group *g, int groups)
{
    for (int k = 0; g && k < groups; k++)
        for (int c = 0; c < SHOWN_CURVES; c++) free(g[k].curve[c]);
    free(g);
}
