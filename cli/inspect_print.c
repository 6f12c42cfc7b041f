#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "cli/inspect.h"

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

/* What a quantizer has learned or observed: a number, or the range of one per channel. */
static void print_learned(const qg_slot *slot)
{
    for (int i = 0; i < QG_MAX_LEARNED; i++) {
        const qg_param *p   = slot->param[i];
        float           min = INFINITY, max = -INFINITY;
        const size_t    n   = p ? qg_count(p->shape) : 0;
        if (!p || slot->q.scheme->learned[i].quiet) continue;
        for (size_t k = 0; k < n; k++) widen(p->value[k], &min, &max);
        printf("  %-10s %s %.6g", p->group == QG_TRACKED ? "observed" : "learned", p->name,
               (double)min);
        if (n > 1) printf(" .. %.6g, %zu channels", (double)max, n);
        printf("\n");
    }
}

static void print_input(const qg_slot *input)
{
    char scheme[QG_SPELLING_BYTES];
    printf("  %-10s %s, %d bit%s\n", "input", qg_scheme_spelling(input->q.scheme, scheme, sizeof scheme),
           input->q.bits, input->q.bits == 1 ? "" : "s");
    print_learned(input);
}

void inspect_print_quantizer(const char *name, const qg_slot *input)
{
    printf("%s: has no weights\n", name);
    print_input(input);
}

void inspect_print(const tensor *v)
{
    const qg_quant q = v->slot->q;
    char           scheme[QG_SPELLING_BYTES];
    printf("%s: ", v->name);
    if (!q.scheme) {
        printf("float, not quantized\n");
    } else if (v->levels) {
        print_levels(v);
        printf(", %.0f %% zero\n", percent(v->zeros, v->count));
    } else if (v->has_codes) {
        printf("%zu of %.0f codes used%s, %+.4g .. %+.4g, %.0f %% zero\n", v->codes, exp2(v->bits),
               v->scales > 1 ? " by a channel at most" : "", (double)v->min, (double)v->max,
               percent(v->zeros, v->count));
    } else {
        printf("%+.4g .. %+.4g\n", (double)v->min, (double)v->max);
    }
    if (q.scheme) {
        printf("  %-10s %s, %d bit%s", "quantized", qg_scheme_spelling(q.scheme, scheme, sizeof scheme), q.bits,
               q.bits == 1 ? "" : "s");
        if (v->scales > 1) printf(", %d scales", v->scales);
        if (v->folded) printf(", with its batch norm folded in");
        if (q.after) printf(", from step %" PRIu64 " on", q.after);
        printf("\n");
        print_learned(v->slot);
    }
    printf("  %-10s %zu %s, %+.4g .. %+.4g\n", q.scheme ? "latent" : "float", v->count,
           v->count == 1 ? "weight" : "weights", (double)v->latent_min, (double)v->latent_max);
    if (v->input->q.scheme) print_input(v->input);
}

/* --- for programs ------------------------------------------------------------------------- */

static void json_learned(json *j, const qg_slot *slot)
{
    json_open(j, "learned", '[');
    for (int i = 0; i < QG_MAX_LEARNED; i++) {
        const qg_param *p = slot->param[i];
        if (!p) continue;
        json_open(j, NULL, '{');
        json_text(j, "name", p->name);
        json_flag(j, "trained", p->group != QG_TRACKED);
        json_open(j, "value", '[');
        for (size_t k = 0; k < qg_count(p->shape); k++) json_real(j, NULL, (double)p->value[k]);
        json_close(j, ']');
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void json_scheme(json *j, const qg_slot *slot)
{
    char text[QG_SPELLING_BYTES];
    json_text(j, "scheme", qg_scheme_spelling(slot->q.scheme, text, sizeof text));
}

static void json_quantized(json *j, const tensor *v)
{
    json_open(j, "quantized", '{');
    json_scheme(j, v->slot);
    json_integer(j, "bits", (uint64_t)v->slot->q.bits);
    json_flag(j, "folded", v->folded);
    json_real(j, "min", (double)v->min);
    json_real(j, "max", (double)v->max);
    json_real(j, "zero_share", percent(v->zeros, v->count) / 100);
    if (v->has_codes) {
        json_integer(j, "scales", (uint64_t)v->scales);
        json_integer(j, "codes_used", v->codes);
    }
    if (v->levels) json_open(j, "values", '[');
    for (int k = 0; k < v->levels; k++) {
        json_open(j, NULL, '{');
        json_real(j, "code", (double)v->level[k].code);
        json_real(j, "min", (double)v->level[k].min);
        json_real(j, "max", (double)v->level[k].max);
        json_real(j, "share", percent(v->level[k].count, v->count) / 100);
        json_close(j, '}');
    }
    if (v->levels) json_close(j, ']');
    json_learned(j, v->slot);
    json_close(j, '}');
}

static void json_input(json *j, const qg_slot *input)
{
    json_open(j, "input", '{');
    json_scheme(j, input);
    json_learned(j, input);
    json_close(j, '}');
}

void inspect_json_quantizer(json *j, const char *name, const qg_slot *input)
{
    json_open(j, NULL, '{');
    json_text(j, "layer", name);
    json_integer(j, "weights", 0);
    json_input(j, input);
    json_close(j, '}');
}

void inspect_json(json *j, const tensor *v)
{
    json_open(j, NULL, '{');
    json_text(j, "layer", v->name);
    json_integer(j, "weights", v->count);
    json_open(j, "latent", '{');
    json_real(j, "min", (double)v->latent_min);
    json_real(j, "max", (double)v->latent_max);
    json_close(j, '}');
    if (v->slot->q.scheme) json_quantized(j, v);
    else json_text(j, "quantized", NULL);
    if (v->input->q.scheme) json_input(j, v->input);
    json_close(j, '}');
}
