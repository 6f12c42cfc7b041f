/* Test-time augmentation: the accuracy of scores that are averaged over views of each image. */
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "datasets/augment.h"
#include "datasets/dataset.h"
#include "train/measure.h"

/* Unchanged, and moved by a pixel; the weight of the view, and of its mirror image. */
static const struct {
    int   by;
    float weight;
} views[] = { { 0, 0.25f }, { -1, 0.125f }, { 1, 0.125f } };

enum { VIEWS = 2 * sizeof views / sizeof *views };

/* View v of the images of a batch, to room [n][h][w][c]. */
static qg_tensor view_of(qg_tensor x, int v, float *room)
{
    const qg_shape s  = x.shape;
    const int      by = views[v / 2].by;
    for (int i = 0; i < s.n; i++) {
        const size_t    at    = (size_t)i * qg_row(s);
        const qg__image image = { .floats = x.data + at, .shape = { 1, s.h, s.w, s.c } };
        qg__shift(&image, QG_BORDER_REFLECT, by, by, v % 2, room + at);
    }
    x.data = room;
    return x;
}

qg_status qg__measure_views(const qg_fit_spec *spec, qg_loader *images, qg_net *net, qg_tape *tape, uint64_t steps,
                            double *accuracy)
{
    const uint64_t key     = qg_rng_fork(spec->seed, QG_STREAM_TAPE);
    const qg_shape all     = qg_loader_shape(images);
    const int      batch   = qg__loader_spec(images).batch;
    const size_t   most    = (size_t)(batch < all.n ? batch : all.n);
    const size_t   classes = (size_t)qg_loader_classes(images);
    float         *room    = malloc(most * qg_row(all) * sizeof *room);
    float         *sum     = malloc(most * classes * sizeof *sum);
    uint64_t       correct = 0, epoch, at, read = 0;
    qg_status      status  = room && sum ? QG_OK : qg_fail(QG_EMEM, "out of memory for %zu images", most);
    qg_loader_tell(images, &epoch, &at);
    for (qg_batch b; !status && qg__read_batch(images, epoch, read, &b); read++) {
        const size_t n = (size_t)b.x.shape.n * classes;
        qg_var       mean = { .data = NULL };
        memset(sum, 0, n * sizeof *sum);
        for (int v = 0; v < VIEWS && !status; v++) {
            qg_tape_begin(tape, QG_EVAL, key, steps);
            const qg_var *scores = qg_net_forward(net, tape, view_of(b.x, v, room));
            if (!scores) status = qg_tape_status(tape);
            for (size_t i = 0; !status && i < n; i++) sum[i] += views[v / 2].weight * scores->data[i];
            if (!status) mean = *scores;
        }
        mean.data = sum;
        if (!status) correct += (uint64_t)qg_count_correct(&mean, b.y);
    }
    if (!status) status = qg_loader_status(images);
    const qg_status back = qg_loader_seek(images, epoch, at);
    if (!status) status = back;
    *accuracy = (double)correct / all.n;
    free(room), free(sum);
    return status;
}
