/* Command lines.  The first byte chooses the command; then each line is an argument. */
#include <stdlib.h>
#include <string.h>

#include "cli/config/config.h"
#include "tests/fuzz/fuzz.h"

enum { MOST_ARGUMENTS = 16 };

/* An option's text is its canonical one, which reads as itself. */
static void read_again(const config *c)
{
    for (int i = 0; i < OPTIONS; i++) {
        config      again = { .recipe = NULL };
        const char *value = config_text_of(c, option_at(i));
        if (!value) continue;
        for (const char *item = value; item; ) {
            char         text[QG_RECIPE_VALUE_BYTES];
            const size_t length = option_at(i)->kind == QG_RECIPE_LIST ? strcspn(item, "\n") : strlen(item);
            MUST(length < sizeof text);
            memcpy(text, item, length);
            text[length] = '\0';
            MUST(!config_set(&again, option_at(i)->name, text));
            item = option_at(i)->kind == QG_RECIPE_LIST && *(item = qg__lines_next(item)) ? item : NULL;
        }
        MUST(!strcmp(config_text_of(&again, option_at(i)), value));
        config_free(&again);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static const verb *const verbs[] = { &train_verb,   &eval_verb,    &summary_verb, &sweep_verb,  &quantize_verb,
                                         &inspect_verb, &explain_verb, &predict_verb, &gradcheck_verb };
    if (n < 1) return 0;
    const verb    *v    = verbs[bytes[0] % (sizeof verbs / sizeof *verbs)];
    char          *text = fuzz_text(bytes + 1, n - 1);
    char          *argv[MOST_ARGUMENTS + 2] = { (char[]){ "fuzz" } };
    int            argc                     = 1;
    for (char *line = text; line && argc <= MOST_ARGUMENTS; argc++) {
        char *end = strchr(line, '\n');
        if (end) *end++ = '\0';
        argv[argc] = line;
        line       = end;
    }
    config asked = { .recipe = NULL };
    fuzz_mute(true);
    const int status = options_parse(v, argc, argv, &asked);
    fuzz_mute(false);
    MUST(status == -1 || status == EXIT_DONE || status == EXIT_USAGE);
    if (status < 0) {
        read_again(&asked);
        /* Not with the path of a file, which could be any on this machine. */
        if (!config_text(&asked, "config") && !config_text(&asked, "recipe") && fuzz_ok(config_read(&asked)))
            (void)fuzz_ok(qg_recipe_check(asked.recipe));
    }
    config_free(&asked);
    free(text);
    return 0;
}
