/* Recipes and configurations: what was read must be printed so that it reads as the same, and resolving it must not
 * fail without a message. */
#include <stdlib.h>
#include <string.h>

#include "cli/config/config.h"
#include "tests/fuzz/fuzz.h"

static void print_and_read(const config *c)
{
    char  *text  = config_print(c, SAVED);
    config again = { 0 };
    MUST(text);
    MUST(!config_parse(&again, text, "printed"));
    MUST(!config_difference(c, &again, SAVED, 0));
    char *other = config_print(&again, SAVED);
    MUST(other && !strcmp(text, other));
    config_free(&again);
    free(text);
    free(other);
}

static void resolve(const config *asked, const config *stored)
{
    config out = { 0 };
    bool   usage;
    if (fuzz_ok(config_resolve(asked, stored, &out, &usage)) && fuzz_ok(config_check(&out))) {
        print_and_read(&out);
        if (fuzz_ok(recipe_trains(&out.recipe))) {
            const qg_loader_spec spec = recipe_loading(&out.recipe, false);
            MUST(spec.batch >= 1);
        }
    }
    config_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char  *text = fuzz_text(bytes, n);
    config c = { 0 }, none = { 0 };
    if (fuzz_ok(config_parse(&c, text, "input"))) {
        print_and_read(&c);
        resolve(&c, NULL);
        if (c.recipe.model.type) resolve(&none, &c);
    }
    config_free(&c);
    free(text);
    return 0;
}
