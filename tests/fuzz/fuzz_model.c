/* Nets as text, and the models by name.  What is accepted can be declared, with quantizers too, and built
 * if it is small. */
#include <stdlib.h>
#include <string.h>

#include "cli/config/models.h"
#include "cli/config/options.h"
#include "layers/models/parts.h"
#include "layers/models/text.h"
#include "tests/fuzz/fuzz.h"
#include "train/recipe_keys.h"

/* The options of a model are written into the text of its net. */
static void declare_model(const qg__chosen_model *m)
{
    qg_model_spec spec = { .height = 32, .width = 32, .channels = 3, .classes = 10, .text = m->text };
    memcpy(spec.option, m->option, sizeof spec.option);
    qg_net *net = qg_model_declare(m->type, spec);
    if (m->type != &qg_model_text) MUST(net);
    qg_net_free(net);
}

static void parse(const char *text)
{
    static qg_recipe r, other;
    if (fuzz_ok(qg__recipe_put(&r, "model", text))) {
        char        name[QG_RECIPE_VALUE_BYTES];
        const char *canonical = qg__recipe_value(&r, "model");
        MUST(!qg__recipe_put(&other, "model", canonical));
        MUST(!strcmp(canonical, qg__recipe_value(&other, "model")));
        MUST(r.model.type == other.model.type && !strcmp(r.model.text, other.model.text));
        model_file_name(canonical, name, sizeof name);
        MUST(*name && !strchr(name, '/'));
        declare_model(&r.model);
    }
    qg__recipe_clear(&r);
    qg__recipe_clear(&other);
}

/* No number above 16, no repetition and no padding above 1, so that a layer has at most some 10^5 weights. */
static bool is_small(const char *text)
{
    if (strlen(text) > 100) return false;
    for (; *text; text++) {
        const bool digit = strspn(text, "0123456789") > 0;
        if (*text == '*' || (digit && atol(text) > 16) || (*text == 'p' && atol(text + 1) > 1)) return false;
    }
    return true;
}

static void declare(const char *text, bool quantized)
{
    qg_model_spec spec = { .height = 12, .width = 9, .channels = 2, .seed = 1 };
    if (quantized) spec.weight = qg_twn((qg_twn_spec){ 0 }), spec.input = qg_lsq((qg_lsq_spec){ .bits = 2 });
    qg_net *net = qg_net_from_text(text, spec);
    if (fuzz_got(net) && is_small(text)) (void)fuzz_got(qg_net_build(net));
    qg_net_free(net);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *text = fuzz_text(bytes, n);
    parse(text);
    if (fuzz_ok(qg__net_text_check(text))) {
        declare(text, false);
        declare(text, true);
    }
    free(text);
    return 0;
}
