/* The scores of a run's weights. */
#include <stdlib.h>

#include "cli/predict/scorer.h"
#include "cli/run/run_spec.h"
#include "core/kernels/parallel.h"

static qg_status score(void *from, int n, const uint8_t *bytes, float *scores) { return qg_run_predict(from, n, bytes, scores); }

static void describe(const void *from, qg__json *j)
{
    const qg_run *r = from;
    char          digest[17];
    run_digest((qg_run *)from, digest);
    qg__json_path(j, "run", qg_run_directory(r));
    qg__json_text(j, "file", run_file_name(r));
    qg__json_text(j, "model", qg_run_get(r, "model"));
    qg__json_text(j, "weight", qg_run_get(r, "weight"));
    qg__json_text(j, "digest", digest);
}

static void end(void *from) { qg_run_close(from); }

qg_status scorer_of_run(scorer *s, const config *asked)
{
    qg_run *r = run_open(asked->run, asked->best);
    if (!r) return qg_errcode();
    *s = (scorer){ .from = r, .score = score, .describe = describe, .end = end };
    qg_set_threads(config_text(asked, "threads") ? asked->recipe.threads : r->recipe.threads);
    const qg_preprocess *as = qg_run_preprocess(r);
    if (!as) return qg_errcode();
    if (!qg_run_classes(r)) return qg_fail(QG_ESTATE, "%s: it does not say how many classes its net has", qg_run_file(r));
    s->image = qg_preprocess_shape(as);
    if (!qg_run_net(r)) return qg_errcode();
    return qg__class_names_begin(&s->classes, qg_run_note(r, "class-names"), r->recipe.data.name, qg_run_classes(r));
}
