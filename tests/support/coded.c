#include "tests/support/coded.h"

#include "tests/support/testing.h"

const tested_scheme tested_weights[TESTED_WEIGHTS] = {
    { NULL, "", false },
    { &qg_twn_scheme, "", true },
    { &qg_twn_scheme, "per-channel=yes", true },
    { &qg_ste_tern_scheme, "", true },
    { &qg_ttq_scheme, "start=weights", true },
    { &qg_ttq_scheme, "", true },                       /* both scales are 1 */
    { &qg_ttq_scheme, "start=weights,per-channel=yes", true },
    { &qg_binary_scheme, "", true },
    { &qg_binary_channel_scheme, "", true },
    { &qg_xnor_scheme, "", true },
    { &qg_magnitude_aware_scheme, "", true },
    { &qg_binaryconnect_scheme, "", true },
    { &qg_binaryconnect_scheme, "eval=float", false },
    { &qg_bnn_scheme, "", true },
    { &qg_bop_scheme, "", true },
    { &qg_dorefa_weight_scheme, "bits=1", true },
    { &qg_dorefa_weight_scheme, "bits=2", true },
    { &qg_dorefa_weight_scheme, "bits=4,per-channel=yes", true },
    { &qg_dorefa_weight_scheme, "bits=7", true },
    { &qg_dorefa_weight_scheme, "bits=16", false },
    { &qg_lsq_scheme, "bits=2", true },
    { &qg_lsq_scheme, "bits=4", true },
    { &qg_lsq_scheme, "bits=8", true },
    { &qg_unit_scheme, "bits=1", true },
    { &qg_unit_scheme, "bits=2", true },
    { &qg_unit_scheme, "bits=3,zero=no", true },
    { &qg_unit_scheme, "bits=8", true },
    { &qg_fake_quant_scheme, "range=current", true },
    { &qg_fake_quant_scheme, "range=current,bits=3,per-channel=yes", true },
    { &qg_fake_quant_scheme, "range=learned,bits=5", true },
    { &qg_fake_quant_scheme, "range=learned,bits=4,per-channel=yes", true },
    { &qg_fake_quant_scheme, "range=observed,per-channel=yes", true },
    { &qg_fake_quant_scheme, "range=fixed,min=-0.2,max=0.3,bits=3,narrow-range=yes", true },
    { &qg_qdq_scheme, "bits=4", true },
    { &qg_qdq_scheme, "bits=3,per-channel=yes,narrow-range=yes", true },
    { &qg_qdq_scheme, "range=given,min=-0.2,max=0.3", true },
    { &qg_fake_quant_scheme, "range=learned,per-channel=yes,narrow-range=yes", true },
    { &qg_fake_quant_scheme, "range=observed,bits=2,per-channel=yes", true },
    { &qg_fake_quant_scheme, "range=learned,bits=9,per-channel=yes", false },       /* 512 codes */
};

const tested_scheme tested_inputs[TESTED_INPUTS] = {
    { NULL, "", false },
    { &qg_sign_scheme, "", true },
    { &qg_xnor_activation_scheme, "", true },
    { &qg_xnor_activation_scheme, "scale=off", true },
    { &qg_dorefa_activation_scheme, "bits=1", true },
    { &qg_dorefa_activation_scheme, "bits=2", true },
    { &qg_dorefa_activation_scheme, "bits=4,ties=up", true },
    { &qg_dorefa_activation_scheme, "bits=8", true },
    { &qg_dorefa_activation_scheme, "bits=10", false },
    { &qg_dorefa_activation_scheme, "bits=32", false },
    { &qg_lsq_scheme, "bits=2", true },
    { &qg_lsq_scheme, "bits=3,signed=yes", true },
    { &qg_lsq_scheme, "bits=8", true },
    { &qg_pact_scheme, "bits=4,alpha=1.1", true },
    { &qg_linear_scheme, "bits=3,max-value=1.3", true },
    { &qg_unit_scheme, "bits=2", true },
    { &qg_unit_scheme, "bits=3,zero=yes", true },
    { &qg_unit_scheme, "bits=5", true },
    { &qg_fake_quant_scheme, "range=learned,bits=4", true },
    { &qg_fake_quant_scheme, "range=observed", true },
    { &qg_fake_quant_scheme, "range=fixed,min=-1,max=0.5,bits=3", true },
    { &qg_fake_quant_scheme, "range=observed,per-channel=yes,bits=4", false },
    { &qg_qdq_scheme, "range=given,signed=no,max=1,bits=3", true },
    { &qg_qdq_scheme, "range=given,min=-1,max=1", true },
};

qg_quant tested_quant(const tested_scheme *e, qg_role role)
{
    qg_quant q = { 0 };
    if (e->scheme) assert_ok(qg_scheme_parse(e->scheme, role, *e->arguments ? e->arguments : NULL, &q));
    return q;
}
