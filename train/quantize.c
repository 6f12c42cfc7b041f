/* qg_run_quantize: a run of no steps, whose net has the weights of another one and quantizers,
 * calibrated but not trained. */
#include "layers/models/parts.h"
#include "train/runs.h"

#include <stdio.h>
#include <string.h>

#include "core/kernels/parallel.h"
#include "layers/plan.h"
#include "train/calibrate.h"
#include "train/made.h"
#include "train/reader.h"
#include "train/result.h"

typedef struct quantization {
    const qg_run_quantize_spec *asked;
    qg_run                     *of;     /* with its own net */
    qg_recipe                   changes;
    qg__made                    made;   /* the run that it becomes */
    qg__init_report             init;
    qg__measured                before;
    int                         count; /* of the images that calibrate it */
} quantization;

/* --- the configuration -------------------------------------------------------------------- */

/* What the run did that the new one does not: its recipe, a teacher, delays, other initial weights. */
static qg_status leave_out(qg_recipe *c)
{
    static const char *const keys[] = {
        "recipe",         "init-recipe", "reproduces",  "reported",    "provenance",
        "deviations",     "teacher",     "teacher-digest", "distil",   "init-digest",
        "init-except",    "freeze",      "quantize-weights-after",     "norm-sync",   "ranks",
        "whiten-patches"
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) qg__recipe_unset(c, keys[i]);
    if (!qg__recipe_value(c, "reestimate-batchnorm") && qg__recipe_put(c, "reestimate-batchnorm", "on")) return qg_errcode();
    return qg__recipe_put(c, "quantize-after", "0");
}

/* Where no scheme is named, products get codes of 8 bits for what is a float: exact integers, which the
 * engine multiplies several times as fast. */
static qg_status choose_schemes(quantization *z)
{
    static const char *const named[] = { "weight", "input", "layer" };
    qg_status                status  = QG_OK;
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (qg__recipe_value(&z->changes, named[i])) return QG_OK;
    if (!z->made.recipe.input.scheme)
        status = qg__recipe_put(&z->made.recipe, "input", "fake_quant:range=observed");
    if (status || z->made.recipe.weight.scheme) return status;
    return qg__recipe_put(&z->made.recipe, "weight", "fake_quant:range=current,per-channel=yes");
}

/* What a run without quantizers says about its ends decided nothing. */
static qg_status decide_ends(quantization *z)
{
    const qg_recipe *was = &z->of->recipe, *r = &z->made.recipe;
    if (qg__recipe_value(&z->changes, "first-last") || qg__recipe_quantizes(was) ||
        !qg__model_keeps_ends(r->weight, r->input, r->gradient))
        return QG_OK;
    return qg__recipe_put(&z->made.recipe, "first-last", "float");
}

static qg_status refuse_program(const qg_run *r)
{
    if (qg__reader_of_program(r)) return qg_errcode();
    return qg_fail(QG_EARG,
                   "%s: a program trained it with qg_fit, so it has no recipe to add quantizers to; "
                   "declare the net with quantizers in a program, and pass it to qg_calibrate",
                   r->paths.dir);
}

static qg_status configure(quantization *z)
{
    qg_status status = qg__recipe_changes(z->asked->changes, &z->changes);
    if (!status && z->of->said) status = refuse_program(z->of);
    if (!status) status = qg__made_check_dir(z->asked->dir);
    if (!status) status = qg__recipe_over(&z->made.recipe, &z->of->recipe, 0, 0);
    if (!status) status = leave_out(&z->made.recipe);
    if (qg__recipe_value(&z->changes, "data") && strcmp(z->changes.data.name, z->of->recipe.data.name))
        qg__recipe_unset(&z->made.recipe, "data-dir");          /* which is that of the other set */
    if (!status) status = qg__recipe_over(&z->made.recipe, &z->changes, 0, 0);
    if (!status) status = choose_schemes(z);
    return status ? status : decide_ends(z);
}

/* --- images ------------------------------------------------------------------------------- */

/* The images of the training as a test would see them: nothing is augmented.  They must be those of the run, whose
 * statistics the normalisation has. */
static qg_status open_images(quantization *z)
{
    qg_recipe            plain = z->made.recipe;
    const bool           fits = qg__normalise_fits(plain.normalise);
    const qg_preprocess *noted = fits ? qg_run_preprocess(z->of) : NULL;
    if (fits && !noted) return qg_errcode();
    plain.augment = (qg_augment){ 0 };
    z->made.train = qg__recipe_data(&plain, false, noted);
    z->made.test = qg__recipe_test_of(&plain, z->made.train);
    if (!z->made.test) return qg_errcode();
    return qg__recipe_note_images(&z->made.recipe, qg_run_directory(z->of), z->made.train, z->made.test);
}

/* --- the net ------------------------------------------------------------------------------ */

#define FLOAT "float"

static void spell(const qg_slot *slot, char text[QG_RECIPE_VALUE_BYTES])
{
    strcpy(text, FLOAT);
    if (slot && slot->q.scheme) qg_quant_print(slot->q, text, QG_RECIPE_VALUE_BYTES);
}

/* What l and the layer of this name in the other net quantize: "twn" or "float". */
static void spell_both(qg_layer *l, const qg_net *other, qg_role role, char here[QG_RECIPE_VALUE_BYTES],
                       char there[QG_RECIPE_VALUE_BYTES])
{
    spell(qg_layer_slot(l, role), here);
    spell(qg_layer_slot(qg__net_named(other, l->name), role), there);
}

/* The weights of the run were trained for its quantizers, so it keeps those. */
static qg_status check_kept(const quantization *z, qg_layer *l, qg_role role)
{
    char was[QG_RECIPE_VALUE_BYTES], is[QG_RECIPE_VALUE_BYTES];
    spell_both(l, z->made.net, role, was, is);
    if (!strcmp(was, FLOAT) || !strcmp(was, is)) return QG_OK;
    return qg_fail(QG_EARG,
                   "%s is already quantized: %s.%s was trained as %s, which cannot become %s",
                   qg_run_directory(z->of), l->name, qg_role_name(role), was, is);
}

static qg_status check_quantizers(const quantization *z)
{
    bool      any = false;
    qg_status status = QG_OK;
    for (int i = 0; i < qg_net_layers(z->of->net); i++)
        for (int r = 0; r < QG_ROLES && !status; r++)
            status = check_kept(z, qg_net_layer(z->of->net, i), qg_roles[r]);
    for (int i = 0; i < qg_net_layers(z->made.net); i++)
        for (int r = 0; r < QG_ROLES; r++) {
            char is[QG_RECIPE_VALUE_BYTES], was[QG_RECIPE_VALUE_BYTES];
            spell_both(qg_net_layer(z->made.net, i), z->of->net, qg_roles[r], is, was);
            any |= strcmp(is, FLOAT) && !strcmp(was, FLOAT);
        }
    if (status || any) return status;
    return qg_fail(QG_EARG,
                   "nothing to quantize: this changes no layer of %s; pass another scheme with --weight, "
                   "--input or --layer",
                   qg_run_directory(z->of));
}

static qg_status freeze(const quantization *z)
{
    char      layer[QG__INIT_LAYER];
    qg_status status = QG_OK;
    for (const char *at = z->made.recipe.freeze; !status && qg__list_next(&at, layer, sizeof layer);)
        status = qg_net_freeze(z->made.net, layer);
    return status;
}

/* The run's own net, and the one with quantizers. */
static qg_status load(quantization *z)
{
    const qg_recipe *r = &z->made.recipe;
    qg_shape         image = qg_loader_shape(z->made.train);
    const int        n = qg_loader_classes(z->made.train);
    qg_status        status = qg__reader_load(z->of, image, n);
    if (status) return status;
    z->made.net = qg__reader_net(z->of, r, image, n, &z->init);
    if (!z->made.net && qg_errcode() == QG_ESHAPE)
        return qg_fail(QG_ESHAPE, "%s; binary weights and inputs change the order of the layers, so a net is trained with them", qg_errmsg());
    if (!z->made.net) return qg_errcode();
    status = check_quantizers(z);
    if (!status) status = freeze(z);
    if (!status) status = qg__recipe_put(&z->made.recipe, "init-digest", z->init.digest);
    return status;
}

static qg_status calibrate(quantization *z)
{
    const int all = qg_loader_shape(z->made.train).n;
    bool      stopped;
    z->count = z->asked->images              ? z->asked->images
               : all < QG_CALIBRATION_IMAGES ? all
                                             : QG_CALIBRATION_IMAGES;
    if (z->count > all)
        return qg_fail(QG_EARG, "calibrate: %d images were asked for, but %s has %d for training",
                       z->count, z->made.recipe.data.name, all);
    qg_fit_spec spec = qg__recipe_fit(&z->of->recipe);
    spec.test = z->made.test;
    const qg_status status = qg__measure(&spec, z->made.test, z->of->net, z->of->tape, z->of->steps,
                                         NULL, &z->before, &stopped);
    return status
               ? status
               : qg_calibrate(z->made.net, (qg_calibrate_spec){ .images = z->made.train, .count = z->count });
}

qg_status qg_run_quantize(qg_run *r, qg_run_quantize_spec spec, qg_run_quantized *result)
{
    quantization z = { .asked = &spec, .of = r, .made = qg__made_begin() };
    if (!r) return QG_EARG;                 /* the message says why the run is NULL */
    if (!result) return qg_fail(QG_EARG, "quantize: the result is missing");
    qg_status    status = configure(&z);
    *result = (qg_run_quantized){ .images = 0 };
    if (!status) status = qg__recipe_check(&z.made.recipe, false);
    if (!status) qg_set_threads(z.made.recipe.threads), status = open_images(&z);
    if (!status) status = load(&z);
    if (!status) status = calibrate(&z);
    if (!status) status = qg__made_write(&z.made, spec.dir);
    result->images = z.count;
    result->tested = z.made.measured.images;
    result->accuracy = z.made.measured.accuracy;
    result->loss = z.made.measured.loss;
    result->accuracy_before = z.before.accuracy;
    result->loss_before = z.before.loss;
    qg__made_end(&z.made);
    qg__recipe_clear(&z.changes);
    return status;
}
