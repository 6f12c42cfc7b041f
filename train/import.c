/* qg_run_import: a run of no epochs, whose net has the weights of another program. */
#include "train/runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/hash.h"
#include "core/kernels/parallel.h"
#include "datasets/dataset.h"
#include "layers/plan.h"
#include "train/made.h"
#include "train/reader.h"
#include "train/result.h"

typedef struct import {
    const qg_run_import_spec *spec;
    qg_recipe                 asked;
    bool                      measures;
    int                       classes;          /* of spec; 0: not given */
    bool                      named;            /* and it has their names */
    qg__made                  made;
    char                     *names;
} import;

/* --- the configuration ---------------------------------------------------------------------- */

/* Floats throughout, and no epochs.  Unless a data set is named, the run is for a folder of such
 * images, or for arrays if no image file has so many channels. */
static qg_status ask(import *m)
{
    static const char *const fixed[][2] = { { "weight", "float" },
                                            { "input", "float" },
                                            { "gradient", "float" },
                                            { "augment", "none" },
                                            { "epochs", "0" } };
    char             text[64];
    const qg_shape   image  = m->spec->image;
    const qg_recipe *base   = m->spec->recipe->base;
    qg_status        status = base ? qg__recipe_over(&m->asked, base, 0, 0) : QG_OK;
    if (!status) status = qg__recipe_over(&m->asked, m->spec->recipe, 0, 0);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed && !status; i++)
        status = qg__recipe_put(&m->asked, fixed[i][0], fixed[i][1]);
    if (!status && !qg__recipe_value(&m->asked, "normalise"))
        status = qg__recipe_put(&m->asked, "normalise", "unit");
    m->measures = qg__recipe_value(&m->asked, "data");
    if (status || m->measures) return status;
    if (!image.h) return qg_fail(QG_EARG, "image: pass the size of the images, or a data set");
    snprintf(text, sizeof text, "folder:%dx%dx%d", image.h, image.w, image.c);
    return qg__recipe_put(&m->asked, "data",
               image.c == 1 || image.c == 3 ? text
                                            : "arrays:test=test.npy,test-labels=test-labels.npy");
}

/* "10", or "cat,dog"; a checkpoint separates names by a slash. */
static qg_status count_classes(import *m)
{
    const char  *text = m->spec->classes;
    const size_t n    = text ? strlen(text) : 0;
    char        *end;
    if (!text) return QG_OK;
    if (m->measures) return qg_fail(QG_EARG, "classes: they are those of the data set");
    const long number = strtol(text, &end, 10);
    m->named          = *end;
    bool legal = n && (m->named || (number >= 1 && number <= QG_MAX_CLASSES));
    for (size_t i = 0; m->named && i < n; i++) {
        const bool comma = text[i] == ',';
        legal &= text[i] != '/' && !(comma && (i == 0 || text[i + 1] == ',' || !text[i + 1]));
        m->classes += comma;
    }
    m->classes = m->named ? m->classes + 1 : (int)number;
    legal &= m->classes <= QG_MAX_CLASSES;
    return legal ? QG_OK
                 : qg_fail(QG_EARG, "classes: '%s' is neither a number, 1..%d, nor names with commas in "
                           "between and no slash", text,
                           QG_MAX_CLASSES);
}

static qg_status configure(import *m)
{
    qg_status status = qg__recipe_status(m->spec->recipe);
    if (!status && (!m->spec->weights || !m->spec->dir))
        status = qg_fail(QG_EARG, "import: %s is NULL", m->spec->dir ? "weights" : "dir");
    if (!status) status = ask(m);
    if (!status) status = count_classes(m);
    if (!status) status = qg__recipe_resolve(&m->asked, NULL, true, NULL, &m->made.recipe);
    if (status) return status;
    qg__recipe_unset(&m->made.recipe, "layer");
    qg__recipe_unset(&m->made.recipe, "validation");
    qg__recipe_unset(&m->made.recipe, "data-digest");       /* of the run that the recipe is from */
    qg__recipe_unset(&m->made.recipe, "class-digest");
    status = qg__recipe_check(&m->made.recipe, false);
    if (!status) status = qg__normalise_check(m->made.recipe.normalise);
    if (!status && !m->classes && !m->measures && m->made.recipe.model.type != &qg_model_text)
        status = qg_fail(QG_EARG, "classes: pass their number or names, or a data set");
    if (!status && !m->measures && qg__normalise_fits(m->made.recipe.normalise))
        status = qg_fail(QG_EARG, "normalise: %s needs the images of a data set; "
                         "or pass channel:mean=..,deviation=..",
                         qg__recipe_value(&m->made.recipe, "normalise"));
    if (status) return status;
    return qg__made_check_dir(m->spec->dir);
}

/* --- images ----------------------------------------------------------------------------------- */

/* The names, each ended by NUL. */
static qg_status name_classes(const import *m, qg__dataset *set)
{
    const size_t bytes = m->named ? strlen(m->spec->classes) + 1 : 0;
    if (!m->named) return QG_OK;
    set->class_names = malloc(bytes);
    if (!set->class_names) return qg_fail(QG_EMEM, "out of memory for the names of classes");
    memcpy(set->class_names, m->spec->classes, bytes);
    for (char *at = set->class_names;
         (at = memchr(at, ',', (size_t)(set->class_names + bytes - at)));)
        *at++ = '\0';
    set->class_digest = qg_hash(QG_HASH_BASIS, set->class_names, bytes);
    return QG_OK;
}

/* Without a data set, one black image stands for the images that the net is for. */
static qg_status stand_in(import *m)
{
    const qg_shape  image = m->spec->image;
    const qg_layer *last  = qg_net_layer(m->made.net, qg_net_layers(m->made.net) - 1);
    qg__dataset set = { .shape = { 1, image.h, image.w, image.c },
                        .classes = m->classes ? m->classes : last->out.c };
    if (!qg__dataset_allocate(&set)) return qg_errcode();
    memset(set.images, 0, qg_row(image));
    *set.labels = 0;
    const qg_status status = name_classes(m, &set);
    if (status) qg__dataset_free(&set);
    m->made.train = status ? NULL : qg__loader_new(set, qg__recipe_loading(&m->made.recipe, false));
    return m->made.train ? QG_OK : qg_errcode();
}

static qg_status open_images(import *m)
{
    const qg_shape want = m->spec->image;
    m->made.train = qg__recipe_data(&m->made.recipe, false, NULL);
    m->made.test  = qg__recipe_test_of(&m->made.recipe, m->made.train);
    if (!m->made.test) return qg_errcode();
    const qg_shape is = qg_loader_shape(m->made.train);
    if (want.h && !qg__same_size(want, is))
        return qg_fail(QG_EARG, "image: %dx%dx%d was asked for, but the images of %s are %dx%dx%d",
                       want.h, want.w, want.c, m->made.recipe.data.name, is.h, is.w, is.c);
    return QG_OK;
}

/* --- the run ---------------------------------------------------------------------------------- */

static qg_status note(import *m)
{
    char            text[17];
    const qg_status status = qg__recipe_note_images(&m->made.recipe, NULL, m->made.train, m->made.test);
    qg__digest(m->made.net, text);
    return status ? status : qg__recipe_put(&m->made.recipe, "init-digest", text);
}

static qg_status make(import *m)
{
    qg_status status = m->measures ? open_images(m) : QG_OK;
    if (status) return status;
    const qg_shape image   = m->measures ? qg_loader_shape(m->made.train) : m->spec->image;
    const int      classes = m->measures ? qg_loader_classes(m->made.train) : m->classes;
    m->made.net            = qg__recipe_net(&m->made.recipe, image, classes);
    if (!m->made.net) return qg_errcode();
    if (!m->measures) status = stand_in(m);
    if (!status) status = qg__foreign_load(m->made.net, m->spec, &m->names);
    if (!status) status = note(m);
    return status ? status : qg__made_write(&m->made, m->spec->dir);
}

qg_status qg_run_import(qg_run_import_spec spec, qg_run_imported *result)
{
    import    m = { .spec = &spec, .made = qg__made_begin() };
    if (!result) return qg_fail(QG_EARG, "import: the result is missing");
    qg_status status = configure(&m);
    *result          = (qg_run_imported){ .tested = 0 };
    if (!status) qg_set_threads(m.made.recipe.threads), status = make(&m);
    if (status) free(m.names);
    else *result = (qg_run_imported){ .names = m.names, .tested = m.made.measured.images,
                                      .accuracy = m.made.measured.accuracy, .loss = m.made.measured.loss };
    qg__made_end(&m.made);
    qg__recipe_clear(&m.asked);
    return status;
}
