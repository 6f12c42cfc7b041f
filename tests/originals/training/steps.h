/* tests/originals/training/steps.h — the first steps of a training that another program did as well. */
#ifndef STEPS_H
#define STEPS_H

#include "qgrad.h"

/* What is trained, and how. */
typedef struct original_training {
    qg_net    *net;                         /* declared, not built; train_steps frees it */
    qg_optim *(*optim)(qg_params *p);
    qg_var   *(*loss)(qg_tape *t, qg_var *scores, const uint16_t *labels);
} original_training;

/* The rest of a program whose last arguments are
 *
 *     BATCHES START [TRACE]
 *
 * two safetensors files and a folder.  BATCHES has "images" [steps][n][h][w][c], floats as the net reads
 * them, and "labels" [steps][n], bytes.  START has what the net holds at first: every parameter and every
 * tracked array.  Prints the loss of each step, before its update, one per line.  TRACE, if given, gets two
 * files per step, counted from 0: N.values.safetensors has what each op gave, as "var.INDEX.OP", and what
 * the net holds before the update; N.gradients.safetensors has the gradient of each parameter under its
 * name.  Returns the exit status of the program. */
int train_steps(int argc, char **argv, original_training what);

#endif
