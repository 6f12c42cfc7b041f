/* The residual nets for CIFAR-10: 3 stages of n blocks with 16, 32, 64 channels, 6 n + 2 layers
 * with weights, and two more if shortcuts are learned. */
#include <stdio.h>
#include <string.h>

#include "layers/models/parts.h"

/* Adds to text, as printf. */
#define ADD(text, ...) \
    snprintf((text) + strlen(text), QG_MODEL_TEXT_BYTES - strlen(text), __VA_ARGS__)

static const char *shortcut_of(const qg_model_spec *s)
{
    static const char *const names[] = { "A", "pool", "B" };
    return names[(int)s->option[QG_MODEL_SHORTCUT]];
}

/* conv3 - bn - act - conv3 - bn, plus the shortcut, - act.             [1512.03385v1, fig. 2] */
static void post(const qg_model_spec *s, int n, char *text)
{
    qg__model_text(text, "16C3b0-BN-Q-%d*({16C3b0-BN-R-16C3b0-BN}-Q)", n);
    for (int c = 32; c <= 64; c *= 2)
        ADD(text, "-%s:{%dC3s2b0-BN-R-%dC3b0-BN}-Q-%d*({%dC3b0-BN-R-%dC3b0-BN}-Q)", shortcut_of(s),
            c, c, n - 1, c, c);
    ADD(text, "-GAP-%d", s->classes);
}

/* bn - act - conv3 - bn - act - conv3, plus the shortcut.               [1603.05027v3, fig. 1]
 * The shortcut of the very first block, and every 1x1 convolution, begins after bn - act; the others
 * carry the sum itself. */
static void pre(const qg_model_spec *s, int n, char *text)
{
    const bool learned = s->option[QG_MODEL_SHORTCUT] == QG_SHORTCUT_B;
    qg__model_text(text, "16C3b0-BN-Q-{16C3b0-BN-R-16C3b0}-%d*{BN-Q-16C3b0-BN-R-16C3b0}", n - 1);
    for (int c = 32; c <= 64; c *= 2)
        ADD(text, "-%s%s:{%s%dC3s2b0-BN-R-%dC3b0}-%d*{BN-Q-%dC3b0-BN-R-%dC3b0}",
            learned ? "BN-Q-" : "", shortcut_of(s), learned ? "" : "BN-Q-", c, c, n - 1, c, c);
    ADD(text, "-BN-Q-GAP-%d", s->classes);
}

/* act - conv3 - bn, plus a shortcut around each convolution, which carries the real-valued sum.       [1808.00278, fig. 4]
 * One-bit ResNet-20 is this net in IR-Net, ReCU and AdaBin, which have another activation after each sum. */
static void bireal(const qg_model_spec *s, int n, char *text)
{
    qg__model_text(text, "16C3b0-BN-%d*{R-16C3b0-BN}", 2 * n);
    for (int c = 32; c <= 64; c *= 2)
        ADD(text, "-%s:{R-%dC3s2b0-BN}-%d*{R-%dC3b0-BN}", shortcut_of(s), c, 2 * n - 1, c);
    ADD(text, "-GAP-%d", s->classes);
}

static void net(const qg_model_spec *s, int n, char *text)
{
    static void (*const orders[])(const qg_model_spec *, int, char *) = { post, pre, bireal };
    orders[(int)s->option[QG_MODEL_ORDER]](s, n, text);
}

static void net20(const qg_model_spec *s, char *text) { net(s, 3, text); }
static void net32(const qg_model_spec *s, char *text) { net(s, 5, text); }
static void net44(const qg_model_spec *s, char *text) { net(s, 7, text); }
static void net56(const qg_model_spec *s, char *text) { net(s, 9, text); }

static const qg_key keys[] = {
    { .name = "order", .words = "post|pre|bireal" },          /* qg_residual_order */
    { .name = "shortcut", .words = "A|pool|B" },        /* qg_shortcut_kind */
    { .name = NULL }
};

/* Section 4.2 of the paper: 64,000 iterations of 128 images, the rate divided by ten after 32,000 and
 * 48,000. */
#define MODEL(depth)                                                                               \
    {                                                                                              \
        .name   = "resnet" #depth,                                                                 \
        .about  = "ResNet-" #depth " for 32x32 images, 16-32-64 channels (He et al., arXiv:1512.03385)", \
        .recipe = "epochs = 164\n"                                                                 \
                  "batch = 128\n"                                                                  \
                  "optimizer = \"sgd\"\n"                                                          \
                  "lr = 0.1\n"                                                                     \
                  "momentum = 0.9\n"                                                               \
                  "weight-decay = 1e-4\n"                                                          \
                  "schedule = \"step:at=0.5+0.75,factor=0.1\"\n"                                   \
                  "loss = \"cross-entropy\"\n",                                                    \
        .image  = QG_CIFAR_IMAGE,                                                                  \
        .keys   = keys,                                                                            \
        .text = net##depth                                                                  \
    }

const qg_model qg__model_resnet20 = MODEL(20);
const qg_model qg__model_resnet32 = MODEL(32);
const qg_model qg__model_resnet44 = MODEL(44);
const qg_model qg__model_resnet56 = MODEL(56);
