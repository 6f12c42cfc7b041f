#include "tests/originals/training/steps.h"

#include <stdio.h>
#include <stdlib.h>

enum { ARGUMENTS = 3 };

static qg_array view(qg_shape s, float *data)
{
    const size_t n = (size_t)s.n, h = (size_t)s.h, w = (size_t)s.w, c = (size_t)s.c;
    return (qg_array){ .dtype = QG_F32, .rank = 4, .dims = { n, h, w, c }, .data = data };
}

/* Saves s as DIR/STEP.WHAT.safetensors, and frees it. */
static qg_status save(qg_state *s, const char *dir, uint64_t step, const char *what)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%d.%s.safetensors", dir, (int)step, what);
    const qg_status status = qg_state_save(s, path);
    qg_state_free(s);
    return status;
}

static qg_status save_values(qg_net *net, const qg_var *loss, const char *dir, uint64_t step)
{
    qg_state *s = qg_state_new();
    int       n = 0;
    for (const qg_var *v = loss; v; v = v->older) n++;
    for (const qg_var *v = loss; v; v = v->older) {
        char name[64];
        snprintf(name, sizeof name, "var.%02d.%s", --n, v->op ? v->op->name : "leaf");
        qg_state_add(s, name, view(v->shape, v->data));
    }
    qg_net_state(net, s);
    return save(s, dir, step, "values");
}

static qg_status save_gradients(const qg_params *p, const char *dir, uint64_t step)
{
    qg_state *s = qg_state_new();
    for (int i = 0; i < p->count; i++)
        if (p->item[i]->grad) qg_state_add(s, p->item[i]->name, view(p->item[i]->shape, p->item[i]->grad));
    return save(s, dir, step, "gradients");
}

static qg_status step(const original_training *what, qg_tape *t, qg_optim *optim, const qg_batch *b,
                      const char *trace)
{
    qg_tape_begin(t, QG_TRAIN, 1, b->step);
    qg_var   *loss   = what->loss(t, qg_net_forward(what->net, t, b->x), b->y);
    qg_status status = loss && trace ? save_values(what->net, loss, trace, b->step) : QG_OK;
    if (status || (status = qg_backward(t, loss))) return status;
    printf("%.9g\n", (double)loss->data[0]);
    if (trace && (status = save_gradients(qg_net_params(what->net), trace, b->step))) return status;
    return qg_optim_step(optim);
}

static qg_status steps(const original_training *what, qg_tape *t, qg_optim *optim, const qg_archive *batches,
                       const char *trace)
{
    const qg_named_array *images = qg_archive_find(batches, "images"),
                         *labels = qg_archive_find(batches, "labels");
    if (!images || !labels || images->array.dtype != QG_F32 || images->array.rank != 5 ||
        labels->array.dtype != QG_U8 || labels->array.rank != 2)
        return qg_fail(QG_EFORMAT,
                       "no images [steps][n][h][w][c] of floats, or no labels [steps][n] of bytes");
    const size_t  *d     = images->array.dims;
    const qg_shape shape = { (int)d[1], (int)d[2], (int)d[3], (int)d[4] };
    qg_status      status = QG_OK;
    uint16_t      *label  = malloc(d[1] * sizeof *label);
    if (!label) return qg_fail(QG_EMEM, "out of memory: %zu labels", d[1]);
    for (uint64_t i = 0; !status && i < d[0]; i++) {
        const uint8_t *byte = (const uint8_t *)labels->array.data + i * d[1];
        for (size_t k = 0; k < d[1]; k++) label[k] = byte[k];
        const qg_batch b = { .x    = { shape, (float *)images->array.data + i * qg_count(shape) },
                             .y    = label,
                             .step = i,
                             .n    = shape.n };
        status = step(what, t, optim, &b, trace);
    }
    free(label);
    return status;
}

int train_steps(int argc, char **argv, original_training what)
{
    if (argc < ARGUMENTS) {
        fprintf(stderr, "usage: .. BATCHES START [TRACE]\n");
        return 2;
    }
    qg_archive *batches = qg_archive_open(argv[1]);
    qg_params  *params  = qg_net_build(what.net);
    qg_optim   *optim   = params ? what.optim(params) : NULL;
    qg_tape    *tape    = qg_tape_new();
    const bool  failed  = !batches || !optim || !tape || qg_net_load(what.net, argv[2]) ||
                          steps(&what, tape, optim, batches, argc > ARGUMENTS ? argv[3] : NULL);
    qg_tape_free(tape);
    qg_optim_free(optim);
    qg_net_free(what.net);
    qg_archive_free(batches);
    return failed ? qg_print_error("training") : 0;
}
