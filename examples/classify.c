/* Classifies an image with the net of finetune.c, which it declares and whose weights it loads.
 *
 *     build/examples/finetune
 *     build/examples/classify [runs/three/best.safetensors examples/digits/7.png] */
#include <stdlib.h>
#include <string.h>

#include "qgrad.h"

int main(int argc, char **argv)
{
    const char    *file = argc == 3 ? argv[1] : "runs/three/best.safetensors",
                  *image = argc == 3 ? argv[2] : "examples/digits/7.png";
    qg_archive    *a = qg_archive_open(file);
    qg_preprocess *p = a ? qg_preprocess_open(file) : NULL;
    const qg_shape s = qg_preprocess_shape(p);                  /* of the images that it was trained on */
    const char    *classes = p ? qg_archive_noted(a, "classes") : NULL,
                  *name = p ? qg_archive_noted(a, "class-names") : NULL;
    qg_net        *n = !classes ? NULL : qg_model_declare(qg_model_find("lenet5"), (qg_model_spec){
                           .height = s.h, .width = s.w, .channels = s.c, .classes = atoi(classes) });
    qg_tape       *t = qg_tape_new();
    float         *x = malloc(qg_row(s) * sizeof *x);
    if (!qg_net_build(n) || qg_net_load(n, file) || qg_preprocess_image(p, image, x))
        return qg_print_error("classify");
    qg_tape_begin(t, QG_EVAL, 0, UINT64_MAX);                   /* long after any delay */
    qg_var *y = qg_net_forward(n, t, (qg_tensor){ .shape = s, .data = x });
    int     k = 0;
    for (int i = 1; y && i < y->shape.c; i++) k = y->data[i] > y->data[k] ? i : k;
    for (int i = 0; name && i < k; i++) {                       /* the k-th of "0/1/7" */
        name = strchr(name, '/');
        if (name) name++;
    }
    name ? printf("%.*s\n", (int)strcspn(name, "/"), name) : printf("%d\n", k);
    free(x), qg_tape_free(t), qg_net_free(n), qg_preprocess_free(p), qg_archive_free(a);
    return y ? 0 : qg_print_error("classify");
}
