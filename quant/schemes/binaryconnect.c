/* Weights of -1 and +1 without a scale: BinaryConnect and BNN. */
#include <math.h>

#include "quant/kernels.h"
#include "quant/reduce.h"
#include "quant/schemes/formulas.h"

enum { STOCHASTIC, FLOAT_EVAL, UNIT_START, GLOROT_LR, SCALED };     /* in arg; BNN has the last three alone */

static double arg_of(qg_quant q, int i) { return q.arg[q.scheme == &qg__bnn_scheme ? i - UNIT_START : i]; }

#define START_KEYS                                                                                        \
    { .name = "start", .words = "net|unit", .about = "unit: stretch the initial weights to fill [-1, 1]" }, \
    { .name = "glorot-lr", .words = "off|adam|sgd", .about = "scale the learning rate of the weights by Glorot's factor" }, \
    QG__SCALED_KEY

static const qg_key keys[] = {
    QG_AS_KEY,
    { .name = "draw", .words = "det|stoch", .about = "in training: the sign, or +1 with probability (w + 1) / 2" },
    { .name = "eval", .words = "sign|float", .about = "in evaluation: the sign, or the latent weights" },
    START_KEYS,
    QG_SURROGATE_KEYS(QG_SURROGATE_IDENTITY),
    { .name = NULL }
};

static const qg_key bnn_keys[] = { QG_AS_KEY, START_KEYS, QG_SURROGATE_KEYS(QG_SURROGATE_CLIP), { .name = NULL } };

/* --- draws ------------------------------------------------------------------------------------ */

struct draws {
    const float          *x;
    float                *y;
    uint64_t              key;
    const qg__noise_kernels *kernels;
};

static void draw_block(void *context, size_t at, size_t n)
{
    const struct draws *k = context;
    k->kernels->stochastic_sign(n, k->x + at, k->key, at, k->y + at);
}

void qg__stochastic_signs(size_t n, const float *x, uint64_t key, float *y)
{
    struct draws k = { x, y, key, QG_KERNELS(qg__noise) };
    qg__in_blocks(n, QG_BLOCK, draw_block, &k);
}

/* --- what both have ---------------------------------------------------------------------------- */

static void start(qg_quant q, qg_tensor x, float *const *learned)
{
    if (arg_of(q, UNIT_START) != 0) qg__stretch_to_unit(x);
}

/* The released code counts the fans of a convolution the same way. */
static float lr_scale(qg_quant q, double fan_in, double fan_out)
{
    const double rule = arg_of(q, GLOROT_LR), squared = (fan_in + fan_out) / 1.5;
    if (rule == QG_GLOROT_OFF) return 0;
    return (float)(rule == QG_GLOROT_ADAM ? sqrt(squared) : squared);
}

static qg_mix mix(qg_quant q, qg_span w, const qg_constants *k, const double *sum)
{
    return qg__relative_mix(arg_of(q, SCALED) != 0, w);
}

static double surrogate(qg_quant q, size_t i, const qg_point *at, const qg_point *to)
{
    return qg__relative_surrogate(arg_of(q, SCALED) != 0, q, i, at, to);
}

#define SCHEME                                                                                                   \
    .about = "{-1, +1}, latent weights in [-1, 1]", .paper = "gradient=plain", .start = start,                   \
    .lr_scale = lr_scale, .mix = mix, .surrogate = surrogate, .roles = QG_WEIGHT, .float_ends = true,            \
    .scales = QG_UNSCALED, .clip = 1.0f, .form = &qg_sign_form, .ops = QG_FORM_OPS("sign_weight"),               \
    .constants = qg__unit_signs

/* --- BinaryConnect ---------------------------------------------------------------------------- */

static qg_var *apply(qg_tape *t, const qg_binding *b, qg_var *x, qg_var *const *learned)
{
    const bool train = qg_tape_mode(t) == QG_TRAIN;
    if (!train && b->q.arg[FLOAT_EVAL] != 0) return x;
    qg_var *y = qg__form_apply(t, b, x, learned);
    if (y && train && b->q.arg[STOCHASTIC] != 0) qg__stochastic_signs(qg_count(x->shape), x->data, qg_tape_key(t), y->data);
    return y;
}

static qg_status encode(qg_quant q, qg_tensor x, const float *const *learned, qg_codes *out)
{
    if (q.arg[FLOAT_EVAL] != 0) return qg_fail(QG_EARG, "%s: float_eval has no codes", q.scheme->name);
    return qg__form_encode(q, x, learned, out);
}

static const char *advice(qg_quant q)
{
    if (q.arg[STOCHASTIC] == 0 || q.arg[UNIT_START] != 0) return NULL;
    return "small initial weights make each draw a coin toss; add start=unit and glorot-lr=adam, or glorot-lr=sgd";
}

static qg_quant complete(qg_quant q)
{
    q.bits = q.arg[FLOAT_EVAL] != 0 ? QG_FLOAT_BITS : 1;
    return q;
}

const qg_scheme qg__binaryconnect_scheme = {
    SCHEME,
    .name     = "binaryconnect",
    .keys     = keys,
    .complete = complete,
    .advice   = advice,
    .own      = qg__straight_through,
    .apply    = apply,
    .encode   = encode,
    .explain =
        "Weights of -1 and +1.             Courbariaux, Bengio, David 2015, arXiv:1511.00363\n"
        "\n"
        "    draw=det       q(w) = +1 if w >= 0, else -1\n"
        "    draw=stoch     q(w) = +1 with probability clip((w + 1) / 2, 0, 1), else -1\n"
        "                   one draw per element, from key and step; evaluation uses the sign\n"
        "    s(w) = w                                the gradient passes unchanged\n"
        "    after each step w is clipped to [-1, 1]\n"
        "\n"
        "Learns nothing.  dw is divided by mean|w|, else SGD would move the latent weights too slowly;\n"
        "gradient=plain (plain_gradient) omits this, as the paper and as=paper (as_paper) do.\n"
        "As in the authors' code, start=unit (unit_start) makes the initial weights uniform in [-1, 1],\n"
        "and glorot-lr=adam (glorot_lr) multiplies the learning rate of the weights by s = 1 / sqrt(1.5 /\n"
        "(fan in + fan out)), glorot-lr=sgd by s^2.  With draw=stoch small initial weights are coin\n"
        "flips, and it needs both.\n"
        "Models keep first and last layers in float unless --first-last quantized.\n"
        "Other implementations: the released code evaluates stochastic nets with the latent weights, as\n"
        "eval=float (float_eval) does: not a binary net.\n",
};

qg_quant qg_binaryconnect(qg_binaryconnect_spec spec)
{
    return qg_quant_defaults((qg_quant){ .scheme    = &qg__binaryconnect_scheme,
                                         .surrogate = spec.surrogate,
                                         .as_paper  = spec.as_paper,
                                         .arg       = { [STOCHASTIC] = (int)spec.draw,
                                                        [FLOAT_EVAL] = spec.float_eval,
                                                        [UNIT_START] = spec.unit_start,
                                                        [GLOROT_LR]  = (int)spec.glorot_lr,
                                                        [SCALED]     = !spec.plain_gradient } });
}

/* --- BNN -------------------------------------------------------------------------------------- */

const qg_scheme qg__bnn_scheme = {
    SCHEME,
    .name = "bnn",
    .keys = bnn_keys,
    .bits = 1,
    .own  = qg__clip_at_1,
    .explain =
        "Weights of -1 and +1 as in BNN.          Courbariaux, Hubara et al. 2016, arXiv:1602.02830v3\n"
        "\n"
        "    q(w) = +1 if w >= 0, else -1\n"
        "    s(w) = clip(w, -1, 1)                   dw = dq where |w| <= 1, else 0\n"
        "    after each step w is clipped to [-1, 1], so the mask is 1 from then on\n"
        "\n"
        "Learns nothing.  dw is divided by mean|w|, else SGD would move the latent weights too slowly;\n"
        "gradient=plain (plain_gradient) omits this, as as=paper (as_paper) does.  start=unit\n"
        "(unit_start) and glorot-lr (glorot_lr) are those of binaryconnect.  The paper's activations are\n"
        "the scheme sign.\n"
        "Models keep first and last layers in float unless --first-last quantized.\n",
};

qg_quant qg_bnn(qg_bnn_spec spec)
{
    return qg_quant_defaults((qg_quant){ .scheme    = &qg__bnn_scheme,
                                         .surrogate = spec.surrogate,
                                         .as_paper  = spec.as_paper,
                                         .arg       = { spec.unit_start, (int)spec.glorot_lr, !spec.plain_gradient } });
}
