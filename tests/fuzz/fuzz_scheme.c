/* Texts that name a quantizer, "fake_quant:bits=4,range=learned", and those that give one to a layer.  The
 * first byte chooses the operand, or the latter. */
#include <stdlib.h>
#include <string.h>

#include "cli/config/options.h"
#include "train/recipe_keys.h"
#include "cli/config/schemes.h"
#include "layers/layer.h"
#include "quant/engine.h"
#include "tests/fuzz/fuzz.h"

static void scheme(const char *text, qg_role role)
{
    char     canonical[QG_RECIPE_VALUE_BYTES], again[QG_RECIPE_VALUE_BYTES];
    qg_quant q, other;
    if (!fuzz_ok(qg_quant_parse(text, role, &q))) return;
    qg_quant_print(q, canonical, sizeof canonical);
    MUST(!qg_quant_parse(canonical, role, &other));
    qg_quant_print(other, again, sizeof again);
    MUST(!strcmp(canonical, again));
    MUST(q.scheme == other.scheme && q.bits == other.bits && q.per_channel == other.per_channel);
    q.role = role;
    if (!fuzz_ok(qg__quant_check(q)) || !q.scheme) return;
    double value[QG_MAX_KEYS];
    qg__quant_values(q, value);
    MUST(!qg__quant_check_keys(q));
}

static void layer(const char *text)
{
    static qg_recipe r, other;
    if (fuzz_ok(qg__recipe_put(&r, "layer", text))) {
        const qg_choice c = r.exceptions.item[0].choice;
        MUST(r.exceptions.count == 1 && c.has_weight + c.has_input + c.has_gradient == 1);
        MUST(!qg__recipe_put(&other, "layer", qg__recipe_value(&r, "layer")));
        MUST(!strcmp(qg__recipe_value(&r, "layer"), qg__recipe_value(&other, "layer")));
    }
    qg__recipe_clear(&r);
    qg__recipe_clear(&other);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n < 1) return 0;
    char *text = fuzz_text(bytes + 1, n - 1);
    if (bytes[0] % 4 < QG_ROLES) scheme(text, qg_roles[bytes[0] % 4]);
    else layer(text);
    free(text);
    return 0;
}
