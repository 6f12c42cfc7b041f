#include "tests/support/coded.h"

#include "tests/support/testing.h"

const tested_scheme tested_weights[TESTED_WEIGHTS] = {
    { NULL, "", false },
    { &qg__twn_scheme, "", true },
    { &qg__twn_scheme, "per-channel=yes", true },
    { &qg__ste_tern_scheme, "", true },
    { &qg__ttq_scheme, "start=weights", true },
    { &qg__ttq_scheme, "", true },                      /* both scales are 1 */
    { &qg__ttq_scheme, "start=weights,per-channel=yes", true },
    { &qg__binary_scheme, "", true },
    { &qg__binary_channel_scheme, "", true },
    { &qg__xnor_scheme, "", true },
    { &qg__magnitude_aware_scheme, "", true },
    { &qg__binaryconnect_scheme, "", true },
    { &qg__binaryconnect_scheme, "eval=float", false },
    { &qg__bnn_scheme, "", true },
    { &qg__bop_scheme, "", true },
    { &qg__dorefa_weight_scheme, "bits=1", true },
    { &qg__dorefa_weight_scheme, "bits=2", true },
    { &qg__dorefa_weight_scheme, "bits=4,per-channel=yes", true },
    { &qg__dorefa_weight_scheme, "bits=7", true },
    { &qg__dorefa_weight_scheme, "bits=16", false },
    { &qg__lsq_scheme, "bits=2", true },
    { &qg__lsq_scheme, "bits=4", true },
    { &qg__lsq_scheme, "bits=8", true },
    { &qg__unit_scheme, "bits=1", true },
    { &qg__unit_scheme, "bits=2", true },
    { &qg__unit_scheme, "bits=3,zero=no", true },
    { &qg__unit_scheme, "bits=8", true },
    { &qg__fake_quant_scheme, "range=current", true },
    { &qg__fake_quant_scheme, "range=current,bits=3,per-channel=yes", true },
    { &qg__fake_quant_scheme, "range=learned,bits=5", true },
    { &qg__fake_quant_scheme, "range=learned,bits=4,per-channel=yes", true },
    { &qg__fake_quant_scheme, "range=observed,per-channel=yes", true },
    { &qg__fake_quant_scheme, "range=fixed,min=-0.2,max=0.3,bits=3,narrow-range=yes", true },
    { &qg__qdq_scheme, "bits=4", true },
    { &qg__qdq_scheme, "bits=3,per-channel=yes,narrow-range=yes", true },
    { &qg__qdq_scheme, "range=given,min=-0.2,max=0.3", true },
    { &qg__fake_quant_scheme, "range=learned,per-channel=yes,narrow-range=yes", true },
    { &qg__fake_quant_scheme, "range=observed,bits=2,per-channel=yes", true },
    { &qg__fake_quant_scheme, "range=learned,bits=9,per-channel=yes", false },      /* 512 codes */
    { &qg__dorefa_weight_scheme, "bits=3,scale=max", true },
    { &qg__lsq_scheme, "bits=3,per-channel=yes", true },
    { &qg__irnet_scheme, "", true },
    { &qg__adabin_scheme, "", true },
    { &qg__recu_scheme, "", true },
};

const tested_scheme tested_inputs[TESTED_INPUTS] = {
    { NULL, "", false },
    { &qg__sign_scheme, "", true },
    { &qg__xnor_activation_scheme, "", true },
    { &qg__xnor_activation_scheme, "scale=off", true },
    { &qg__dorefa_activation_scheme, "bits=1", true },
    { &qg__dorefa_activation_scheme, "bits=2", true },
    { &qg__dorefa_activation_scheme, "bits=4,ties=up", true },
    { &qg__dorefa_activation_scheme, "bits=8", true },
    { &qg__dorefa_activation_scheme, "bits=10", false },
    { &qg__dorefa_activation_scheme, "bits=32", false },
    { &qg__lsq_scheme, "bits=2", true },
    { &qg__lsq_scheme, "bits=3,signed=yes", true },
    { &qg__lsq_scheme, "bits=8", true },
    { &qg__pact_scheme, "bits=4,alpha=1.1", true },
    { &qg__linear_scheme, "bits=3,max-value=1.3", true },
    { &qg__unit_scheme, "bits=2", true },
    { &qg__unit_scheme, "bits=3,zero=yes", true },
    { &qg__unit_scheme, "bits=5", true },
    { &qg__fake_quant_scheme, "range=learned,bits=4", true },
    { &qg__fake_quant_scheme, "range=observed", true },
    { &qg__fake_quant_scheme, "range=fixed,min=-1,max=0.5,bits=3", true },
    { &qg__fake_quant_scheme, "range=observed,per-channel=yes,bits=4", false },
    { &qg__qdq_scheme, "range=given,signed=no,max=1,bits=3", true },
    { &qg__qdq_scheme, "range=given,min=-1,max=1", true },
    { &qg__adabin_input_scheme, "", false },            /* two levels, which are floats */
};

qg_quant tested_quant(const tested_scheme *e, qg_role role)
{
    qg_quant q = { 0 };
    if (e->scheme) assert_ok(qg_scheme_parse(e->scheme, role, *e->arguments ? e->arguments : NULL, &q));
    return q;
}
