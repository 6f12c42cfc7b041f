/* Loads a run and classifies image files.
 *
 *     build/qgrad train --recipe demo --data sample --out runs/clothes
 *     build/examples/predict runs/clothes coat.png bag.jpg */
#include <stdlib.h>

#include "qgrad.h"

int main(int argc, char **argv)
{
    qg_run        *run    = qg_run_open(argc > 1 ? argv[1] : "runs/clothes", QG_RUN_BEST);
    const qg_shape image  = run ? qg_run_image(run) : (qg_shape){ 0 };
    const int      n      = run ? qg_run_classes(run) : 0;
    uint8_t       *bytes  = malloc(qg_row(image) + 1);
    float         *scores = calloc((size_t)n + 1, sizeof *scores);
    int            status = run && bytes && scores ? 0 : qg_print_error("predict");
    for (int i = 2; i < argc && !status; i++) {
        int best = 0;
        if (qg_image_read(argv[i], image, bytes, NULL) || qg_run_predict(run, 1, bytes, scores))
            status = qg_print_error("predict");
        for (int k = 1; k < n && !status; k++) best = scores[k] > scores[best] ? k : best;
        if (!status) printf("%s: %s\n", argv[i], qg_run_class(run, best));
    }
    free(scores), free(bytes), qg_run_close(run);
    return status;
}
