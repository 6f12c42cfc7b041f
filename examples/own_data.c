/* Trains on images that the program has in memory: noise with a brighter line in one of four
 * directions, which is the class.
 *
 *     build/examples/own_data [EPOCHS] */
#include <stdlib.h>

#include "qgrad.h"

enum { TRAIN = 1000, TEST = 200, SIDE = 12, CLASSES = 4 };

static uint8_t  image[TRAIN + TEST][SIDE][SIDE];
static uint16_t label[TRAIN + TEST];

static void draw_images(void)
{
    for (int i = 0; i < TRAIN + TEST; i++) {
        const uint64_t key  = qg_rng_fork(1, (uint64_t)i);
        const int      line = (int)(qg_bits(key, SIDE * SIDE) % SIDE);
        label[i]            = (uint16_t)(i % CLASSES);
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                const int along[] = { x, y, (x + y) % SIDE, (x - y + SIDE) % SIDE };
                const int noise   = (int)(qg_bits(key, (uint64_t)(y * SIDE + x)) % 128);
                image[i][y][x]    = (uint8_t)(along[label[i]] == line ? noise + 100 : noise);
            }
    }
}

int main(int argc, char **argv)
{
    const int epochs = argc > 1 ? atoi(argv[1]) : 3;
    draw_images();
    qg_loader *train = qg_arrays((qg_shape){ TRAIN, SIDE, SIDE, 1 }, image[0][0], label, CLASSES,
                                 (qg_loader_spec){ .batch = 50, .seed = 7 });
    qg_loader *test  = qg_arrays((qg_shape){ TEST, SIDE, SIDE, 1 }, image[TRAIN][0], label + TRAIN,
                                 CLASSES, (qg_loader_spec){ .batch = 50, .in_order = true });
    qg_net    *net   = qg_net_from_text("16C3-BN-R-16C3-BN-R-GAP-4", (qg_model_spec){
                           .height = SIDE, .width = SIDE, .channels = 1, .seed = 7,
                           .weight = qg_twn((qg_twn_spec){ 0 }) });
    qg_optim  *adam  = qg_adam(qg_net_build(net), (qg_adam_spec){ .lr = 0.01f });
    qg_tape   *tape  = qg_tape_new();
    qg_assessment a;
    if (!train || !test || !adam || !tape) return qg_print_error("own_data");

    for (int epoch = 0; epoch < epochs; epoch++)
        for (qg_batch b; qg_loader_next(train, &b);) {
            qg_tape_begin(tape, QG_TRAIN, 7, b.step);
            qg_var *loss = qg_cross_entropy(tape, qg_net_forward(net, tape, b.x), b.y);
            if (qg_backward(tape, loss) || qg_optim_step(adam)) return qg_print_error("own_data");
        }
    if (qg_evaluate(net, test, (qg_evaluate_spec){ 0 }, &a)) return qg_print_error("own_data");
    printf("test accuracy %.2f %%\n", 100 * a.accuracy);
    qg_assessment_free(&a), qg_tape_free(tape), qg_optim_free(adam), qg_net_free(net);
    qg_loader_free(test), qg_loader_free(train);
    return 0;
}
