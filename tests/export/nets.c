/* Writes nets of every scheme, model and kind of layer, as packed files and as ONNX, for
 * tests/export/compare.py.
 *
 *     nets DIRECTORY
 *
 * reads images from HxWxC.u8 there, and prints a line for each net, with tabs between name, table, row,
 * column and "refused" with the reason, or
 *
 *     exact   0: a layer before the last quantizer sums floats, or there is no quantizer; 1: later ones do;
 *             2: none does
 *     codes   how many the values of NAME.codes.qg and NAME.codes.onnx may have, which are those of the last
 *             quantizer, or with exact 0 of the first one after a sum of floats; 0: there are no such files
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/file.h"
#include "layers/export/writer.h"
#include "layers/models/models.h"
#include "layers/models/text.h"
#include "layers/plan.h"
#include "tests/support/coded.h"
#include "tests/support/exported.h"
#include "tests/support/nets.h"
#include "tests/support/testing.h"

enum { IMAGES = 16, STEPS = 4, NAME_BYTES = 128, PATH_BYTES = 4096 };

static const char *directory;
static const float mean[] = { 0.2f, 0.3f, 0.25f }, deviation[] = { 0.35f, 0.3f, 0.4f };

/* --- nets --------------------------------------------------------------------------------------- */

/* Norms that move most thresholds. */
static void fill_parameters(const qg_params *p)
{
    for (int i = 0; i < p->count; i++) {
        const size_t n = qg_count(p->item[i]->shape);
        if (ends_with(p->item[i]->name, ".gamma"))
            fill_uniform(p->item[i]->value, n, 0.4f, 1.6f, (uint64_t)i);
        if (ends_with(p->item[i]->name, ".beta"))
            fill_uniform(p->item[i]->value, n, -0.5f, 0.7f, (uint64_t)i);
    }
}

/* Ranges and statistics are those of some images. */
static qg_status calibrate(qg_net *net)
{
    const qg_shape s = { IMAGES, net->spec.height, net->spec.width, net->spec.channels };
    char           path[PATH_BYTES];
    unsigned char *bytes = NULL;
    size_t         n     = 0;
    if (!qg_net_build(net)) return qg_errcode();
    fill_parameters(qg_net_params(net));
    snprintf(path, sizeof path, "%s/%dx%dx%d.u8", directory, s.h, s.w, s.c);
    if (qg__file_read_in(QG_BY_PATH, path, 1 << 30, &bytes, &n)) return qg_errcode();
    float *x = malloc(qg_count(s) * sizeof *x);
    assert_true(x && n >= qg_count(s));
    for (size_t i = 0; i < qg_count(s); i++)
        x[i] = ((float)bytes[i] / 255.0f - mean[i % (size_t)s.c]) / deviation[i % (size_t)s.c];
    qg_tape *t      = qg_tape_new();
    bool     passed = true;
    for (uint64_t step = 0; step < STEPS && passed; step++) {
        qg_tape_begin(t, QG_TRAIN, 1, step);
        passed = qg_net_forward(net, t, (qg_tensor){ s, x });
    }
    qg_tape_free(t);
    free(x), free(bytes);
    return passed ? QG_OK : qg_errcode();
}

/* --- files -------------------------------------------------------------------------------------- */

static qg_status write_records(const qg_net *net, const qg__records *s, const char *name, const char *part)
{
    static const struct { qg__writer *write; const char *end; } formats[] = { { qg__write_packed, "qg" },
                                                                              { qg__write_onnx, "onnx" } };
    const qg_export_spec spec = { .numbers = net->spec.channels, .mean = mean, .deviation = deviation };
    for (int f = 0; f < COUNT(formats); f++) {
        char           path[PATH_BYTES];
        unsigned char *file;
        size_t         bytes;
        if (formats[f].write(net, s, spec, &file, &bytes)) return qg_errcode();
        snprintf(path, sizeof path, "%s/%s%s.%s", directory, name, part, formats[f].end);
        qg_file *to = qg__file_begin_in(QG_BY_PATH, path);
        qg__file_put(to, file, bytes);
        free(file);
        if (qg__file_commit(to)) return qg_errcode();
    }
    return QG_OK;
}

/* The records until the quantizer of number `last`, whose codes become floats. */
static qg_status write_codes(const qg_net *net, qg__records *s, int last, const char *name)
{
    qg__record     *q   = &s->record[last];
    const size_t    own = qg__step_own_floats(&q->r) + (size_t)q->r.q_count - 1;
    float          *floats = malloc((own + (size_t)q->r.q_count) * sizeof *floats);
    assert_non_null(floats);
    memcpy(floats, q->floats, own * sizeof *floats);
    for (int u = 0; u < q->r.q_count; u++) floats[own + (size_t)u] = (float)(q->r.q_lowest + q->r.q_step * u);
    q->r.coding = QG__AS_FLOATS;
    q->floats   = floats;
    s->count    = last + 1;
    const qg_status status = write_records(net, s, name, ".codes");
    free(floats);
    return status;
}

static bool sums_floats(const qg__records *s, const qg__packed_step *r)
{
    if (r->kind == QG__PRODUCT) return r->x == 0 || s->record[r->x - 1].r.coding == QG__AS_FLOATS;
    return r->kind == QG__AVGPOOL || r->kind == QG__MEAN_ABS;
}

static qg_status write_net(const qg_net *net, qg__records *s, const char *name)
{
    int first_sum = -1, first = -1, last = -1;
    if (write_records(net, s, name, "")) return qg_errcode();
    for (int i = 0; i < s->count; i++) {
        const qg__packed_step *r = &s->record[i].r;
        if (first_sum < 0 && sums_floats(s, r)) first_sum = i;
        if (r->kind == QG__MAXPOOL || !r->q_count) continue;
        if (first < 0 && first_sum >= 0) first = i;
        last = i;
    }
    const int at = first >= 0 ? first : last;
    printf("%d\t%d\n",
           first >= 0 || last < 0 ? 0
           : first_sum >= 0       ? 1
                                  : 2,
           at < 0 ? 0 : s->record[at].r.q_count);
    return at < 0 ? QG_OK : write_codes(net, s, at, name);
}

static void export_net(qg_net *net, const char *name, const char *table, const char *row, const char *column)
{
    qg__records s = { 0 };
    printf("%s\t%s\t%s\t%s\t", name, table, row, column);
    if (calibrate(net) || qg__records_of(net, STEPS, false, &s) || write_net(net, &s, name))
        printf("refused\t%s\n", qg_errmsg());
    fflush(stdout);
    qg__records_free(&s);
    qg_net_free(net);
}

/* --- schemes and models ------------------------------------------------------------------------- */

static void spell(char *to, const tested_scheme *s)
{
    if (!s->scheme) snprintf(to, NAME_BYTES, "float");
    else snprintf(to, NAME_BYTES, "%s%s%s", s->scheme->name, *s->arguments ? ":" : "", s->arguments);
}

/* Indices of tested_weights and tested_inputs; and whether the image is quantized, too. */
typedef struct pair {
    int         w, x;
    bool        image;
    const char *title;
} pair;

/* first: the first layer. */
static qg_model_spec spec_of(pair p, int side, const qg_choice *first)
{
    return (qg_model_spec) { .height = side,
                             .width = side,
                             .channels = side == 28 ? 1 : 3,
                             .classes = 10,
                             .seed = 5,
                             .weight = tested_quant(&tested_weights[p.w], QG_WEIGHT),
                             .input = tested_quant(&tested_inputs[p.x], QG_INPUT),
                             .choice = first,
                             .choices = p.image };
}

enum { OBSERVED = 19 };     /* 8 bits */

static qg_choice image_codes(const char *layer)
{
    return (qg_choice) { .layer = layer,
                         .has_input = true,
                         .input = tested_quant(&tested_inputs[OBSERVED], QG_INPUT) };
}

static const pair pairs[] = {
    { 0, 0, false, "float" },       { 1, 0, false, "twn" },         { 4, 1, false, "ttq, sign" },
    { 9, 2, false, "xnor, xnor" },  { 16, 5, false, "dorefa 2, 2" }, { 21, 10, false, "lsq 4, 2" },
    { 27, OBSERVED, false, "fake_quant 8, 8" }, { 36, 18, true, "fake_quant 8, 4, image 8" },
};

static void export_schemes(void)
{
    static const pair weights[] = { { 0, 0, false, "float" },
                                    { 0, 5, false, "dorefa 2" },
                                    { 0, OBSERVED, false, "fake_quant 8" },
                                    { 0, OBSERVED, true, "fake_quant 8, image 8" } };
    static const pair inputs[]  = { { 1, 0, false, "twn" }, { 5, 0, false, "ttq" }, { 22, 0, false, "lsq 8" },
                                    { 22, 0, true, "lsq 8, image 8" } };
    const qg_choice   first     = image_codes("conv1");
    char              name[NAME_BYTES], row[NAME_BYTES];
    for (int i = 0; i < (TESTED_WEIGHTS + TESTED_INPUTS) * COUNT(weights); i++) {
        const int  k = i / COUNT(weights), x = k - TESTED_WEIGHTS;
        const pair p = x < 0 ? weights[i % COUNT(weights)] : inputs[i % COUNT(inputs)];
        const pair own = { x < 0 ? k : p.w, x < 0 ? p.x : x, p.image, NULL };
        const char *text =
            x < 0 ? "8C5-BN-R-MP2-16C5-BN-R-MP2-64FC-BN-R-10" : "8C5-BN-MP2-16C5-BN-MP2-64FC-BN-10";
        snprintf(name, sizeof name, "%s-%d-%d", x < 0 ? "weights" : "inputs", x < 0 ? k : x,
                 i % COUNT(weights));
        spell(row, x < 0 ? &tested_weights[k] : &tested_inputs[x]);
        export_net(qg_net_from_text(text, spec_of(own, 28, &first)), name, x < 0 ? "weights" : "inputs",
                   row, p.title);
    }
}

static void export_texts(void)
{
    const qg_choice first = image_codes("conv1");
    char            name[NAME_BYTES];
    for (int i = 0; i < EXPORTED_TEXTS; i++)
        for (int k = 0; k < COUNT(pairs); k++) {
            snprintf(name, sizeof name, "text-%d-%d", i, k);
            qg_net *net = qg_net_from_text(exported_texts[i], spec_of(pairs[k], 32, &first));
            export_net(net, name, "nets as text", exported_texts[i], pairs[k].title);
        }
}

/* Narrow ones where a model can be narrow. */
static qg_net *declare_model(const qg_model *m, pair p)
{
    const qg_choice first = image_codes(strcmp(m->name, "mlp") ? "conv1" : "fc1");
    qg_model_spec   spec  = spec_of(p, m->image.h < 32 ? 28 : 32, &first);
    if (strstr("tfc sfc lfc", m->name)) spec.choices = 0;               /* quantize the image anyway */
    if (qg_keys_find(m->keys, "width", 5) >= 0)
        spec.option[QG_MODEL_WIDTH] = strcmp(m->name, "mlp") ? 0.125 : 64;
    return qg_model_declare(m, spec);
}

int main(int argc, char **argv)
{
    char name[NAME_BYTES];
    if (argc != 2) return 2;
    directory = argv[1];
    export_schemes();
    export_texts();
    for (const qg_model *const *m = qg_models; *m; m++)
        for (int k = 0; k < COUNT(pairs); k++) {
            if (strstr("resnet32 resnet44 resnet56", (*m)->name) && k % 3 != 1)
                continue; /* deeper ResNet-20s */
            snprintf(name, sizeof name, "model-%s-%d", (*m)->name, k);
            export_net(declare_model(*m, pairs[k]), name, "models", (*m)->name, pairs[k].title);
        }
    return 0;
}
