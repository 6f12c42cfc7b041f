#include "core/io/safetensors.h"
#include "tests/support/cases.h"

#include "tests/support/case_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- comparison ---- */

static bool tolerance(test_case *c, const char *key, const cJSON *json, double *value)
{
    const cJSON *t = cJSON_GetObjectItemCaseSensitive(json, key);
    if (!t) return true;
    if (!cJSON_IsNumber(t) || !(t->valuedouble >= 0.0) || !isfinite(t->valuedouble)) {
        case_complain(c, "%s is not a number >= 0", key);
        return false;
    }
    *value = t->valuedouble;
    return true;
}

static bool near(double got, double want, double atol, double rtol)
{
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got)) return got == want;
    return fabs(got - want) <= atol + rtol * fabs(want);
}

static void compare(test_case *c, const cJSON *json, const cJSON *want)
{
    const case_slot *got = NULL;
    for (int i = 0; i < c->n_out; i++)
        if (c->out[i].name && strcmp(c->out[i].name, want->string) == 0) got = &c->out[i];
    if (!got) {
        case_complain(c, "%s: the operator has no such output", want->string);
        return;
    }
    const qg_array *a    = &got->array;
    const cJSON    *data = cJSON_GetObjectItemCaseSensitive(want, "data");
    qg_array        b    = { 0 };
    if (!case__dtype(want, &b.dtype) || b.dtype != a->dtype) {
        case_complain(c, "%s: dtype is %s, expected another", got->name, qg__dtype_name(a->dtype));
        return;
    }
    if (!case__shape(want, &b) || a->rank != b.rank ||
        memcmp(a->dims, b.dims, (size_t)a->rank * sizeof a->dims[0]) != 0 || !cJSON_IsArray(data) ||
        !case__fills(&b, (size_t)cJSON_GetArraySize(data))) {
        case_complain(c, "%s: rank %d with %zu elements does not match the expected shape and data",
                      got->name, a->rank, qg_array_count(a));
        return;
    }
    double atol = 0.0;
    double rtol = 0.0;
    if (!tolerance(c, "atol", json, &atol) || !tolerance(c, "rtol", json, &rtol)) return;
    if (!tolerance(c, "atol", want, &atol) || !tolerance(c, "rtol", want, &rtol)) return;
    size_t       i = 0;
    const cJSON *e;
    cJSON_ArrayForEach(e, data) {
        double w;
        if (!case__number(e, &w)) {
            case_complain(c, "%s[%zu]: what is expected is not a number", got->name, i);
            return;
        }
        /* A decimal stands for the float32 nearest to it, as in the inputs. */
        if (a->dtype == QG_F32) w = (double)(float)w;
        if (!near(case__element(a, i), w, atol, rtol)) {
            case_complain(c, "%s[%zu] is %.9g, expected %.9g", got->name, i, case__element(a, i),
                          w);
            return;
        }
        i++;
    }
}

/* ---- running ---- */

/* A failed operator leaves its outputs as they were.  The forward of a case may have written its
 * own before the gradient fails. */
static void check_untouched(test_case *c)
{
    for (int i = 0; i < c->n_out; i++) {
        const case_slot *out = &c->out[i];
        if (out->name && !out->written && case__touched(&out->array)) {
            case_complain(c, "%s was written although the operator failed", out->name);
            return;
        }
    }
}

static void check_known(test_case *c)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, c->attrs) {
        bool known = false;
        for (int i = 0; i < c->n_asked; i++) known |= strcmp(c->asked[i], item->string) == 0;
        if (!known) case_complain(c, "attribute %.60s is unknown", item->string);
    }
    cJSON_ArrayForEach(item, c->inputs) {
        bool known = false;
        for (int i = 0; i < c->n_in; i++) known |= strcmp(c->in[i].name, item->string) == 0;
        if (!known) case_complain(c, "input %.60s is unknown", item->string);
    }
}

static void judge(test_case *c, const cJSON *json)
{
    check_known(c);
    if (!c->has_result) case_complain(c, "the operator was not called");
    if (c->complaint[0]) return;
    if (c->result != QG_OK) check_untouched(c);
    if (!c->expected) {
        if (c->result == QG_OK) case_complain(c, "the operator succeeded, an error is expected");
        return;
    }
    if (c->result != QG_OK) {
        case_complain(c, "%s", c->error);
        return;
    }
    const cJSON *want;
    cJSON_ArrayForEach(want, c->expected) compare(c, json, want);
}

static const case_op *find_op(const char *name)
{
    const case_op *const tables[] = { tf_cases, integer_cases, paper_cases };
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (const case_op *o = tables[t]; o->op; o++)
            if (strcmp(o->op, name) == 0) return o;
    return NULL;
}

bool case_run(const cJSON *json, char *why, size_t why_bytes)
{
    const cJSON *op    = cJSON_GetObjectItemCaseSensitive(json, "op");
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(json, "expected_error");
    test_case    c     = { .attrs    = cJSON_GetObjectItemCaseSensitive(json, "attrs"),
                           .inputs   = cJSON_GetObjectItemCaseSensitive(json, "inputs"),
                           .expected = cJSON_GetObjectItemCaseSensitive(json, "expected") };
    const case_op *runner = cJSON_IsString(op) ? find_op(op->valuestring) : NULL;
    if (!cJSON_IsObject(c.attrs) || !cJSON_IsObject(c.inputs))
        case_complain(&c, "attrs or inputs is not an object");
    else if (error ? !cJSON_IsString(error) || c.expected
                   : !cJSON_IsObject(c.expected) || !c.expected->child)
        case_complain(&c, "wants exactly one of expected and expected_error");
    else if (!runner)
        case_complain(&c, "operator %.60s is unknown", cJSON_IsString(op) ? op->valuestring : "?");
    else {
        runner->run(&c);
        judge(&c, json);
    }
    snprintf(why, why_bytes, "%s", c.complaint);
    for (int i = 0; i < c.n_in; i++) free(c.in[i].array.data);
    for (int i = 0; i < c.n_out; i++) free(c.out[i].array.data);
    return !c.complaint[0];
}
