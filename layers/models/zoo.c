/* The models: the nets of the papers as text (layers/models/text.h), with the trainings of their sources. */
#include <stdio.h>
#include <string.h>

#include "core/io/number.h"
#include "layers/models/parts.h"

/* Trainings as text for --config. */
#define RECIPE(epochs, batch, optimizer, schedule, loss) \
    "epochs = " #epochs "\nbatch = " #batch "\n" optimizer \
    "schedule = \"" schedule "\"\nloss = \"" loss "\"\n"
#define SGD(rate)          "optimizer = \"sgd\"\nlr = " #rate "\nmomentum = 0.9\nweight-decay = 1e-4\n"
#define ADAM(rate)         "optimizer = \"adam\"\nlr = " #rate "\n"
#define DECAYED(optimizer) optimizer "weight-decay = 1e-5\n"

/* Of XNOR-Net's replications. */
#define XNOR \
    "weight = \"xnor:as=paper,latent=centred\"\ninput = \"xnor:scale=off\"\nfirst-last = \"float\"\n"

static const qg_key width_keys[] = { { .name = "width", .fallback = 1, .min = 0.0625, .max = 4 }, { .name = NULL } };

/* --- LeNet-5 as the ternary papers draw it, and as XNOR-Net was replicated ------------------- */

#define LENET5 "32C5p0-BN-R-MP2-64C5p0-BN-R-MP2-512FC-BN-R-"

/* The authors' solver: 30,000 iterations of 50 images, the rate divided by ten after 15,000 and 25,000 of
 * them.  The paper has an SVM loss, the released code a softmax; this is the code's. */
static const qg_model lenet5 = {
    .name   = "lenet5",
    .about  = LENET5 "10 (TWN, arXiv:1605.04711)",
    .recipe = RECIPE(25, 50, SGD(0.01), "step:at=0.5+0.83333,factor=0.1", "cross-entropy"),
    .image  = { 1, 28, 28, 1 },
    .net    = LENET5 "$",
};

/* Every binary block is bn - sign - product - relu, so that the batch norm comes after the pooling.
 * The replication keeps gamma at 0.01 or more; here it is free. */
#define LENET5_XNOR \
    "20C5p0-BN(eps=1e-4,no-scale,no-shift)-R-MP2-BN(eps=1e-4)-50C5p0-R-MP2-BN(eps=1e-4)-500FC-R-"

/* XNOR-Net-PyTorch, MNIST: the rate divided by ten every 15 epochs.  The paper has no MNIST. */
static const qg_model lenet5_xnor = {
    .name   = "lenet5-xnor",
    .about  = LENET5_XNOR "10, binary (XNOR-Net-PyTorch)",
    .recipe = RECIPE(60, 128, DECAYED(ADAM(0.01)), "step:every=0.25,factor=0.1", "cross-entropy") XNOR,
    .image  = { 1, 28, 28, 1 },
    .net    = LENET5_XNOR "$",
};

/* --- the multilayer perceptron of BinaryConnect and BNN -------------------------------------- */

/* Adds to text, as printf. */
#define ADD(text, ...) snprintf((text) + strlen(text), QG_MODEL_TEXT_BYTES - strlen(text), __VA_ARGS__)

#define MLP_NORM "BN(eps=1e-4,momentum=0.15)"

/* "D0.2", joined to its neighbour; nothing for a rate that is 0 as a float. */
static void add_dropout(char *text, const char *before, double rate, const char *after)
{
    char number[QG_NUMBER_BYTES];
    qg__number_print_float(number, (float)rate);
    if ((float)rate != 0) ADD(text, "%sD%s%s", before, number, after);
}

/* Dense - batch norm - relu, depth times, then dense - batch norm.  A binary input replaces the relu,
 * which makes it BNN's net. */
static void mlp_text(const qg_model_spec *s, char *text)
{
    add_dropout(text, "", s->option[QG_MODEL_INPUT_DROPOUT], "-");
    ADD(text, "%d*(%dFC-" MLP_NORM "-R", (int)s->option[QG_MODEL_DEPTH], (int)s->option[QG_MODEL_WIDTH]);
    add_dropout(text, "-", s->option[QG_MODEL_DROPOUT], "");
    ADD(text, ")-%d-" MLP_NORM, s->classes);
}

static const qg_key mlp_keys[] = {
    { .name = "depth", .fallback = 3, .min = 1, .max = 16, .is = QG_KEY_WHOLE },
    { .name = "width", .fallback = 2048, .min = 1, .max = 65536, .is = QG_KEY_WHOLE },
    { .name = "dropout", .max = 0.99 },
    { .name = "input-dropout", .max = 0.99 },
    { .name = NULL }
};

/* As the authors' released code; the paper has 3x1024 and SGD.  Train it with
 * --weight binaryconnect:draw=stoch,start=unit,glorot-lr=adam. */
static const qg_model mlp = {
    .name   = "mlp",
    .about  = "dense layers, 3x2048 by default, batch norm after each, the last included (BinaryConnect, arXiv:1511.00363)",
    .recipe = RECIPE(250, 100, ADAM(0.001), "exponential:factor=0.003", "squared-hinge"),
    .image  = { 1, 28, 28, 1 },
    .keys   = mlp_keys,
    .text   = mlp_text,
};

/* --- VGG-7 and VGG-Small, the CIFAR-10 nets of the ternary and binary papers ----------------- */

#define VGG "2*($128C3-BN-R)-MP2-2*($256C3-BN-R)-MP2-2*($512C3-BN-R)-MP2"

/* TWN's table 1.  A third party reports that 0.1 gave dead outputs and 0.01 trained. */
static const qg_model vgg7 = {
    .name   = "vgg7",
    .about  = "VGG-7: three times two 3x3 convolutions and a pool, 128-256-512 channels; dense layers of 1024 and 10 (TWN, arXiv:1605.04711)",
    .recipe = RECIPE(160, 100, SGD(0.1), "step:at=0.5+0.75,factor=0.1", "cross-entropy"),
    .image  = { 1, 32, 32, 3 },
    .keys   = width_keys,
    .net    = VGG "-$1024FC-BN-R-$",
};

/* The training that IR-Net's authors released for ResNet-20; for this net they report only the result. */
static const qg_model vgg_small = {
    .name   = "vgg-small",
    .about  = "vgg7 without its hidden dense layer (IR-Net, arXiv:1909.10788)",
    .recipe = RECIPE(400, 128, SGD(0.1), "cosine", "cross-entropy"),
    .image  = { 1, 32, 32, 3 },
    .keys   = width_keys,
    .net    = VGG "-$",
};

/* --- residual nets for CIFAR-10 --------------------------------------------------------------- */

/* Section 4.2 of the paper: 64,000 iterations of 128 images, the rate divided by ten after 32,000 and
 * 48,000. */
#define RESNET_RECIPE RECIPE(164, 128, SGD(0.1), "step:at=0.5+0.75,factor=0.1", "cross-entropy")

static const char *shortcut_of(const qg_model_spec *s)
{
    static const char *const names[] = { "A", "pool", "B" };
    return names[(int)s->option[QG_MODEL_SHORTCUT]];
}

/* conv3 - bn - act - conv3 - bn, plus the shortcut, - act.             [1512.03385v1, fig. 2] */
static void post(const qg_model_spec *s, int n, char *text)
{
    ADD(text, "16C3b0-BN-Q-%d*({16C3b0-BN-R-16C3b0-BN}-Q)", n);
    for (int c = 32; c <= 64; c *= 2)
        ADD(text, "-%s:{%dC3s2b0-BN-R-%dC3b0-BN}-Q-%d*({%dC3b0-BN-R-%dC3b0-BN}-Q)", shortcut_of(s),
            c, c, n - 1, c, c);
}

/* bn - act - conv3 - bn - act - conv3, plus the shortcut.               [1603.05027v3, fig. 1]
 * The shortcut of the very first block, and every 1x1 convolution, begins after bn - act; the others
 * carry the sum itself. */
static void pre(const qg_model_spec *s, int n, char *text)
{
    const bool learned = s->option[QG_MODEL_SHORTCUT] == QG_SHORTCUT_B;
    ADD(text, "16C3b0-BN-Q-{16C3b0-BN-R-16C3b0}-%d*{BN-Q-16C3b0-BN-R-16C3b0}", n - 1);
    for (int c = 32; c <= 64; c *= 2)
        ADD(text, "-%s%s:{%s%dC3s2b0-BN-R-%dC3b0}-%d*{BN-Q-%dC3b0-BN-R-%dC3b0}",
            learned ? "BN-Q-" : "", shortcut_of(s), learned ? "" : "BN-Q-", c, c, n - 1, c, c);
    ADD(text, "-BN-Q");
}

/* act - conv3 - bn, plus a shortcut around each convolution, which carries the real-valued sum.
 *                                                                       [1808.00278, fig. 4]
 * One-bit ResNet-20 is this net in IR-Net, ReCU and AdaBin, which have another activation after each sum. */
static void bireal(const qg_model_spec *s, int n, char *text)
{
    ADD(text, "16C3b0-BN-%d*{R-16C3b0-BN}", 2 * n);
    for (int c = 32; c <= 64; c *= 2)
        ADD(text, "-%s:{R-%dC3s2b0-BN}-%d*{R-%dC3b0-BN}", shortcut_of(s), c, 2 * n - 1, c);
}

/* 3 stages of n blocks with 16, 32, 64 channels: 6 n + 2 layers with weights, two more if shortcuts are learned. */
static void resnet(const qg_model_spec *s, int n, char *text)
{
    static void (*const orders[])(const qg_model_spec *, int, char *) = { post, pre, bireal };
    orders[(int)s->option[QG_MODEL_ORDER]](s, n, text);
    ADD(text, "-GAP-%d", s->classes);
}

static void resnet20_text(const qg_model_spec *s, char *text) { resnet(s, 3, text); }
static void resnet32_text(const qg_model_spec *s, char *text) { resnet(s, 5, text); }
static void resnet44_text(const qg_model_spec *s, char *text) { resnet(s, 7, text); }
static void resnet56_text(const qg_model_spec *s, char *text) { resnet(s, 9, text); }

static const qg_key resnet_keys[] = {
    { .name = "order", .words = "post|pre|bireal" },          /* qg_residual_order */
    { .name = "shortcut", .words = "A|pool|B" },        /* qg_shortcut_kind */
    { .name = NULL }
};

#define RESNET(depth) \
    .name = "resnet" #depth, \
    .about = "ResNet-" #depth " for 32x32 images, 16-32-64 channels (He et al., arXiv:1512.03385)", \
    .recipe = RESNET_RECIPE, .image = { 1, 32, 32, 3 }, .keys = resnet_keys, .text = resnet##depth##_text

static const qg_model resnet20 = { RESNET(20) }, resnet32 = { RESNET(32) }, resnet44 = { RESNET(44) },
                      resnet56 = { RESNET(56) };

/* --- residual nets for ImageNet ---------------------------------------------------------------- */

/* A 3x3 convolution without pooling takes the place of their first layers. */

/* Two blocks of two convolutions; the first halves the size, and a 1x1 convolution is its shortcut. */
#define STAGE(c) "-{$" #c "C3s2-BN-R-$" #c "C3-BN}:B-R-{$" #c "C3-BN-R-$" #c "C3-BN}-R"

/* The paper's training for CIFAR-10; it has this net for ImageNet only. */
static const qg_model resnet18 = {
    .name   = "resnet18",
    .about  = "ResNet-18 for 32x32 images, 64-128-256-512 channels, 1x1 shortcuts (He et al., arXiv:1512.03385v1, table 1)",
    .recipe = RESNET_RECIPE,
    .image  = { 1, 32, 32, 3 },
    .keys   = width_keys,
    .net    = "$64C3-BN-R-2*({$64C3-BN-R-$64C3-BN}-R)" STAGE(128) STAGE(256) STAGE(512) "-GAP-$",
};

/* Every convolution has its own shortcut, which carries the real-valued sum: sign - conv - bn, plus the
 * shortcut.  Where the size halves, the shortcut is means of 2x2 pixels, a real-valued 1x1 convolution and a
 * batch norm.  The relu is the nonlinearity of the same net without an input quantizer; the sign replaces it. */
#define BIREAL_STAGE(c) "-{R-$" #c "C3s2-BN}:poolB-3*{R-$" #c "C3-BN}"

#define REAL(layer) "\"" layer ":weight=float\", \"" layer ":input=float\""

/* The training that the authors released for ImageNet (pytorch_implementation/BiReal18_34), with their
 * piecewise polynomial surrogate.  The weights of the first layer, the last one and the shortcuts are real. */
static const qg_model birealnet18 = {
    .name   = "birealnet18",
    .about  = "ResNet-18 with one real-valued shortcut per convolution, binary by default (Bi-Real Net, arXiv:1808.00278)",
    .recipe = RECIPE(256, 512, ADAM(0.001), "linear", "cross-entropy")
              "label-smoothing = 0.1\n"
              "weight = \"magnitude-aware:as=paper\"\n"
              "input = \"sign:surrogate=approx-sign\"\n"
              "first-last = \"float\"\n"
              "layer = [" REAL("shortcut1") ", " REAL("shortcut2") ", " REAL("shortcut3") "]\n",
    .image  = { 1, 32, 32, 3 },
    .keys   = width_keys,
    .net    = "$64C3-BN-4*{R-$64C3-BN}" BIREAL_STAGE(128) BIREAL_STAGE(256) BIREAL_STAGE(512) "-GAP-$",
};

/* --- MobileNet: depthwise 3x3 and pointwise 1x1 convolutions in turn ------------------------- */

#define SAME(c)   "DW3-BN-R-$" #c "C1-BN-R"
#define HALVED(c) "DW3s2-BN-R-$" #c "C1-BN-R"

/* The first convolution and the first block keep the size of the image, which the paper's halve.  The paper
 * trains on ImageNet, with RMSprop. */
static const qg_model mobilenet = {
    .name   = "mobilenet",
    .about  = "MobileNet for 32x32 images: 13 blocks of DW3 and C1, 64 to 1024 channels (arXiv:1704.04861v1, table 1)",
    .recipe = RESNET_RECIPE,
    .image  = { 1, 32, 32, 3 },
    .keys   = width_keys,
    .net    = "$32C3-BN-R-" SAME(64) "-" HALVED(128) "-" SAME(128) "-" HALVED(256) "-" SAME(256)
              "-" HALVED(512) "-5*(" SAME(512) ")-" HALVED(1024) "-" SAME(1024) "-GAP-$",
};

/* --- Network in Network as XNOR-Net was replicated: XNOR-Net-PyTorch, CIFAR_10/models/nin.py ---- */

#define NORM  "BN(eps=1e-4)-"
#define PLAIN "BN(eps=1e-4,no-scale,no-shift)-"

/* Every binary block is bn - sign - convolution - relu, with a dropout after the sign where the image has just
 * shrunk.  The replication keeps gamma at 0.01 or more and draws weights with deviation 0.05; neither is so
 * here.  CIFAR_10/main.py: the rate divided by ten at epochs 120, 200, 240 and 280. */
static const qg_model nin = {
    .name   = "nin",
    .about  = "Network in Network: nine convolutions of 192-160-96, 192-192-192 and 192-192-10 channels, binary by default (XNOR-Net-PyTorch)",
    .recipe = RECIPE(320, 128, DECAYED(ADAM(0.01)), "step:at=0.375+0.625+0.75+0.875,factor=0.1",
                     "cross-entropy") XNOR,
    .image  = { 1, 32, 32, 3 },
    .net    = "192C5-" PLAIN "R-" NORM "160C1-R-" NORM "96C1-R-MP3s2p1-"
              NORM "D0.5-192C5-R-" NORM "192C1-R-" NORM "192C1-R-AP3s2p1-"
              NORM "D0.5-192C3-R-" NORM "192C1-R-" PLAIN "$C1-R-GAP",
};

/* --- the nets of FINN as Brevitas trains them (bnn_pynq) -------------------------------------- */

/* Weights and activations are -1 and +1, or 2 bits on [-1, 1].  TFC, SFC and LFC quantize the image, as 2 x - 1,
 * like any other input; CNV's recipe gives it 8 bits.  A norm with one scale and one shift for all classes
 * follows the last product, so integers suffice to find the largest score. */
#define FINN_IMAGE  "AF(scale=2,shift=-1)-"
#define FINN_SCORES "$FCb0-BN(whole,eps=1e-4)"

/* 1W1A; the rate is halved every 40 of 1,000 epochs.  With 2 bits anywhere there are 500 epochs, and every is
 * 0.08. */
#define FINN_RECIPE \
    RECIPE(1000, 100, ADAM(0.02), "step:every=0.04,factor=0.5", "squared-hinge") \
    "first-last = \"quantized\"\nweight = \"unit:as=paper,bits=1\"\ninput = \"unit:bits=1\"\n"

#define FINN_DENSE(n) \
    .about = "three hidden dense layers of " #n ", dropout 0.2, image quantized too, binary by default (BNN-PYNQ)", \
    .recipe = FINN_RECIPE, .image = { 1, 28, 28, 1 }, \
    .net = "IQ-" FINN_IMAGE "3*(D0.2-" #n "FCb0-BN-R)-D0.2-" FINN_SCORES

static const qg_model tfc = { .name = "tfc", FINN_DENSE(64) }, sfc = { .name = "sfc", FINN_DENSE(256) },
                      lfc = { .name = "lfc", FINN_DENSE(1024) };

#define FINN_CONV(n) "2*(" #n "C3p0b0-BN(eps=1e-4)-R)-"

/* Six convolutions without padding.  The source pools after the quantizer.  Quantizing keeps the order, so the
 * values are the same here, but the gradient goes to the largest number and not to the first of equal codes.
 * The image has steps of 1/128: 8 bits from -1 to 1 - 1/128. */
static const qg_model cnv = {
    .name   = "cnv",
    .about  = "two 3x3 convolutions each of 64, 128 and 256 channels without padding, two dense layers of 512, image in 8 bits, the rest binary (BNN-PYNQ)",
    .recipe = FINN_RECIPE "layer = [\"conv1:input=fake_quant:bits=8,range=fixed,min=-1,max=0.9921875\"]\n",
    .image  = { 1, 32, 32, 3 },
    .net    = FINN_IMAGE FINN_CONV(64) "MP2k-" FINN_CONV(128) "MP2k-" FINN_CONV(256)
              "2*(512FCb0-BN(eps=1e-4)-R)-" FINN_SCORES,
};

const qg_model *const qg_models[] = {
    &lenet5,   &lenet5_xnor, &mlp,         &vgg7,      &vgg_small, &resnet20, &resnet32, &resnet44, &resnet56,
    &resnet18, &birealnet18, &mobilenet,   &nin,       &tfc,       &sfc,      &lfc,      &cnv,      NULL,
};
