/* qgrad summary: the layers of a net, without data and without training. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/config/config.h"
#include "cli/config/models.h"
#include "core/io/json_write.h"
#include "layers/layer.h"
#include "layers/models/text.h"

static void print_scheme(qg__json *j, const char *key, qg_quant q, qg_role role)
{
    char text[QG_SPELLING_BYTES];
    qg__json_text(j, key, qg_scheme_spelling(q.scheme, role, text, sizeof text));
}

static void print_learned(qg__json *j, const qg_param *p, const qg_learned *entry)
{
    const size_t n     = qg_count(p->shape);
    double       least = INFINITY, greatest = -INFINITY, mean = 0;
    for (size_t i = 0; i < n; i++) {
        least    = fmin(least, (double)p->value[i]);
        greatest = fmax(greatest, (double)p->value[i]);
        mean += (double)p->value[i] / (double)n;
    }
    qg__json_open(j, NULL, '{');
    qg__json_text(j, "name", p->name);
    qg__json_flag(j, "trained", !entry->tracked);
    qg__json_integer(j, "numbers", n);
    qg__json_real(j, "least", least);
    qg__json_real(j, "mean", mean);
    qg__json_real(j, "greatest", greatest);
    qg__json_close(j, '}');
}

static void print_quantizer(qg__json *j, qg_role role, const qg_slot *slot)
{
    const qg_quant q = slot->q;
    qg__json_open(j, NULL, '{');
    qg__json_text(j, "operand", qg_role_name(role));
    print_scheme(j, "scheme", q, role);
    qg__json_integer(j, "bits", (uint64_t)q.bits);
    qg__json_flag(j, "per_channel", q.per_channel);
    qg__json_integer(j, "after", q.after);
    qg__json_open(j, "learned", '[');
    for (int i = 0; i < qg_learned_count(q); i++)
        if (!q.scheme->learned[i].quiet) print_learned(j, slot->param[i], &q.scheme->learned[i]);
    qg__json_close(j, ']');
    qg__json_close(j, '}');
}

static void print_layer(qg__json *j, qg_layer *l)
{
    const qg_slot *weight   = qg_layer_slot(l, QG_WEIGHT), *input = qg_layer_reads(l);
    const qg_slot *gradient = qg_layer_slot(l, QG_GRADIENT);
    char           does[64] = "";
    if (l->type->describe) l->type->describe(l, does, sizeof does);
    qg__json_open(j, NULL, '{');
    qg__json_text(j, "name", l->name);
    qg__json_text(j, "type", l->type->name);
    qg__json_text(j, "does", does);
    qg__json_open(j, "output", '[');
    qg__json_integer(j, NULL, (uint64_t)l->out.h);
    qg__json_integer(j, NULL, (uint64_t)l->out.w);
    qg__json_integer(j, NULL, (uint64_t)l->out.c);
    qg__json_close(j, ']');
    if (weight && weight->of) {
        print_scheme(j, "weight", weight->q, QG_WEIGHT);
        print_scheme(j, "input", input ? input->q : (qg_quant){ 0 }, QG_INPUT);
        print_scheme(j, "gradient", gradient ? gradient->q : (qg_quant){ 0 }, QG_GRADIENT);
        if (gradient && gradient->q.scheme)
            qg__json_flag(j, "trains_in_integers", qg_layer_trains_in_integers(l));
        qg__json_integer(j, "weights", qg_count(weight->of->shape));
        qg__json_integer(j, "macs", l->macs);
        qg__json_integer(j, "float_bytes", qg_count(weight->of->shape) * sizeof(float));
        qg__json_bytes(j, "packed_bytes", qg_layer_packed_bytes(l));
    }
    qg__json_open(j, "quantizers", '[');
    for (int i = 0; i < 3; i++) {
        const qg_slot *slot = qg_layer_slot(l, qg_roles[i]);
        if (slot && slot->q.scheme) print_quantizer(j, qg_roles[i], slot);
    }
    qg__json_close(j, ']');
    qg__json_close(j, '}');
}

static qg_status print_json(qg_recipe *c, const qg_net *net)
{
    uint64_t macs = 0;
    size_t   packed;
    if (qg_net_packed_bytes(net, &packed)) return QG_EMEM;
    qg__json     j    = qg__json_begin(stdout);
    qg__json_text(&j, "model", qg_recipe_get(c, "model"));
    qg__json_text(&j, "weight", qg_recipe_get(c, "weight"));
    qg__json_text(&j, "input", qg_recipe_get(c, "input"));
    qg__json_text(&j, "gradient", qg_recipe_get(c, "gradient"));
    qg__json_open(&j, "layers", '[');
    for (int i = 0; i < qg_net_layers(net); i++) {
        print_layer(&j, qg_net_layer(net, i));
        macs += qg_net_layer(net, i)->macs;
    }
    qg__json_close(&j, ']');
    qg__json_integer(&j, "parameters", qg_params_trained(qg_net_params(net)));
    qg__json_integer(&j, "macs", macs);
    qg__json_integer(&j, "float_bytes", qg_net_float_bytes(net));
    qg__json_bytes(&j, "packed_bytes", packed);
    qg__json_end(&j);
    return QG_OK;
}

/* The images are not read, so the table cannot say after how many steps. */
static void print_delays(qg_recipe *c, FILE *out)
{
    static const char *const keys[] = { "quantize-after", "quantize-weights-after", "freeze-batchnorm-after" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *text = qg_recipe_get(c, keys[i]);
        if (text && strstr(text, "epochs")) fprintf(out, "%s %s: the training images decide how many steps these are\n", keys[i], text);
    }
}

/* --image, else those of the data set that is asked for, else what the model's paper trains on.  A net as text has no
 * paper, and its last layer has the classes if no data set is named. */
static qg_shape image_of(const config *asked, int *classes)
{
    qg_recipe      *r     = asked->recipe;
    const bool      named = config_text(asked, "data") || config_text(asked, "config") || config_text(asked, "recipe");
    const qg_model *model = model_of(qg_recipe_get(r, "model"));
    const qg_shape  image = qg_data_image(qg_recipe_get(r, "data"), qg_recipe_get(r, "data-dir"), classes);
    if (config_text(asked, "image") && !named && model == &qg_model_text) *classes = 0;
    if (config_text(asked, "image")) return config_image(asked);
    return named || model == &qg_model_text ? image : model->image;
}

static qg_status make_net(config *asked, qg_net **net)
{
    int       classes;
    qg_status status = config_read(asked);
    if (status) return status;
    if (!qg_recipe_get(asked->recipe, "model")) return qg_errcode();
    const qg_shape image = image_of(asked, &classes);
    if (!image.h) return qg_fail(QG_EARG, "the size of the images is unknown; pass --image");
    *net = qg_recipe_net(asked->recipe, image, classes);
    return *net ? QG_OK : qg_errcode();
}

static int summary_main(config *asked)
{
    qg_net *net = NULL;
    if (make_net(asked, &net)) return print_failure(asked);
    const bool      json   = config_flag(asked, "json");
    const qg_status status = json ? print_json(asked->recipe, net) : qg_net_summary(net, stdout);
    if (!status && !json) print_delays(asked->recipe, stdout);
    qg_net_free(net);
    return status ? print_failure(asked) : EXIT_DONE;
}

static const verb_option own_options[] = {
    { "image", .first = true }, { "data-dir" }, { NULL }
};

const verb summary_verb = {
    .name = "summary", .about = "Show the layers of a net and its size, as float and packed",
    .usage = "summary --model NAME [--weight SCHEME] [options]", .run = summary_main,
    .options = (const verb_option *const[]){ net_options, common_options, own_options, NULL },
};
