/* qgrad summary: the layers of a net, without data and without training. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/json.h"
#include "cli/recipe.h"
#include "layers/layer.h"

static const char *scheme_of(const qg_slot *slot)
{
    return slot->q.scheme ? slot->q.scheme->name : "float";
}

static void print_layer(json *j, qg_layer *l)
{
    const qg_product *p       = qg_layer_product(l);
    char              does[64] = "";
    if (l->type->describe) l->type->describe(l, does, sizeof does);
    json_open(j, NULL, '{');
    json_text(j, "name", l->name);
    json_text(j, "type", l->type->name);
    json_text(j, "does", does);
    json_open(j, "output", '[');
    json_integer(j, NULL, (uint64_t)l->out.h);
    json_integer(j, NULL, (uint64_t)l->out.w);
    json_integer(j, NULL, (uint64_t)l->out.c);
    json_close(j, ']');
    if (p) {
        json_text(j, "weight", scheme_of(&p->weight_slot));
        json_text(j, "input", scheme_of(&p->input_slot));
        json_integer(j, "weights", qg_count(p->weight->shape));
        json_integer(j, "macs", l->macs);
    }
    json_close(j, '}');
}

static void print_json(const recipe *r, const config *c, const qg_net *net)
{
    uint64_t macs = 0;
    json     j    = json_begin(stdout);
    json_text(&j, "model", r->model->name);
    json_text(&j, "weight", config_text(c, "weight"));
    json_text(&j, "input", config_text(c, "input"));
    json_open(&j, "layers", '[');
    for (int i = 0; i < qg_net_layers(net); i++) {
        print_layer(&j, qg_net_layer(net, i));
        macs += qg_net_layer(net, i)->macs;
    }
    json_close(&j, ']');
    json_integer(&j, "parameters", qg_params_trained(qg_net_params(net)));
    json_integer(&j, "macs", macs);
    json_integer(&j, "float_bytes", qg_net_float_bytes(net));
    json_integer(&j, "packed_bytes", qg_net_packed_bytes(net));
    json_end(&j);
}

static int summarize(const config *asked, config *c)
{
    recipe    r;
    bool      usage;
    qg_status status = recipe_resolve(asked, NULL, c, &usage);
    if (!status) {
        usage  = true;
        status = recipe_read(c, &r);
    }
    if (status) return qg_report("qgrad summary"), usage ? EXIT_USAGE : EXIT_FAILED;
    qg_net *net = recipe_net(&r, r.data->image, r.data->classes);
    if (!net) return qg_report("qgrad summary");
    if (config_flag(asked, "json")) print_json(&r, c, net);
    else qg_net_summary(net, stdout);
    qg_net_free(net);
    return EXIT_DONE;
}

int summary_main(const verb *v, const char *program, int argc, char **argv)
{
    (void)program;
    config asked = { { 0 } }, c = { { 0 } };
    int    status = options_parse(v, argc, argv, &asked);
    if (status < 0) status = summarize(&asked, &c);
    config_free(&c);
    config_free(&asked);
    return status;
}
