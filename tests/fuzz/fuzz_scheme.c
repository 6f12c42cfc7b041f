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
    if (!fuzz_ok(qg__scheme_parse(text, role, &q, canonical, sizeof canonical))) return;
    MUST(!qg__scheme_parse(canonical, role, &other, again, sizeof again));
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
    char      name[QG__LAYER_NAME], canonical[QG_RECIPE_VALUE_BYTES], again[QG_RECIPE_VALUE_BYTES];
    qg_choice c;
    if (!fuzz_ok(qg__choice_parse(text, &c, name, canonical, sizeof canonical))) return;
    MUST(c.layer == name && c.has_weight + c.has_input + c.has_gradient == 1);
    MUST(!qg__choice_parse(canonical, &c, name, again, sizeof again));
    MUST(!strcmp(canonical, again));
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
