/* The scores of a run's weights. */
#include <stdlib.h>

#include "cli/predict/scorer.h"
#include "cli/run/run_spec.h"

static qg_status score(void *from, int n, const uint8_t *bytes, float *scores) { return qg_run_predict(from, n, bytes, scores); }

static const char *name(void *from, int k) { return qg_run_class(from, k); }

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
    qg_run *r = run_open(asked);
    if (!r) return qg_errcode();
    *s = (scorer){ .from = r, .image = qg_run_image(r), .classes = qg_run_classes(r), .score = score, .name = name,
                   .describe = describe, .end = end };
    return qg_run_predict(r, 0, NULL, NULL);
}
