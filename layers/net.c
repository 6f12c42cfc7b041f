/* A net: layers in the order of their declaration.  qg_net_build gives them sizes, parameters, initial values and a plan, and
 * qg_net_forward runs the plan. */
#include "layers/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/paths.h"
#include "core/io/safetensors.h"
#include "core/io/utf8.h"
#include "core/rng.h"
#include "core/walk.h"
#include "layers/evaluate.h"

qg_net *qg_net_new(qg_net_spec spec)
{
    qg_net *net = calloc(1, sizeof *net);
    if (!net) return qg__refuse(QG_EMEM, "out of memory: a net");
    net->spec = spec;
    if (spec.height < 1 || spec.width < 1 || spec.channels < 1)
        qg__net_fail(net, qg_fail(QG_ESHAPE, "net: the image is %d x %d x %d, must be at least 1 x 1 x 1",
                                  spec.height, spec.width, spec.channels));
    return net;
}

void qg_net_free(qg_net *net)
{
    if (!net) return;
    qg_params_release(&net->params);
    qg__arena_release(&net->arena);
    free(net);
}

void *qg__net_fail(qg_net *net, qg_status s)
{
    if (!s || net->status) return NULL;
    net->status = s;
    snprintf(net->why, sizeof net->why, "%s", qg_errmsg());
    return NULL;
}

/* --- declare ------------------------------------------------------------------------------ */

enum { NAME_BYTES = 48, PREFIX_BYTES = 36 };    /* of a layer; leaves room for the rest of a parameter's name */

/* The number of the last layer that was named after prefix; 0: none was.  All numbers up to it are taken. */
static int last_number(const qg_net *net, const char *prefix)
{
    char text[NAME_BYTES + 1];
    for (int i = net->layers - 1; i >= 0; i--) {
        const qg_layer *l = net->layer[i];
        if (!l->number || strncmp(l->name, prefix, strlen(prefix))) continue;
        snprintf(text, sizeof text, "%s%d", prefix, l->number);
        if (!strcmp(text, l->name)) return l->number;
    }
    return 0;
}

/* "conv" becomes "conv1", "conv2", .. */
static const char *layer_name(qg_net *net, const char *prefix, const char *name, int *number)
{
    char text[NAME_BYTES + 1];
    *number = 0;
    if (name) return qg__arena_text(&net->arena, name);
    *number = last_number(net, prefix);
    do {
        snprintf(text, sizeof text, "%s%d", prefix, ++*number);
    } while (qg__net_named(net, text));
    return qg__arena_text(&net->arena, text);
}

/* Makes room for one more layer.  false: out of memory. */
static bool reserve(qg_net *net)
{
    if (net->layers < net->capacity) return true;
    const int  capacity = net->capacity ? 2 * net->capacity : 64;
    qg_layer **layer    = qg__arena_take(&net->arena, (size_t)capacity * sizeof *layer);
    if (!layer) return false;
    if (net->layers) memcpy(layer, net->layer, (size_t)net->layers * sizeof *layer);
    net->layer    = layer;
    net->capacity = capacity;
    return true;
}

/* Whether arrays of a layer with this name would be taken for others of a checkpoint: "ema.LAYER.weight". */
static bool is_of_checkpoints(const char *name)
{
    static const char *const room[] = { "codes", "ema", "optim", "run" };
    const size_t first = strcspn(name, ".");
    for (size_t i = 0; i < sizeof room / sizeof *room; i++)
        if (first == strlen(room[i]) && !memcmp(name, room[i], first)) return true;
    return false;
}

/* What is wrong with a name, or with the prefix of names; NULL: nothing. */
static const char *fault_of(const char *name)
{
    char shown[NAME_BYTES + 1];
    if (!*name) return "is empty";
    if (strlen(name) > NAME_BYTES) return "is longer than 48 bytes";
    if (!qg__utf8_valid(name, strlen(name))) return "is not UTF-8, as checkpoints have it";
    qg__utf8_printable(name, shown, sizeof shown);
    if (strcmp(name, shown)) return "has a control character, which metrics.csv cannot have";
    return strpbrk(name, ",\"") ? "has a comma or a quotation mark, which metrics.csv cannot have" : NULL;
}

void *qg_net_append(qg_net *net, const qg_layer_type *type, qg_layer *after, const char *prefix,
                    const char *name)
{
    QG_ASSERT(type && type->name && type->size >= sizeof(qg_layer) && (type->forward || type->run) && (prefix || name));
    if (!net || net->status) return NULL;
    if (net->built)             /* the net never runs again: its plan lacks this layer */
        return qg__net_fail(net, qg_fail(QG_ESTATE, "%s: declared after qg_net_build", type->name));
    if (!name && strlen(prefix) > PREFIX_BYTES)
        return qg__net_fail(net, qg_fail(QG_EARG, "%s: the prefix '%.48s' is longer than %d bytes", type->name,
                                         prefix, PREFIX_BYTES));
    const char *fault = fault_of(name ? name : prefix);
    if (!fault && name && qg__net_named(net, name)) fault = "is taken";
    const bool numbered = !name && !strchr(prefix, '.');        /* "ema1" is no name of a checkpoint's */
    if (!fault && !numbered && is_of_checkpoints(name ? name : prefix))
        fault = "begins with codes, ema, optim or run, which checkpoints use";
    if (fault)
        return qg__net_fail(net, qg_fail(QG_EARG, "%s: the %s '%.48s' %s", type->name, name ? "name" : "prefix",
                                         name ? name : prefix, fault));
    if (after && after->net != net)
        return qg__net_fail(net, qg_fail(QG_EARG, "%s: its input %s belongs to another net", type->name,
                                         after->name));
    qg_layer *l = reserve(net) ? qg__arena_take(&net->arena, type->size) : NULL;
    if (l) {
        memset(l, 0, type->size);
        l->type  = type;
        l->net   = net;
        l->name  = layer_name(net, prefix, name, &l->number);
        l->index = net->layers;
        l->after = after ? after : net->last;
    }
    if (!l || !l->name) return qg__net_fail(net, QG_EMEM);
    net->layer[net->layers++] = net->last = l;
    return l;
}

qg_layer *qg_net_mark_output(qg_layer *l)
{
    if (!l) return NULL;
    if (l->net->built)
        qg__net_fail(l->net, qg_fail(QG_ESTATE, "%s: marked as an output after qg_net_build", l->name));
    else
        l->result = true;
    return l;
}

qg_param *qg_layer_declare(qg_layer *l, const char *name, qg_param spec)
{
    char text[192];
    snprintf(text, sizeof text, "%s.%s", l->name, name);
    spec.name   = text;
    qg_param *p = qg_params_declare(&l->net->params, spec);
    if (!p) qg__net_fail(l->net, qg_errcode());     /* whatever the layer returns */
    return p;
}

/* --- build -------------------------------------------------------------------------------- */

static qg_status build_layer(qg_net *net, qg_layer *l)
{
    const qg_shape image = { 1, net->spec.height, net->spec.width, net->spec.channels };
    l->in  = l->after ? l->after->out : image;
    l->out = l->in;
    const qg_status s = l->type->build ? l->type->build(l) : QG_OK;
    if (s || qg_shape_valid(l->out)) return s;
    return qg_fail(QG_ESHAPE, "%s: its output " QG_SHAPE_FMT " is empty or beyond any memory", l->name,
                   QG_SHAPE_ARGS(l->out));
}

/* The key of a layer's random numbers. */
static uint64_t key_of(uint64_t key, const char *name)
{
    for (; *name; name++) key = qg_bits(key, (unsigned char)*name);
    return key;
}

static void count_readers(qg_net *net)
{
    for (int i = 0; i < net->layers; i++) {
        if (net->layer[i]->after) net->layer[i]->after->readers++;
        if (net->layer[i]->with) net->layer[i]->with->readers++;
    }
}

/* What no qg_net_append has seen, since the second input is set after it. */
static qg_status check_with(const qg_layer *l)
{
    const bool      two  = l->type->traits & QG_READS_TWO;
    const qg_layer *with = l->with;
    const char     *why;
    if (!with && two)
        return qg_fail(QG_EARG, "%s: reads two layers (QG_READS_TWO), but its field with is NULL", l->name);
    if (!with) return QG_OK;
    if (!two) why = " as well, but its type is not QG_READS_TWO";
    else if (with->net != l->net) why = ", which belongs to another net";
    else if (with->index >= l->index) why = ", which is not declared before it";
    else return QG_OK;
    return qg_fail(QG_EARG, "%s: reads %s%s", l->name, with->name, why);
}

/* A layer without a reader is declared in the wrong place, or its reader is. */
static void check_readers(qg_net *net)
{
    for (int i = 0; i < net->layers && !net->status; i++) qg__net_fail(net, check_with(net->layer[i]));
    if (!net->status) count_readers(net);
    for (int i = 0; i + 1 < net->layers && !net->status; i++) {
        const qg_layer *l = net->layer[i];
        if (l->readers == 0 && !l->result)
            qg__net_fail(net, qg_fail(QG_EARG, "%s: no layer reads it, and the net's result is %s; declare further "
                                      "results with qg_net_mark_output", l->name, net->layer[net->layers - 1]->name));
    }
}

qg_params *qg_net_build(qg_net *net)
{
    if (!net) return NULL;
    if (net->built && !net->status) return qg__refuse(QG_ESTATE, "net: already built");
    if (!net->status && net->layers == 0)
        qg__net_fail(net, qg_fail(QG_ESTATE, "net: no layer was declared"));
    check_readers(net);
    if (!net->status) qg__net_fail(net, qg__net_plan(net));
    for (int i = 0; i < net->layers && !net->status; i++) qg__net_fail(net, build_layer(net, net->layer[i]));
    if (!net->status) qg__net_fail(net, qg_params_allocate(&net->params));
    /* A layer's draws depend only on the seed and its name, so the products start from the same latent weights
     * with any quantizer layers between them. */
    const uint64_t key = qg_rng_fork(net->spec.seed, QG_STREAM_INIT);
    for (int i = 0; i < net->layers && !net->status; i++) {
        qg_layer *l = net->layer[i];
        if (l->type->start) l->type->start(l, key_of(key, l->name));
    }
    if (net->status) return qg__refuse(net->status, "%s", net->why);
    net->built = true;
    return &net->params;
}

qg_params *qg_net_params(const qg_net *net)
{
    if (net && net->built) return (qg_params *)&net->params;
    if (net && net->status) qg_fail(net->status, "%s", net->why);
    else if (net) qg_fail(QG_ESTATE, "net: has no parameters before qg_net_build");
    return NULL;
}

/* Why qg_net_params returned NULL. */
static qg_status missing(const qg_net *net)
{
    return net ? qg_errcode() : qg__fail_null(QG_EARG, "net");
}

int qg_net_layers(const qg_net *net) { return net ? net->layers : 0; }

qg_layer *qg_net_layer(const qg_net *net, int index)
{
    return index >= 0 && index < qg_net_layers(net) ? net->layer[index] : NULL;
}

/* --- by name ------------------------------------------------------------------------------ */

bool qg__is_of_layer(const char *param, const char *layer)
{
    const size_t n = strlen(layer);
    return !strncmp(param, layer, n) && param[n] == '.';
}

/* Names of layers may have dots: of "stem" and "stem.bn", the second has "stem.bn.gamma". */
qg_layer *qg__owner_of(const qg_net *net, const char *param)
{
    qg_layer *owner = NULL;
    size_t    most  = 0;
    for (int i = 0; i < net->layers; i++) {
        const size_t n = strlen(net->layer[i]->name);
        if (n > most && qg__is_of_layer(param, net->layer[i]->name)) owner = net->layer[i], most = n;
    }
    return owner;
}

bool qg__layer_owns(const qg_layer *l, const qg_param *p)
{
    return qg__is_of_layer(p->name, l->name) && qg__owner_of(l->net, p->name) == l;
}

static bool has_parameters(const qg_layer *l)
{
    for (int i = 0; i < l->net->params.count; i++)
        if (qg__layer_owns(l, l->net->params.item[i])) return true;
    return false;
}

qg_layer *qg__net_named(const qg_net *net, const char *name)
{
    for (int i = 0; i < qg_net_layers(net) && name; i++)
        if (!strcmp(net->layer[i]->name, name)) return net->layer[i];
    return NULL;
}

qg_layer *qg_net_find(const qg_net *net, const char *name)
{
    char      list[384] = "";
    qg_layer *l         = qg__net_named(net, name);
    if (l) return l;
    for (int i = 0; i < qg_net_layers(net); i++)
        if (!net->built || has_parameters(net->layer[i])) qg__list_append(list, sizeof list, net->layer[i]->name);
    if (!net) qg__fail_null(QG_EARG, "net");
    else qg_fail(QG_EARG, "no layer is named '%s'; layers%s: %s", name ? name : "NULL", net->built ? " with parameters" : "",
                 list);
    return NULL;
}

/* --- freeze ------------------------------------------------------------------------------- */

static void freeze(qg_layer *l)
{
    l->frozen = true;
    for (int i = 0; i < l->net->params.count; i++)
        if (qg__layer_owns(l, l->net->params.item[i])) l->net->params.item[i]->frozen = true;
    for (int i = 0; i < QG_ROLES; i++) {
        qg_slot *slot = (qg_slot *)qg_layer_slot(l, qg_roles[i]);
        if (slot) slot->bound.frozen = true;
    }
}

qg_status qg_net_freeze(qg_net *net, const char *layer)
{
    if (!qg_net_params(net)) return missing(net);
    qg_layer *l = qg_net_find(net, layer);
    if (!l) return QG_EARG;
    freeze(l);
    qg_batchnorm *norm = qg_layer_product(l) ? qg__next_batchnorm(l) : NULL;
    if (norm) freeze(&norm->layer);
    return QG_OK;
}

/* --- run ---------------------------------------------------------------------------------- */

qg_var *qg_apply(qg_layer *l, qg_tape *t, qg_var *x)
{
    if (t && !l) return qg__reject_null(t, "layer");
    if (!t || !x) return NULL;
    if (!l->net->built) return qg_reject(t, QG_ESTATE, "%s: applied before qg_net_build", l->name);
    if (l->with) return qg_reject(t, QG_EARG, "%s: has two inputs, but qg_apply gives one", l->name);
    return qg__step_run(&(qg_step){ .layer = l }, t, x, NULL);
}

qg_var *qg_net_forward(qg_net *net, qg_tape *t, qg_tensor images)
{
    if (!t) return NULL;
    if (!net) return qg__reject_null(t, "net");
    if (net->status) return qg_reject(t, net->status, "%s", net->why);
    if (!net->built) return qg_reject(t, QG_ESTATE, "net: run before qg_net_build");
    if (images.shape.h != net->spec.height || images.shape.w != net->spec.width || images.shape.c != net->spec.channels)
        return qg_reject(t, QG_ESHAPE, "net: images are " QG_SHAPE_FMT ", the net was declared for [n,%d,%d,%d]",
                         QG_SHAPE_ARGS(images.shape), net->spec.height, net->spec.width, net->spec.channels);
    qg_var *image = qg_input(t, images);
    if (!image) return NULL;
    /* A status: QG_OK, or QG_ENAN. */
    if (qg_tape_mode(t) == QG_EVAL && qg__evaluation_takes(images)) return qg_reject(t, QG_ENAN, "%s", qg_errmsg());
    /* Results by layer, on the tape, so that several tapes can run one net. */
    qg_var **out = qg_save(t, image, (size_t)net->layers * sizeof *out);
    if (!out) return NULL;
    memset(out, 0, (size_t)net->layers * sizeof *out);
    qg__tape_attach(t, net, out);
    for (int i = 0; i < net->steps; i++) {
        const qg_step *s = &net->step[i];
        qg_var        *x = s->x ? out[s->x->index] : image, *z = s->z ? out[s->z->index] : NULL;
        qg_var        *y = qg__step_run(s, t, x, z);
        if (!y) return qg__tape_locate(t, s->layer->name), NULL;
        out[s->result->index] = y;
    }
    return out[net->layers - 1];
}

/* Whether a step of this tape computes the result of l; if not, l is folded, or the step also quantizes the result for the
 * product that reads it. */
static bool has_result(const qg_net *net, const qg_tape *t, const qg_layer *l)
{
    const qg_product *p = qg_layer_product((qg_layer *)l);
    if (p && qg_tape_mode(t) == QG_EVAL && qg__evaluation_has_norm(p)) return false;
    for (int i = 0; i < net->steps; i++)
        if (net->step[i].result == l) return !net->step[i].slot || net->step[i].slot == qg__quantize_slot((qg_layer *)l);
    return false;
}

qg_var *qg_net_output(const qg_net *net, qg_tape *t, const char *name)
{
    if (!t) return NULL;
    if (!net || !name) return qg__reject_null(t, net ? "name" : "net");
    const qg_layer *l = qg__net_named(net, name);
    if (!l) return qg_reject(t, QG_EARG, "net: no layer is called '%.48s'", name);
    qg_var *const *out = qg__tape_attached(t, net);
    if (!out || !out[net->layers - 1]) return qg_reject(t, QG_ESTATE, "%s: the net has not run in this step", name);
    if (!has_result(net, t, l))
        return qg_reject(t, QG_EARG, "%s: is folded into another layer; declare it with qg_net_mark_output to read it", name);
    return out[l->index];
}

/* --- files -------------------------------------------------------------------------------- */

qg_array qg__param_array(const qg_param *p)
{
    const qg_shape s    = p->shape;
    const size_t   n    = (size_t)s.n, h = (size_t)s.h, w = (size_t)s.w, c = (size_t)s.c;
    const int      rank = p->rank ? p->rank : s.h > 1 || s.w > 1 ? 4 : s.n > 1 ? 2 : 1;
    if (rank == 4) return (qg_array){ QG_F32, 4, { n, h, w, c }, p->value };
    if (rank == 2) return (qg_array){ QG_F32, 2, { n, c }, p->value };
    return (qg_array){ QG_F32, 1, { c }, p->value };
}

void qg_net_state(qg_net *net, qg_state *s)
{
    const qg_params *params = qg_net_params(net);
    if (!params) qg__state_fail(s, missing(net));
    for (int i = 0; params && i < params->count; i++)
        (void)qg_state_add(s, params->item[i]->name, qg__param_array(params->item[i]));
    (void)qg_state_set_note(s, "layout", "conv2d [out,kh,kw,in], dense [out,in] or [out,h,w,in]");
}

static qg_status transfer(qg_net *net, const char *path, bool save)
{
    if (!qg_net_params(net)) return missing(net);
    qg_state *s = qg_state_new();
    if (!s) return QG_EMEM;
    qg_net_state(net, s);
    const qg_status status = save ? qg_state_save(s, path) : qg_state_load(s, path);
    qg_state_free(s);
    return status;
}

qg_status qg_net_save(qg_net *net, const char *path) { return transfer(net, path, true); }
qg_status qg_net_load(qg_net *net, const char *path) { return transfer(net, path, false); }
