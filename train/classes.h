/* train/classes.h — what the classes of a net are called.  Internal. */
#ifndef QG_CLASSES_H
#define QG_CLASSES_H

#include "core/status.h"

typedef struct qg__class_names {
    int          n;
    const char **name;          /* [n], UTF-8 that is safe to print */
    char        *text;          /* of all names */
} qg__class_names;                  /* {0} is empty */

/* The names of n classes: those in noted, which a checkpoint has as "class-names" ("cat/dog"), or else, and if it is NULL or
 * has another number of names, the numbers of the classes.  data is the name of the data set or NULL: numbers of classes
 * of CIFAR-10, Fashion-MNIST and the sample become the words that their authors use.  Fails with QG_EMEM. */
QG_MUST_CHECK
qg_status qg__class_names_begin(qg__class_names *c, const char *noted, const char *data, int n);

void      qg__class_names_end(qg__class_names *c);

#endif
