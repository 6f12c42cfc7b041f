/* layers/models/finn.h — the nets of FINN, as Brevitas trains them (bnn_pynq). */
#ifndef QG_FINN_H
#define QG_FINN_H

#include "layers/models/models.h"

extern const qg_model qg_model_tfc, qg_model_sfc, qg_model_lfc, qg_model_cnv;

#endif
