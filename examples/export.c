/* Exports the best net of a run as a packed file, and runs it with the engine on the test images.
 * The scores have the same bits as those of the library.
 *
 *     build/qgrad train --model lenet5 --data sample --weight twn --epochs 2 --out runs/clothes
 *     build/examples/export [runs/clothes [clothes.qg]] */
#include <stdlib.h>
#include <string.h>

#include "infer/infer.h"
#include "qgrad.h"

int main(int argc, char **argv)
{
    qg_run              *run  = qg_run_open(argc > 1 ? argv[1] : "runs/clothes", QG_RUN_BEST);
    const char          *to   = argc > 2 ? argv[2] : "clothes.qg";
    qg_net              *net  = run ? qg_run_net(run) : NULL;
    qg_run_export        of;
    unsigned char       *file;
    size_t               bytes, room;
    if (!net || qg_run_export_of(run, &of) || qg_export(net, to, of.spec) ||
        qg_export_bytes(net, of.spec, &file, &bytes))
        return qg_print_error("export");

    const qg_infer *engine = NULL;
    qg_infer_status s      = qg_infer_size(file, bytes, &room);
    void           *memory = s ? NULL : aligned_alloc(64, room);
    if (!s) s = qg_infer_load(file, bytes, memory, room, &engine);
    if (s) return fprintf(stderr, "export: %s: %s\n", to, qg_infer_message(s)), 1;

    const size_t pixels  = qg_row(qg_run_image(run)), classes = (size_t)qg_infer_scores(engine);
    const size_t n       = qg_infer_context_bytes(engine, 1);
    float       *scores  = malloc(classes * sizeof *scores);
    void        *context = aligned_alloc(64, n);
    qg_tape     *tape    = qg_tape_new();
    qg_loader   *test    = qg_run_test(run, (qg_run_test_spec){ 0 });
    int          images  = 0, equal = 0;
    if (!scores || !context || !tape || !test) return qg_print_error("export");
    for (qg_batch b; qg_loader_next(test, &b); images += b.n) {
        qg_tape_begin(tape, QG_EVAL, 0, qg_run_steps(run));
        const qg_var *y = qg_net_forward(net, tape, b.x);
        if (!y) return qg_print_error("export");
        for (size_t i = 0; i < (size_t)b.n; i++) {
            s = qg_infer_run(engine, 1, b.x.data + i * pixels, scores, context, n);
            if (s) return fprintf(stderr, "export: %s\n", qg_infer_message(s)), 1;
            equal += !memcmp(scores, y->data + i * classes, classes * sizeof *scores);
        }
    }
    printf("%s: %zu bytes, %zu as floats; equal scores for %d of %d images\n", to, bytes,
           qg_net_float_bytes(net), equal, images);
    free(context), free(scores), free(memory), free(file);
    qg_loader_free(test), qg_tape_free(tape), qg_run_close(run);
    return 0;
}
