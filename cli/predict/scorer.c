#include "cli/predict/scorer.h"

#include <stdio.h>
#include <string.h>

#include "cli/run/run_spec.h"
#include "core/kernels/parallel.h"

static qg_status begin_run(scorer *s, const config *asked)
{
    s->run = run_open(asked);
    if (!s->run || qg_run_predict(s->run, 0, NULL, NULL)) return qg_errcode();
    s->image   = qg_run_image(s->run);
    s->classes = qg_run_classes(s->run);
    return qg_image_read(config_text(asked, "run"), s->image, NULL, NULL);
}

static qg_status begin_packed(scorer *s, const config *asked)
{
    s->path = config_text(asked, "packed");
    qg_set_threads(config_integer(asked, "threads"));
    qg_status status = packed_open(&s->packed, s->path, QG_INFER_EVALUATE);
    s->image         = s->packed.image;
    s->classes       = s->packed.scores;
    if (!status) status = qg_image_read(s->path, s->image, NULL, NULL);
    return status ? status : packed_prepare(&s->packed, 1);
}

qg_status scorer_begin(scorer *s, const config *asked) { return config_text(asked, "packed") ? begin_packed(s, asked) : begin_run(s, asked); }

void scorer_end(scorer *s)
{
    qg_run_close(s->run);
    packed_close(&s->packed);
}

qg_status scorer_score(scorer *s, int n, const uint8_t *bytes, float *scores)
{
    return s->run ? qg_run_predict(s->run, n, bytes, scores) : packed_score(&s->packed, s->path, n, bytes, scores);
}

/* "cat" of the note "bird/cat/dog" or, without such a note, its number; numbers of a known set become its words. */
const char *scorer_name(scorer *s, int k)
{
    if (s->run) return qg_run_class(s->run, k);
    const char *at   = qg_infer_note(s->packed.net, "class-names"), *data = qg_infer_note(s->packed.net, "data");
    const char *word = NULL;
    int         n    = at && *at;
    for (const char *c = at; c && *c; c++) n += *c == '/';
    for (int i = 0; n == s->classes && i < k; i++) at = strchr(at, '/') + 1;
    if (n == s->classes) snprintf(s->name, sizeof s->name, "%.*s", (int)strcspn(at, "/"), at);
    else snprintf(s->name, sizeof s->name, "%d", k);
    if (data && *s->name >= '0' && *s->name <= '9' && !s->name[1]) word = qg_data_class(data, *s->name - '0');
    return word ? word : s->name;
}

void scorer_describe(scorer *s, qg__json *j)
{
    char digest[17];
    if (s->run) {
        run_digest(s->run, digest);
        qg__json_path(j, "run", qg_run_directory(s->run));
        qg__json_text(j, "file", run_file_name(s->run));
        qg__json_text(j, "model", qg_run_get(s->run, "model"));
        qg__json_text(j, "weight", qg_run_get(s->run, "weight"));
        qg__json_text(j, "digest", digest);
    } else {
        qg__json_path(j, "packed", s->path);
        qg__json_text(j, "model", qg_infer_note(s->packed.net, "model"));
        qg__json_text(j, "digest", qg_infer_note(s->packed.net, "digest"));
    }
}
