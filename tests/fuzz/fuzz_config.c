/* Recipes and configurations: what was read must be printed so that it reads as the same, and resolving it
 * must not fail without a message. */
#include <stdlib.h>
#include <string.h>

#include "train/recipe_keys.h"
#include "tests/fuzz/fuzz.h"

static void print_and_read(const qg_recipe *c)
{
    char  *text  = qg__recipe_print(c, 0);
    qg_recipe again = { 0 };
    MUST(text);
    MUST(!qg__recipe_parse(&again, text, "printed"));
    MUST(!qg__recipe_difference(c, &again, 0, 0));
    char *other = qg__recipe_print(&again, 0);
    MUST(other && !strcmp(text, other));
    qg__recipe_clear(&again);
    free(text);
    free(other);
}

static void resolve(const qg_recipe *asked, const qg_recipe *stored)
{
    qg_recipe out = { 0 };
    if (fuzz_ok(qg__recipe_resolve(asked, NULL, false, stored, &out)) &&
        fuzz_ok(qg__recipe_check(&out, false))) {
        print_and_read(&out);
        if (fuzz_ok(qg__recipe_check(&out, true))) {
            const qg_loader_spec spec = qg__recipe_loading(&out, false);
            MUST(spec.batch >= 1);
        }
    }
    qg__recipe_clear(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char  *text = fuzz_text(bytes, n);
    qg_recipe c = { 0 }, none = { 0 };
    if (fuzz_ok(qg__recipe_parse(&c, text, "input"))) {
        print_and_read(&c);
        resolve(&c, NULL);
        if (c.model.type) resolve(&none, &c);
    }
    qg__recipe_clear(&c);
    free(text);
    return 0;
}
