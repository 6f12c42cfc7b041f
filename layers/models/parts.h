/* layers/models/parts.h — what recipes know of models beyond models.h (internal). */
#ifndef QG_MODEL_PARTS_H
#define QG_MODEL_PARTS_H

#include "layers/models/models.h"

extern const char *const qg__model_keys[QG_MODEL_KEYS];     /* the names of options: "width" */

/* Whether one of these is a scheme with which models keep their first and last layer in float (qg_scheme.float_ends). */
bool      qg__model_keeps_ends(qg_quant weight, qg_quant input, qg_quant gradient);

/* Checks that text is a net, as qg_net_from_text does. */
QG_MUST_CHECK
qg_status qg__net_text_check(const char *text);

/* Declares the net of a text. */
qg_net   *qg__net_from_text(const char *text, const qg_model_spec *spec);

#endif
