#include "cli/run/run_spec.h"

#include <stdlib.h>

/* Options may have been added since the file was written, so values are compared and not texts. */
static qg_status same(void *user, const char *said, const char *path)
{
    const config *c      = user;
    config        stored = { 0 };
    qg_status     status = config_parse(&stored, said, path);
    const option *o      = status ? NULL : config_difference(c, &stored, IDENTITY, 0);
    if (o) {
        const char *here = c->text[o - options], *there = stored.text[o - options];
        status = qg_fail(QG_EARG, "%s: belongs to a run with %s %s, but config.toml has %s", path, o->name,
                         there ? there : "unset", here ? here : "unset");
    }
    config_free(&stored);
    return status;
}

qg_status run_spec_begin(run_spec *s, config *c)
{
    static const char *const about[] = { "model", "data", "weight", "input", "gradient" };
    *s = (run_spec){ .fit      = recipe_fit(&c->recipe),
                     .identity = config_print(c, IDENTITY),
                     .file     = config_print(c, SAVED) };
    for (int i = 0; i < 5; i++) s->about[i] = (qg_note){ about[i], config_text(c, about[i]) };
    s->about[1].value = c->recipe.data.name;
    s->fit.config     = s->identity;
    s->fit.file       = s->file;
    s->fit.about      = s->about;
    s->fit.abouts     = 5;
    s->fit.same       = same;
    s->fit.user       = c;
    return s->identity && s->file ? QG_OK : qg_fail(QG_EMEM, "out of memory for the configuration");
}

void run_spec_end(run_spec *s)
{
    free(s->identity);
    free(s->file);
    *s = (run_spec){ .file = NULL };
}
