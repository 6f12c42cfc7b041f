/* cli/config: what a configuration may contain, and its one spelling. */
#include "tests/support/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/config/config.h"
#include "train/recipe_keys.h"
#include "core/io/json_write.h"
#include "core/io/paths.h"
#include "train/metrics.h"
#include "cli/config/models.h"
#include "cli/config/schemes.h"
#include "layers/layer.h"
#include "tests/support/comma.h"
#include "tests/support/heap.h"
#include "tests/support/room.h"

static qg_status resolve(const qg_recipe *asked, const qg_recipe *stored, qg_recipe *out)
{
    return qg__recipe_resolve(asked, NULL, false, stored, out);
}

static void assert_prints(const qg_recipe *c, const char *expected)
{
    char *text = qg__recipe_print(c, 0);
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

/* The text reads as a configuration whose file is expected. */
static void assert_reads(const char *text, const char *expected)
{
    qg_recipe c = { 0 };
    if (qg__recipe_parse(&c, text, "f")) fail_msg("%s: %s", text, qg_errmsg());
    char *file = qg__recipe_print(&c, 0);
    if (!file || strcmp(file, expected)) fail_msg("%s: reads as '%s', not '%s'", text, file ? file : "", expected);
    free(file);
    qg__recipe_clear(&c);
}

static void assert_refused(const char *text, const char *message)
{
    qg_recipe       c      = { 0 };
    const qg_status status = qg__recipe_parse(&c, text, "f");
    if (status != QG_EARG) fail_msg("%s: status %d", text, (int)status);
    if (!strstr(qg_errmsg(), message)) fail_msg("%s: '%s' is not in '%s'", text, message, qg_errmsg());
    qg__recipe_clear(&c);
}

static void test_values_have_one_spelling(void **state)
{
    assert_reads("lr = 1e-3", "lr = 0.001\n");
    assert_reads("lr=+0.10", "lr = 0.1\n");
    assert_reads("epochs = 07", "epochs = 7\n");
    assert_reads("seed = 9007199254740991", "seed = 9007199254740991\n");
    assert_reads("weight = 'twn:threshold=0.70'", "weight = \"twn\"\n");
    assert_reads("weight = \"twn:threshold=5e-1\"", "weight = \"twn:threshold=0.5\"\n");
    assert_reads("input = \"sign:surrogate=clip\"", "input = \"sign\"\n");
    assert_reads("nesterov = true", "nesterov = true\n");
}

static void test_order_blanks_and_comments_do_not_matter(void **state)
{
    const char *expected = "model = \"lenet5\"\nbatch = 3\nlr = 0.5\n";
    assert_reads("model = \"lenet5\"\nbatch = 3\nlr = 0.5\n", expected);
    assert_reads("# head\n\n\tlr =0.5 # half\r\n  batch= 3\nmodel=\"lenet5\"#", expected);
    assert_reads("", "");
}

static void test_strings_and_arrays(void **state)
{
    assert_reads("data-dir = \"a \\\"b\\\" \\\\ c # d\"", "data-dir = \"a \\\"b\\\" \\\\ c # d\"\n");
    assert_reads("data-dir = 'a \\ b'", "data-dir = \"a \\\\ b\"\n");
    assert_reads("layer = [ 'conv1:weight=float' , \"fc1:input=sign\", ]",
                 "layer = [\"conv1:weight=float\", \"fc1:input=sign\"]\n");
    assert_reads("layer = []", "");
    /* A number needs no quotes where a text may be one. */
    assert_reads("reported = 99.1", "reported = \"99.1\"\n");
    assert_reads("model = 10 # classes", "model = \"10\"\n");
    assert_reads("validation = 500", "validation = \"500\"\n");
}

static void test_what_is_no_configuration_is_refused_with_its_line(void **state)
{
    assert_refused("batch = 3\nbatch = 4", "f:2: batch is set twice");
    assert_refused("\n\nspeed = 3", "f:3: unknown key 'speed'; available: model, data,");
    assert_refused("json = true", "f:1: 'json' is an option of the command line, not a key");
    assert_refused("batch", "f:1: expected = after the key");
    assert_refused("batch =", "f:1: the value is missing");
    assert_refused("[net]", "f:1: expected key = value");
    assert_refused("batch = 3 4", "f:1: expected the end of the line");
    assert_refused("batch = \"3\"", "f:1: batch takes a value without quotes");
    assert_refused("model = lenet5", "f:1: model takes a string in quotes");
    assert_refused("reported = 99.1%", "f:1: reported takes a string in quotes");
    assert_refused("reported =", "f:1: the value is missing");
    assert_refused("lr = 0,002", "f:1: lr is '0,002' with a comma; write numbers with a point, as in 0.002");
    assert_refused("\nmomentum = 0,9 # of before", "f:2: momentum is '0,9' with a comma; write numbers with a point");
    assert_refused("reported = 99,1", "f:1: reported is '99,1' with a comma");
    assert_refused("batch = 10,", "f:1: batch is '10,' with a comma");
    assert_refused("model = 8C3(stride=2,pad=1)-10", "f:1: model takes a string in quotes");
    assert_refused("nesterov = true,", "f:1: nesterov 'true,' must be true or false");
    assert_refused("model = [\"lenet5\"]", "f:1: model takes a single value, not an array");
    assert_refused("layer = \"conv1:weight=float\"", "f:1: layer takes an array of strings");
    assert_refused("layer = [\"conv1:weight=float\" 'x']", "f:1: expected , or ] in the array");
    assert_refused("layer = [conv1]", "f:1: expected a string or ] in the array");
    assert_refused("model = \"lenet5", "f:1: unterminated string");
    assert_refused("model = \"lenet5\\n\"", "f:1: an escape sequence other than");
}

static void test_values_out_of_range_are_refused(void **state)
{
    assert_refused("batch = 0", "batch 0 is not in 1..65536");
    assert_refused("batch = 1.5", "batch '1.5' is not a whole number");
    assert_refused("batch = 3x", "batch '3x' is not a whole number");
    assert_refused("batch = '3'", "batch takes a value without quotes");
    assert_refused("quantize-after = 3x", "quantize-after: '3x' is not a whole number of steps, as in 1876, or of epochs, as in 2epochs");
    assert_refused("quantize-after = '2.5epochs'", "quantize-after: '2.5epochs' is not a whole number");
    assert_refused("quantize-after = 'epochs'", "quantize-after: 'epochs' is not a whole number");
    assert_refused("quantize-weights-after = -1", "quantize-weights-after: '-1' is not a whole number");
    assert_refused("freeze-batchnorm-after = '100001epochs'", "freeze-batchnorm-after: 100001epochs is not in 0..100000");
    assert_refused("lr = nan", "lr 'nan' is not a number");
    assert_refused("lr = inf", "lr 'inf' is not a number");
    assert_refused("lr = 1e999", "lr 1e999 is not in");
    assert_refused("lr = 0x10", "lr '0x10' is not a number");
    assert_refused("momentum = -0.5", "momentum -0.5 is not in 0..0.9999");
    assert_refused("nesterov = yes", "nesterov 'yes' must be true or false");
    assert_refused("optimizer = \"sdg\"", "optimizer 'sdg' is not one of sgd|adam|bop");
    assert_refused("optimizer = \"sgd|adam\"", "is not one of sgd|adam");
    assert_refused("model = \"lenet\"", "unknown model 'lenet'; available: lenet5");
    assert_refused("data = \"\"", "unknown data set ''; available: mnist, fashion-mnist, cifar10, cifar100, folder, arrays, sample");
    assert_refused("data-dir = \"\"", "data-dir: the value is empty");
    assert_refused("data-dir = \"a\tb\"", "data-dir: the value contains a control character");
}

static void test_images_have_one_spelling(void **state)
{
    assert_reads("augment = 'flip,pad=04'", "augment = \"pad=4,flip\"\n");
    assert_reads("augment = 'cutout=8,border=repeat,pad=2'", "augment = \"pad=2,border=repeat,cutout=8\"\n");
    assert_reads("augment = 'border=repeat,scale=0.10'", "augment = \"scale=0.1,border=repeat\"\n");
    assert_reads("augment = 'pad=2,border=zero'", "augment = \"pad=2\"\n");
    assert_reads("augment = 'none'", "augment = \"none\"\n");
    assert_reads("normalise = 'range:low=-1.0,high=1e0'", "normalise = \"range:low=-1,high=1\"\n");
    assert_reads("normalise = 'whiten'", "normalise = \"whiten\"\n");
    assert_reads("data = 'folder:032x16x3'", "data = \"folder:32x16x3\"\n");
    assert_refused("augment = ''", "unknown option ''; available: rotate, scale, pad, border, flip, cutout");
    assert_refused("augment = 'flip,'", "augmentation: unknown option ''");
    assert_refused("augment = 'none,flip'", "augmentation: unknown option 'none'");
    assert_refused("augment = 'pad=99999'", "augmentation: pad is 99999, not in 1..4096");
    assert_refused("augment = 'cutout=-1'", "augmentation: cutout is -1, not in 1..4096");
    assert_refused("augment = 'rotate=181'", "augmentation: rotate is 181, not in (0, 180]");
    assert_refused("augment = 'scale=0'", "augmentation: scale is 0, not in (0, 0.5]");
    assert_refused("augment = 'flip,border=repeat'", "border has no effect without rotate, scale or pad");
    assert_refused("augment = 'pad=1,pad=2'", "augmentation: pad is given twice");
    assert_refused("augment = 'flip,flip'", "augmentation: flip is given twice");
    assert_refused("augment = 'pad=1,border=zero,border=repeat'", "augmentation: border is given twice");
    assert_refused("augment = 'cutout=4,flip,cutout=4'", "augmentation: cutout is given twice");
    assert_refused("augment = 'flip=1'", "augmentation: flip takes no value");
    assert_refused("augment = 'pad'", "augmentation: pad needs a value");
    assert_reads("normalise = 'range:high=1,low=-0'", "normalise = \"range:low=0,high=1\"\n");
    assert_refused("normalise = 'range'", "range: low is missing: what byte 0 becomes");
    assert_refused("normalise = 'range:low=0'", "range: high is missing: what byte 255 becomes");
    assert_refused("normalise = 'range:low=nan,high=1'", "range: low 'nan' is not a number");
    assert_refused("normalise = 'range:low=1e39,high=1e40'", "range: low is 1e+39, which is too large");
    assert_refused("normalise = 'range:low=0,high=1,'", "range: unknown option ''; available: low, high");
    assert_refused("normalise = 'range:low=0x0,high=0x1'", "range: low '0x0' is not a number");
    assert_refused("normalise = 'range:low=1,high=1.00000000001'", "range: low is 1, not below high, 1");
    assert_refused("data = 'mnist:28x28x1'", "mnist: '28x28x1' is a value without its option, as in key=value");
    assert_refused("data = 'folder:0x32x3'", "folder: size is 0, not in 1..4096");
    assert_refused("data = 'folder:32x32x3x1'", "folder: size needs 3 numbers separated by x, not 4");
    assert_refused("data = 'folder:32x5.5x3'", "folder: size is 5.5, not a whole number");
    assert_refused("data = 'folder:'", "folder: size '' is not a number");
}

static void test_schemes_name_what_is_legal(void **state)
{
    assert_refused("weight = \"sign\"",
                   "sign is a scheme for inputs, not for weights; available: float, twn, binary,");
    assert_refused("input = \"twn\"", "twn is a scheme for weights, not for inputs; available: float, sign,");
    assert_refused("gradient = \"lsq\"",
                   "lsq is a scheme for weights, inputs, not for gradients; available: float, dorefa, stochastic");
    assert_refused("weight = \"four\"", "unknown scheme 'four' for weights; available: float, twn, binary,");
    assert_refused("weight = \"twn:\"", "twn: unknown option ''; available: as, threshold");
    assert_refused("weight = \"twn:treshold=1\"", "twn: unknown option 'treshold'; available: as, threshold");
    assert_refused("weight = \"twn:threshold\"", "threshold needs a value");
    assert_refused("weight = \"twn:threshold=x\"", "threshold 'x' is not a number");
    assert_refused("weight = \"twn:threshold=99\"", "threshold is 99, not in 0.01..10");
    assert_refused("weight = \"twn:threshold=\"", "threshold '' is not a number");
    assert_refused("weight = \"twn:threshold=0x1p-1\"", "twn: threshold '0x1p-1' is not a number");
    assert_refused("weight = \"twn:threshold= 1\"", "twn: threshold ' 1' is not a number");
    assert_refused("weight = \"twn:threshold=2,threshold=1\"", "twn: threshold is given twice");
    assert_refused("model = \"mlp:width=5,depth=1,width=5\"", "mlp: width is given twice");
    assert_refused("model = \"mlp:width=0x10\"", "mlp: width '0x10' is not a number");
    assert_refused("weight = \"float:x=1\"", "float has no options");
    assert_refused("input = \"sign:surrogate=clop\"", "'clop' is not one of identity|clip|approx-sign");
    assert_refused("layer = [\"conv1=float\"]", "is not LAYER:weight=SCHEME, LAYER:input=SCHEME or LAYER:gradient=SCHEME");
    assert_refused("layer = [\":weight=float\"]", "is not LAYER:weight=SCHEME");
    assert_refused("layer = [\"conv1:weigh=float\"]", "is not LAYER:weight=SCHEME");
}

static void test_a_scheme_becomes_its_quantizer(void **state)
{
    qg_quant q;
    assert_ok(qg_quant_parse("float", QG_WEIGHT, &q));
    assert_null(q.scheme);
    assert_ok(qg_quant_parse("binary-channel", QG_WEIGHT, &q));
    assert_true(q.per_channel);
    assert_int_equal(q.bits, 1);
    assert_ok(qg_quant_parse("twn:threshold=0.25", QG_WEIGHT, &q));
    const qg_quant twn = qg_twn((qg_twn_spec){ .threshold = 0.25f });
    assert_ptr_equal(q.scheme, twn.scheme);
    assert_memory_equal(q.arg, twn.arg, sizeof q.arg);
    assert_ok(qg_quant_parse("sign:surrogate=identity", QG_INPUT, &q));
    assert_ptr_equal(q.surrogate.slope, qg_surrogate_identity().slope);
}

/* Each scheme of the table has a spelling that reads back as the same scheme. */
static void test_every_scheme_has_one_spelling(void **state)
{
    scheme_text s;
    int         n = 0;
    for (; scheme_at(n, &s); n++)
        for (unsigned use = QG_WEIGHT; use <= QG_GRADIENT; use *= 2) {
            qg_quant q, again;
            char     once[QG_RECIPE_VALUE_BYTES], twice[QG_RECIPE_VALUE_BYTES];
            if (!(s.use & use)) continue;
            if (qg_quant_parse(s.spelling, use, &q)) fail_msg("%s: %s", s.spelling, qg_errmsg());
            qg_quant_print(q, once, sizeof once);
            if (qg_quant_parse(once, use, &again)) fail_msg("%s: %s", s.spelling, qg_errmsg());
            qg_quant_print(again, twice, sizeof twice);
            assert_string_equal(once, twice);
            assert_memory_equal(once, s.name, strlen(s.name));
            assert_ptr_equal(q.scheme, s.quant.scheme);
            assert_ptr_equal(q.scheme, again.scheme);
            assert_memory_equal(q.arg, again.arg, sizeof q.arg);
            if (!strcmp(s.name, "float")) assert_null(q.scheme);
            else assert_true(q.scheme->roles & use);
        }
    assert_true(n > 30);
    assert_reads("weight = 'dorefa'", "weight = \"dorefa:bits=2\"\n");
    assert_reads("weight = 'fake_quant:per-channel=yes'",
                 "weight = \"fake_quant:bits=8,range=learned,per-channel=yes\"\n");
    assert_reads("weight = 'fake_quant:range=current'", "weight = \"fake_quant:bits=8,range=current\"\n");
    assert_reads("input = 'fake_quant:range=learned,max=6,min=-6'",
                 "input = \"fake_quant:bits=8,range=learned,min=-6,max=6\"\n");
    assert_reads("input = 'fake_quant:percentile=99.90,range=percentile'",
                 "input = \"fake_quant:bits=8,range=percentile,percentile=99.9\"\n");
    assert_reads("input = 'pact:alpha=2e1,decay=0.0002'", "input = \"pact:bits=4,alpha=20\"\n");
    assert_reads("weight = 'ttq:t=0.1'", "weight = \"ttq:threshold=0.1\"\n");       /* older names */
    assert_reads("input = 'linear:max=3'", "input = \"linear:bits=2,max-value=3\"\n");
    assert_reads("weight = 'fake_quant:range=learned,narrow=yes'",
                 "weight = \"fake_quant:bits=8,range=learned,narrow-range=yes\"\n");
    assert_reads("input = 'fake_quant:gradient=scaled'", "input = \"fake_quant:bits=8,range=learned\"\n");
    assert_reads("input = 'fake_quant:gradient=sum'", "input = \"fake_quant:bits=8,range=learned,gradient=sum\"\n");
    assert_reads("gradient = 'dorefa:noise=off'", "gradient = \"dorefa:bits=6,noise=off\"\n");
}

static qg_quant parsed(const char *scheme, unsigned use)
{
    qg_quant q;
    if (qg_quant_parse(scheme, use, &q)) fail_msg("%s", qg_errmsg());
    return q;
}

static void assert_same_quant(const char *scheme, unsigned use, qg_quant expected)
{
    const qg_quant q = parsed(scheme, use);
    assert_ptr_equal(q.scheme, expected.scheme);
    assert_int_equal(q.bits, expected.bits);
    assert_int_equal(q.per_channel, expected.per_channel);
    assert_memory_equal(q.arg, expected.arg, sizeof q.arg);
    assert_ptr_equal(q.surrogate.slope, expected.surrogate.slope);
    assert_true(q.surrogate.arg == expected.surrogate.arg && q.surrogate.to == expected.surrogate.to);
}

/* What a run of version 1 wrote keeps its meaning, and is written again as it was; a file of one's own has today's defaults. */
static void test_texts_of_runs_keep_their_defaults(void **state)
{
    static const char old[] = "model = \"lenet5\"\nweight = \"ttq:threshold=0.1\"\ninput = \"unit:bits=2\"\n"
                              "layer = [\"conv1:weight=xnor\", \"fc2:weight=twn\"]\ndata-digest = \"0123456789abcdef\"\n";
    qg_recipe c = { 0 };
    assert_ok(qg__recipe_parse(&c, old, "f"));
    assert_int_equal(c.defaults, 1);
    assert_string_equal(qg__recipe_value(&c, "weight"), "ttq:as=paper,threshold=0.1");
    assert_string_equal(qg__recipe_value(&c, "input"), "unit:bits=2");
    assert_string_equal(qg__recipe_value(&c, "layer"), "conv1:weight=xnor:as=paper\nfc2:weight=twn");
    assert_same_quant("ttq:as=paper,threshold=0.1", QG_WEIGHT, qg_ttq((qg_ttq_spec){ .threshold = 0.1f, .as_paper = true }));
    char *again = qg__recipe_print(&c, 0);
    assert_string_equal(again, old);
    free(again), qg__recipe_clear(&c);

    assert_ok(qg__recipe_parse(&c, "model = \"lenet5\"\nweight = \"ttq\"\n", "f"));
    assert_string_equal(qg__recipe_value(&c, "weight"), "ttq");
    qg__recipe_clear(&c);
    static const char asked_for[] = "defaults = 1\nmodel = \"lenet5\"\nweight = \"ttq\"\n";
    assert_ok(qg__recipe_parse(&c, asked_for, "f"));
    assert_string_equal(qg__recipe_value(&c, "weight"), "ttq:as=paper");
    again = qg__recipe_print(&c, 0);
    assert_string_equal(again, asked_for);
    free(again), qg__recipe_clear(&c);

    /* asked of a run of version 1, a scheme is meant as when the run began */
    qg_recipe stored = { 0 }, asked = { 0 };
    assert_ok(qg__recipe_parse(&stored, old, "f"));
    assert_ok(qg__recipe_put(&asked, "weight", "ttq:threshold=0.1"));
    assert_ok(resolve(&asked, &stored, &c));
    assert_string_equal(qg__recipe_value(&c, "first-last"), "quantized");
    qg__recipe_clear(&c), qg__recipe_clear(&asked);
    assert_ok(qg__recipe_put(&asked, "weight", "ttq:threshold=0.2"));
    assert_int_equal(resolve(&asked, &stored, &c), QG_EARG);
    qg__recipe_clear(&c), qg__recipe_clear(&asked), qg__recipe_clear(&stored);
    assert_ok(qg__recipe_parse(&c, "  defaults = 1\nmodel = \"lenet5\"\nweight = \"ttq\"\n", "f"));
    assert_string_equal(qg__recipe_value(&c, "weight"), "ttq:as=paper");
    qg__recipe_clear(&c);

    /* fake_quant measured the range of a weight in each step, and learned that of an input */
    static const char range[] = "weight = \"fake_quant\"\ninput = \"fake_quant\"\nlayer = [\"fc1:weight=fake_quant:bits=4\"]\n";
    char              text[256];
    for (int version = 1; version <= 2; version++) {
        snprintf(text, sizeof text, "defaults = %d\nmodel = \"lenet5\"\n%s", version, range);
        assert_ok(qg__recipe_parse(&c, text, "f"));
        assert_string_equal(qg__recipe_value(&c, "weight"), version == 1 ? "fake_quant:bits=8,range=current"
                                                                    : "fake_quant:bits=8,range=learned");
        assert_string_equal(qg__recipe_value(&c, "input"), "fake_quant:bits=8,range=learned");
        assert_string_equal(qg__recipe_value(&c, "layer"), version == 1 ? "fc1:weight=fake_quant:bits=4,range=current"
                                                                   : "fc1:weight=fake_quant:bits=4,range=learned");
        qg__recipe_clear(&c);
    }
    assert_refused("defaults = 1\nweight = 'fake_quant:min=-6'", "fake_quant: min has no effect with range=current");
}

/* It may have defaults that this program does not know, so nothing of it is read as if it were older. */
static void test_texts_of_later_versions_are_refused(void **state)
{
    static const char *const later[] = {
        "defaults = 3\nweight = \"ttq\"\n",
        "weight = \"ttq\"\ndefaults = 3\n",
        "weight = \"ttq\"\ndata-digest = \"0123456789abcdef\"\n  defaults = 3\n",
    };
    for (int i = 0; i < 3; i++) {
        qg_recipe c = { 0 };
        assert_failed(qg__recipe_parse(&c, later[i], "f"), QG_EARG, "defaults 3 is not in 1..2");
        assert_int_equal(c.defaults, 0);
        if (i) assert_string_equal(qg__recipe_value(&c, "weight"), "ttq");
        qg__recipe_clear(&c);
    }
}

/* The canonical text of the current version omits what was no default in the run's. */
static void test_a_run_of_version_1_is_asked_for_in_the_words_of_its_time(void **state)
{
    static const char old[] = "defaults = 1\nmodel = \"lenet5\"\nweight = \"ttq:start=weights\"\n"
                              "layer = [\"conv1:weight=xnor:rule=identity\", \"fc2:weight=bnn\"]\n";
    static const struct {
        const char *file, *weight, *layer;
        bool        same;
    } asks[] = {
        { NULL, "ttq:start=weights", "conv1:weight=xnor:rule=identity", true },
        { NULL, "ttq:as=paper,start=weights", "fc2:weight=bnn", true },
        { NULL, "ttq:start=weights", "fc2:weight=bnn:gradient=plain", true },
        { NULL, "ttq", "fc2:weight=bnn", false },
        { NULL, "ttq:start=one", "fc2:weight=bnn", false },
        { NULL, "ttq:start=weights", "conv1:weight=xnor", false },
        { NULL, "ttq:start=weights", "fc2:weight=bnn:gradient=scaled", false },
        { "defaults = 1\nseed = 1\n", "ttq:start=weights", "fc2:weight=bnn", true },
        { "defaults = 2\nseed = 1\n", "ttq:as=paper,start=weights", "fc2:weight=bnn:as=paper", true },
        { "defaults = 2\nseed = 1\n", "ttq:start=weights", "fc2:weight=bnn:as=paper", false },
    };
    qg_recipe stored = { 0 };
    assert_ok(qg__recipe_parse(&stored, old, "f"));
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        qg_recipe asked = { 0 }, c = { 0 };
        if (asks[i].file) assert_ok(qg__recipe_parse(&asked, asks[i].file, "g"));
        qg__recipe_unset(&asked, "seed");
        assert_ok(qg__recipe_put(&asked, "weight", asks[i].weight));
        assert_ok(qg__recipe_put(&asked, "layer", asks[i].layer));
        assert_int_equal(resolve(&asked, &stored, &c), asks[i].same ? QG_OK : QG_EARG);
        if (asks[i].same) assert_int_equal(c.defaults, 1);
        qg__recipe_clear(&asked), qg__recipe_clear(&c);
    }
    qg__recipe_clear(&stored);
}

/* Models keep their ends in float where a scheme asks for it. */
static void test_schemes_decide_about_the_ends(void **state)
{
    static const char *const float_ends[] = { "weight = 'dorefa'", "weight = 'xnor'", "weight = 'bnn'", "weight = 'ste-tern'", "weight = 'twn'\ninput = 'dorefa'" };
    static const char *const quantized[] = { "weight = 'ttq'", "weight = 'twn'\ninput = 'sign'", "weight = 'dorefa'\nfirst-last = 'quantized'" };
    for (int i = 0; i < 8; i++) {
        char   text[128];
        qg_recipe asked = { 0 }, c = { 0 };
        snprintf(text, sizeof text, "model = 'lenet5'\n%s\n", i < 5 ? float_ends[i] : quantized[i - 5]);
        assert_ok(qg__recipe_parse(&asked, text, "f"));
        assert_ok(resolve(&asked, NULL, &c));
        assert_string_equal(qg__recipe_value(&c, "first-last"), i < 5 ? "float" : "quantized");
        qg__recipe_clear(&asked), qg__recipe_clear(&c);
    }
}

/* The ends that file, and then weight, leave. */
static void assert_ends(const char *file, const char *weight, const char *ends)
{
    qg_recipe asked = { 0 }, of = { 0 }, c = { 0 };
    assert_ok(qg__recipe_parse(&of, file, "f"));
    assert_ok(qg__recipe_put(&asked, "weight", weight));
    assert_ok(qg__recipe_resolve(&asked, &of, false, NULL, &c));
    if (strcmp(qg__recipe_value(&c, "first-last"), ends))
        fail_msg("%s over '%s': the ends are not %s", weight, file, ends);
    qg__recipe_clear(&asked), qg__recipe_clear(&of), qg__recipe_clear(&c);
}

/* What the file of a float run says about its ends decided nothing, and its user need not have chosen it. */
static void test_a_float_run_does_not_decide_about_the_ends(void **state)
{
    static const char run[]  = "defaults = 2\nmodel = 'lenet5'\ndata-digest = '0123456789abcdef'\n";
    static const char ends[] = "first-last = 'quantized'\n";
    char              text[256], again[512];
    snprintf(text, sizeof text, "%s%s", run, ends);
    assert_ends(text, "ste-tern", "float");
    assert_ends(text, "twn", "quantized");
    snprintf(again, sizeof again, "%slayer = ['conv2:weight=twn']\n", text);
    assert_ends(again, "ste-tern", "float");
    snprintf(again, sizeof again, "%sfirst-last = 'float'\n", run);
    assert_ends(again, "twn", "float");
    /* One with quantizers does, as does a file that a user has written, and the recipe of a model. */
    static const char *const decides[] = { "weight = 'twn'\n", "input = 'sign'\n", "gradient = 'dorefa'\n" };
    for (int i = 0; i < 3; i++) {
        snprintf(again, sizeof again, "%s%s", text, decides[i]);
        assert_ends(again, "ste-tern", "quantized");
    }
    assert_ends("model = 'lenet5'\nfirst-last = 'quantized'\n", "ste-tern", "quantized");
    assert_ends("model = 'tfc'\nweight = 'float'\ninput = 'float'\ndata-digest = '0123456789abcdef'\n"
                "first-last = 'quantized'\n", "ste-tern", "quantized");
    /* Version 1 quantized them for every scheme. */
    snprintf(again, sizeof again, "defaults = 1\n%s", text + strlen("defaults = 2\n"));
    assert_ends(again, "ste-tern", "quantized");
}

static void test_options_reach_the_constructors(void **state)
{
    const unsigned w = QG_WEIGHT, x = QG_INPUT, g = QG_GRADIENT;
    assert_same_quant("ste-tern", w, qg_ste_tern((qg_ste_tern_spec){ 0 }));
    assert_same_quant("ste-tern:relative=no,surrogate=swish", w,
                      qg_ste_tern((qg_ste_tern_spec){ .absolute = true, .surrogate = qg_surrogate_swish(5) }));
    assert_same_quant("ttq:threshold=0.1,rule=as-printed,start=one,decay=0.5,gradient=sum,straight=no,scale-lr=0.5,per-channel=yes", w,
                      qg_ttq((qg_ttq_spec){ .threshold          = 0.1f,
                                            .rule               = QG_TTQ_AS_PRINTED,
                                            .start_at_one       = true,
                                            .decay              = 0.5f,
                                            .summed_gradient    = true,
                                            .scaled_weights     = true,
                                            .scale_lr           = 0.5f,
                                            .per_channel        = true }));
    assert_same_quant("dorefa:bits=3,max=through", w,
                      qg_dorefa_weight((qg_dorefa_weight_spec){ .bits = 3, .through_max = true }));
    assert_same_quant("xnor:rule=authors-adam,surrogate=clip,surrogate-arg=2", w,
                      qg_xnor((qg_xnor_spec){ .rule = QG_XNOR_AUTHORS_ADAM, .surrogate = qg_surrogate_clip(2) }));
    assert_same_quant("binaryconnect:draw=stoch,eval=float,start=unit,glorot-lr=adam", w,
                      qg_binaryconnect((qg_binaryconnect_spec){ .draw = QG_DRAW_STOCHASTIC,
                                                                .float_eval = true,
                                                                .unit_start = true,
                                                                .glorot_lr  = QG_GLOROT_ADAM }));
    assert_same_quant("bnn:glorot-lr=sgd", w,
                      qg_bnn((qg_bnn_spec){ .glorot_lr = QG_GLOROT_SGD }));
    assert_same_quant("xnor:as=paper", w, qg_xnor((qg_xnor_spec){ .as_paper = true }));
    assert_same_quant("xnor:as=paper,rule=authors", w, qg_xnor((qg_xnor_spec){ .rule = QG_XNOR_AUTHORS, .as_paper = true }));
    assert_same_quant("ttq:as=paper", w, qg_ttq((qg_ttq_spec){ .as_paper = true }));
    assert_same_quant("ttq:as=paper,scale-lr=0.5", w, qg_ttq((qg_ttq_spec){ .scale_lr = 0.5f, .as_paper = true }));
    assert_same_quant("fake_quant:bits=4,range=observed,per-channel=yes,narrow-range=yes,decay=0.9,freeze-after=70",
                      w, qg_fake_quant((qg_fake_quant_spec){ .bits         = 4,
                                                             .range        = QG_RANGE_OBSERVED,
                                                             .per_channel  = true,
                                                             .narrow_range = true,
                                                             .decay        = 0.9f,
                                                             .freeze_after = 70 }));
    assert_same_quant("fake_quant:range=learned,gradient=sum", w, qg_fake_quant((qg_fake_quant_spec){ .sum_gradient = true }));
    assert_same_quant("fake_quant:range=fixed,min=-1,max=2", x,
                      qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_FIXED, .min = -1, .max = 2 }));
    assert_same_quant("lsq:bits=3", w, qg_lsq((qg_lsq_spec){ .bits = 3, .is_signed = true }));
    assert_same_quant("lsq:bits=3", x, qg_lsq((qg_lsq_spec){ .bits = 3 }));
    assert_same_quant("lsq:signed=yes", x, qg_lsq((qg_lsq_spec){ .bits = 2, .is_signed = true }));
    assert_same_quant("pact:bits=5,alpha=6,decay=0.25", x, qg_pact((qg_pact_spec){ .bits = 5, .alpha = 6, .decay = 0.25f }));
    assert_same_quant("linear:bits=1,max-value=1", x,
                      qg_linear((qg_linear_spec){ .bits = 1, .max_value = 1 }));
    assert_same_quant("xnor:scale=off", x,
                      qg_xnor_activation((qg_xnor_activation_spec){ .no_scale = true }));
    assert_same_quant("sign:surrogate=annealed-tanh", x,
                      qg_sign((qg_sign_spec){ qg_surrogate_annealed_tanh(0) }));
    assert_same_quant("dorefa:bits=8,ties=up", x,
                      qg_dorefa_activation((qg_dorefa_activation_spec){ .bits = 8, .ties_up = true }));
    assert_same_quant("qdq", w, qg_qdq((qg_qdq_spec){ .bits = 8 }));
    assert_same_quant("qdq:bits=4,signed=no,ties=up,per-channel=yes", x,
                      qg_qdq((qg_qdq_spec){ .bits = 4, .is_unsigned = true, .ties_up = true, .per_channel = true }));
    assert_same_quant("qdq:range=given", x, qg_qdq((qg_qdq_spec){ .range_given = true }));
    assert_same_quant("qdq:range=given,min=0,max=2,narrow-range=yes,surrogate=identity", w,
                      qg_qdq((qg_qdq_spec){ .range_given  = true,
                                            .max          = 2,
                                            .narrow_range = true,
                                            .surrogate    = qg_surrogate_identity() }));
    assert_same_quant("dorefa:bits=4,noise=off", g,
                      qg_dorefa_gradient((qg_dorefa_gradient_spec){ .bits = 4, .no_noise = true }));
    assert_same_quant("stochastic", g, qg_stochastic_gradient((qg_stochastic_gradient_spec){ 0 }));
    assert_same_quant("stochastic:bits=4,noise=off,percentile=99.99", g,
                      qg_stochastic_gradient((qg_stochastic_gradient_spec){ .bits       = 4,
                                                                            .no_noise   = true,
                                                                            .percentile = 99.99f }));
}

static void test_options_that_contradict_each_other_are_refused(void **state)
{
    assert_refused("weight = 'fake_quant:range=fixed,min=0,max=0'", "min is 0, not below max, 0");
    assert_refused("weight = 'fake_quant:range=learned,min=1,max=2'", "a learned range must include 0, but 1 .. 2 does not");
    assert_refused("weight = 'fake_quant:range=fixed,min=2,max=1'", "min is 2, not below max, 1");
    assert_refused("weight = 'fake_quant:range=fixed,per-channel=yes'", "does not support scales per channel");
    assert_refused("input = 'fake_quant:range=current'",
                   "range 'current' is not one of learned|observed|percentile|fixed");
    assert_refused("input = 'lsq:bits=1,signed=yes'", "bits is 1, must be 2 .. 16");
    assert_refused("weight = 'qdq:bits=1'", "qdq: bits is 1, must be 2 .. 16");
    assert_refused("input = 'qdq:range=given,min=2,max=1'", "min is 2, not below max, 1");
    assert_refused("input = 'qdq:range=given,signed=no,max=0'", "qdq: max is 0, so all unsigned codes are 0");
    assert_refused("input = 'qdq:range=given,min=-1e-38,max=1e-38'", "a range that float32 cannot scale to codes of 8 bits");
    assert_refused("input = 'dorefa:bits=17'", "bits is 17, not in 1..16 or 32");
    assert_refused("weight = 'dorefa:bits=2.5'", "bits is 2.5, not a whole number");
}

/* Even one that repeats a default: its author believes that it has an effect. */
static void test_an_option_without_effect_is_refused(void **state)
{
    assert_refused("weight = 'fake_quant:range=current,min=-6'", "fake_quant: min has no effect with range=current");
    assert_refused("input = 'fake_quant:range=observed,max=6'", "max has no effect with range=observed; it requires "
                                                                "range=learned|fixed");
    assert_refused("weight = 'fake_quant:range=current,narrow=no'", "narrow-range has no effect with range=current");
    assert_refused("weight = 'fake_quant:range=learned,freeze-after=0'", "it requires range=observed|percentile");
    assert_refused("weight = 'fake_quant:range=observed,gradient=scaled'", "gradient has no effect with range=observed; it requires "
                   "range=learned");
    assert_refused("weight = 'fake_quant:range=learned,decay=0.99'", "it requires range=observed|percentile");
    assert_refused("weight = 'fake_quant:range=observed,percentile=99.99'", "it requires range=percentile");
    assert_refused("weight = 'twn:surrogate-arg=2'", "surrogate-arg has no effect with surrogate=identity");
    assert_refused("weight = 'ttq:surrogate-arg=2'", "it requires surrogate=clip|swish|tanh");
    assert_refused("weight = 'dorefa:bits=1,max=constant'", "dorefa: max has no effect with bits=1; it requires");
    assert_refused("input = 'dorefa:ties=even,bits=32'", "ties has no effect with bits=32; it requires bits=1..16");
    assert_refused("weight = 'qdq:min=-1'", "qdq: min has no effect with range=measured; it requires range=given");
    assert_refused("weight = 'qdq:range=given,per-channel=yes'", "per-channel has no effect with range=given");
    assert_refused("weight = 'qdq:signed=no,narrow-range=yes'", "narrow-range has no effect with signed=no");
    assert_refused("weight = 'unit:bits=1,zero=yes'", "zero has no effect with bits=1");
}

static qg_net *net_of(const char *text, qg_recipe *c)
{
    qg_recipe asked = { 0 };
    if (qg__recipe_parse(&asked, text, "f") || resolve(&asked, NULL, c) || qg__recipe_check(c, false))
        fail_msg("%s: %s", text, qg_errmsg());
    qg__recipe_clear(&asked);
    qg_net *net = qg__recipe_net(c, (qg_shape){ 100, 16, 16, 1 }, 10);
    assert_non_null(net);
    return net;
}

/* 3 epochs of 100 images, 7 at a time, are 45 steps. */
static void test_the_run_sets_paces_and_delays(void **state)
{
    qg_recipe c = { 0 };
    qg_net *net = net_of("model = 'lenet5'\nepochs = 3\nbatch = 7\nquantize-after = 12\n"
                         "weight = 'bnn:surrogate=annealed-tanh'\ninput = 'sign:surrogate=annealed-tanh'\n"
                         "gradient = 'dorefa'\nfirst-last = 'quantized'\n"
                         "layer = ['fc2:input=sign:surrogate=tanh', 'fc2:gradient=float', 'fc1:input=float']\n",
                         &c);
    for (int i = 0; i < qg_net_layers(net); i++) {
        const qg_product *p = qg_layer_product(qg_net_layer(net, i));
        if (!p) continue;
        const char *name = p->layer.name;
        const bool  conv2 = !strcmp(name, "conv2"), fc2 = !strcmp(name, "fc2");
        assert_int_equal(p->weight_slot.q.surrogate.steps, 45);
        assert_int_equal(p->weight_slot.q.after, 0);
        assert_int_equal(p->input_slot.q.surrogate.steps, conv2 ? 45 : 0);
        assert_int_equal(p->input_slot.q.after, conv2 || fc2 ? 12 : 0);
        assert_true((p->gradient_slot.q.scheme != NULL) == !fc2);
    }
    qg_net_free(net);
    qg__recipe_clear(&c);
}

/* With another optimizer, options of the file's optimizer are dropped and all others kept. */
static void test_a_file_does_not_bind_another_optimizer(void **state)
{
    config      asked = { .recipe = NULL };
    const char *path  = scratch_file();
    FILE       *f     = fopen(path, "w");
    assert_non_null(f);
    fputs("model = 'lenet5'\noptimizer = 'sgd'\nlr = 0.5\nmomentum = 0.7\nbatch = 3\n", f);
    assert_int_equal(fclose(f), 0);
    assert_ok(config_set(&asked, "config", path));
    assert_ok(config_set(&asked, "optimizer", "bop"));
    assert_ok(config_read(&asked));
    assert_null(qg_recipe_get(asked.recipe, "momentum"));
    assert_string_equal(qg_recipe_get(asked.recipe, "lr"), "0.01");
    assert_string_equal(qg_recipe_get(asked.recipe, "gamma"), "0.0001");
    assert_string_equal(qg_recipe_get(asked.recipe, "threshold"), "1e-08");
    assert_string_equal(qg_recipe_get(asked.recipe, "batch"), "3");
    config_free(&asked);
}

/* Reads a configuration from a file with these bytes. */
static qg_status read_bytes(qg_recipe *c, const char *bytes, size_t n)
{
    const char *path = scratch_file();
    FILE       *f    = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return qg__recipe_read(c, path);
}

/* Editors that write a byte order mark do not show it. */
static void test_a_byte_order_mark_is_no_key(void **state)
{
    static const char marked[] = "\xEF\xBB\xBFmodel = 'lenet5'\r\nbatch = 3\r\n", twice[] = "\xEF\xBB\xBF\xEF\xBB\xBFlr = 1\n";
    qg_recipe c = { 0 }, empty = { 0 }, none = { 0 };
    assert_ok(read_bytes(&c, marked, sizeof marked - 1));
    assert_prints(&c, "model = \"lenet5\"\nbatch = 3\n");
    assert_ok(read_bytes(&empty, marked, 3));
    assert_prints(&empty, "");
    assert_failed(read_bytes(&none, twice, sizeof twice - 1), QG_EARG, ":1: unknown key '\\ufefflr'; available: ");
    assert_failed(read_bytes(&none, "\xFF\xFEl\0r\0", 6), QG_EFORMAT, ": is UTF-16; save it as UTF-8");
    assert_failed(read_bytes(&none, "\xFE\xFF\0l\0r", 6), QG_EFORMAT, ": is UTF-16; save it as UTF-8");
    assert_failed(read_bytes(&none, "lr = 1\0", 7), QG_EFORMAT, "contains a zero byte");
    qg__recipe_clear(&c);
    qg__recipe_clear(&empty);
    qg__recipe_clear(&none);
}

static void test_the_last_word_on_a_layer_counts(void **state)
{
    qg_recipe     c     = { 0 };
    assert_ok(qg__recipe_put(&c, "layer", "conv1:weight=float"));
    assert_ok(qg__recipe_put(&c, "layer", "conv1:input=sign"));
    assert_ok(qg__recipe_put(&c, "layer", "conv10:weight=twn"));
    assert_ok(qg__recipe_put(&c, "layer", "conv1:weight=binary"));
    assert_prints(&c,
                  "layer = [\"conv1:input=sign\", \"conv10:weight=twn\", \"conv1:weight=binary\"]\n");
    qg__recipe_clear(&c);
}

static const char *asked_value(const char *text, const char *key, char value[QG_RECIPE_VALUE_BYTES])
{
    qg_recipe asked = { 0 }, c = { 0 };
    assert_ok(qg__recipe_parse(&asked, text, "f"));
    assert_ok(resolve(&asked, NULL, &c));
    const char *found = qg__recipe_value(&c, key);
    snprintf(value, QG_RECIPE_VALUE_BYTES, "%s", found ? found : "unset");
    qg__recipe_clear(&c);
    qg__recipe_clear(&asked);
    return value;
}

static void test_another_optimizer_does_not_inherit_the_recipe(void **state)
{
    char value[QG_RECIPE_VALUE_BYTES];
    const char *own = "model = \"lenet5\"", *adam = "model = \"lenet5\"\noptimizer = \"adam\"";
    assert_string_equal(asked_value(own, "lr", value), "0.01");
    assert_string_equal(asked_value(own, "momentum", value), "0.9");
    assert_string_equal(asked_value(own, "weight-decay", value), "0.0001");
    assert_string_equal(asked_value(adam, "lr", value), "0.001");
    assert_string_equal(asked_value(adam, "momentum", value), "unset");
    assert_string_equal(asked_value(adam, "weight-decay", value), "0");
}

static void test_a_resolved_configuration_resolves_to_itself(void **state)
{
    qg_recipe asked = { 0 }, once = { 0 }, twice = { 0 };
    assert_int_equal(qg__recipe_parse(&asked,
                                  "model = \"lenet5\"\nweight = \"twn:threshold=0.5\"\nlr = 3e-4\n"
                                  "layer = [\"fc2:weight=float\"]\noptimizer = \"adam\"\n",
                                  "f"),
                     QG_OK);
    assert_ok(resolve(&asked, NULL, &once));
    char *text = qg__recipe_print(&once, 0);
    qg__recipe_clear(&asked);
    assert_ok(qg__recipe_parse(&asked, text, "f"));
    assert_ok(resolve(&asked, NULL, &twice));
    assert_prints(&twice, text);
    free(text);
    qg__recipe_clear(&asked);
    qg__recipe_clear(&once);
    qg__recipe_clear(&twice);
}

static void test_only_the_identity_of_a_stored_run_is_fixed(void **state)
{
    qg_recipe asked = { 0 }, stored = { 0 }, c = { 0 };
    assert_ok(qg__recipe_parse(&stored, "model = \"lenet5\"\nbatch = 7\nthreads = 1\n", "f"));
    assert_ok(qg__recipe_parse(&asked, "batch = 7\nthreads = 2\n", "f"));
    assert_ok(resolve(&asked, &stored, &c));
    assert_string_equal(qg__recipe_value(&c, "threads"), "2");
    assert_string_equal(qg__recipe_value(&c, "batch"), "7");
    qg__recipe_clear(&c);
    assert_ok(qg__recipe_put(&asked, "batch", "8"));
    assert_int_equal(resolve(&asked, &stored, &c), QG_EARG);
    assert_non_null(strstr(qg_errmsg(), "batch is 7 in the run, but 8 was requested"));
    qg__recipe_clear(&c);
    qg__recipe_clear(&asked);
    qg__recipe_clear(&stored);
}

/* What an absent key meant is not what it means today. */
static void test_a_stored_run_keeps_what_its_version_lacked(void **state)
{
    qg_recipe stored = { 0 }, asked = { 0 }, old = { 0 }, new = { 0 }, off = { 0 };
    assert_ok(qg__recipe_put(&asked, "model", "lenet5"));
    assert_ok(resolve(&asked, NULL, &new));
    assert_string_equal(qg__recipe_value(&new, "reestimate-batchnorm"), "on");
    assert_int_equal(new.reestimate, QG__REESTIMATE_ON);
    assert_ok(qg__recipe_over(&stored, &new, 0, 0));
    qg__recipe_unset(&stored, "reestimate-batchnorm");
    assert_ok(resolve(&asked, &stored, &old));
    assert_null(qg__recipe_value(&old, "reestimate-batchnorm"));
    assert_int_equal(old.reestimate, QG__REESTIMATE_OFF);
    assert_string_equal(qg__recipe_difference(&old, &new, QG_RECIPE_IDENTITY, 0)->name, "reestimate-batchnorm");
    assert_string_equal(qg__recipe_difference(&new, &old, QG_RECIPE_IDENTITY, 0)->name, "reestimate-batchnorm");
    assert_ok(qg__recipe_over(&off, &new, 0, 0));
    assert_ok(qg__recipe_put(&off, "reestimate-batchnorm", "off"));
    assert_null(qg__recipe_difference(&old, &off, QG_RECIPE_IDENTITY, 0));
    qg__recipe_clear(&asked), qg__recipe_clear(&stored), qg__recipe_clear(&old), qg__recipe_clear(&new), qg__recipe_clear(&off);
}

static void test_a_model_names_its_files(void **state)
{
    char name[64];
    model_file_name("resnet20:order=pre,shortcut=B", name, sizeof name);
    assert_string_equal(name, "resnet20-order-pre-shortcut-B");
    assert_reads("model = 'vgg7:width=0.250'", "model = \"vgg7:width=0.25\"\n");
    assert_reads("model = 'mlp:width=2048,depth=2'", "model = \"mlp:depth=2\"\n");
}

/* Files have a decimal point in every locale. */
static void test_files_have_a_point_where_numbers_have_a_comma(void **state)
{
    static const qg_epoch row = { .epoch = 1, .lr = 0.5, .train_loss = 1.25, .test_accuracy = 0.75, .seconds = 2.5, .digest = "0123456789abcdef" };
    qg_recipe                c   = { .epochs = 0 };
    config                   asked = { .recipe = NULL };
    qg__metrics                  m;
    char                     text[256] = "";
    if (!comma_begin()) skip();
    assert_reads("lr = 1e-1\nweight = 'twn:threshold=0.50'\nschedule = 'cosine:factor=.25'\nnormalise = 'range:low=-.5,high=1.5'",
                 "normalise = \"range:low=-0.5,high=1.5\"\nweight = \"twn:threshold=0.5\"\nlr = 0.1\n"
                 "schedule = \"cosine:factor=0.25\"\n");
    assert_ok(qg__recipe_put(&c, "lr", "0.25"));
    assert_true(c.lr == 0.25);
    assert_ok(config_set(&asked, "budget", "0.5h"));
    assert_string_equal(config_text(&asked, "budget"), "1800");
    assert_true(config_number(&asked, "budget") == 1800);
    config_free(&asked);
    qg__recipe_clear(&c);

    FILE *f = tmpfile();
    assert_non_null(f);
    qg__json j = qg__json_begin(f);
    qg__json_real(&j, "a", 1.5);
    qg__json_end(&j);
    rewind(f);
    assert_non_null(fgets(text, sizeof text, f));
    assert_string_equal(text, "{\"a\":1.5}\n");
    fclose(f);

    assert_ok(qg__metrics_begin(&m, false, &(qg__code_stats){ 0 }, &(qg__learned_list){ 0 }));
    assert_ok(qg__metrics_add(&m, row, &(qg__code_stats){ 0 }, &(qg__learned_list){ 0 }));
    assert_string_equal(strchr(m.text, '\n'), "\n1,0.5,1.25,0,0,0.75,0,2.5,0123456789abcdef\n");
    assert_ok(qg__metrics_write(&m, QG_BY_PATH, in_room("metrics.csv")));
    qg__metrics_end(&m);
    assert_ok(qg__metrics_read(&m, QG_BY_PATH, in_room("metrics.csv"), 1, 0));
    assert_true(m.last.train_loss == 1.25 && m.last.seconds == 2.5);
    qg__metrics_end(&m);
}

/* Epochs of a net whose quantizers have not started count only until there are others. */
static void the_best_epoch_is_one_that_counts(void **state)
{
    static const struct { int rows; uint64_t from; double best; } cases[] = {
        { 4, 0, 2 }, { 4, 1, 2 }, { 4, 2, 2 }, { 4, 3, 4 }, { 4, 4, 4 }, { 4, 5, 2 }, { 3, 3, 3 }, { 2, 3, 2 }, { 1, 3, 1 },
    };
    static const double accuracy[] = { 0.8, 0.9, 0.5, 0.6 };
    qg__metrics m;
    assert_ok(qg__metrics_begin(&m, false, &(qg__code_stats){ 0 }, &(qg__learned_list){ 0 }));
    for (int i = 0; i < 4; i++)
        assert_ok(qg__metrics_add(&m, (qg_epoch){ .epoch = i + 1, .test_accuracy = accuracy[i], .digest = "0123456789abcdef" },
                                  &(qg__code_stats){ 0 }, &(qg__learned_list){ 0 }));
    assert_ok(qg__metrics_write(&m, QG_BY_PATH, in_room("metrics.csv")));
    qg__metrics_end(&m);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_ok(qg__metrics_read(&m, QG_BY_PATH, in_room("metrics.csv"), cases[i].rows, cases[i].from));
        if (m.best.epoch != cases[i].best) fail_msg("case %zu: epoch %g", i, m.best.epoch);
        qg__metrics_end(&m);
    }
}

static int leave(void **state)
{
    comma_end();
    return room_leave(state);
}

/* A scheme has one name in messages, summaries and after --weight.  Where options
 * make another scheme of it, its spelling says which, and reads back as the same one. */
static void schemes_are_called_as_on_the_command_line(void **state)
{
    scheme_text s;
    int         variants = 0;
    for (int i = 0; scheme_at(i, &s); i++) {
        if (!s.quant.scheme) continue;
        const qg_scheme *scheme = s.quant.scheme;
        char             spelling[QG_SPELLING_BYTES];
        qg_quant         q;
        if (strcmp(scheme->name, s.name) != 0) fail_msg("%s is called %s", s.spelling, scheme->name);
        for (int r = 0; r < QG_ROLES; r++) {
            if (!(scheme->roles & qg_roles[r])) continue;
            assert_ptr_equal(qg_scheme_spelling(scheme, qg_roles[r], spelling, sizeof spelling), spelling);
            if (qg_quant_parse(spelling, qg_roles[r], &q) || q.scheme != scheme)
                fail_msg("%s of %s reads back as another scheme", spelling, s.spelling);
            /* An option that makes no difference is not spelled. */
            const bool usual = !qg_quant_parse(s.name, qg_roles[r], &q) && q.scheme == scheme;
            if (usual && strcmp(spelling, s.name)) fail_msg("%s is spelled %s", s.name, spelling);
        }
        variants += scheme->variant != NULL;
    }
    assert_true(variants >= 8);         /* ranges of fake_quant, codes of lsq, xnor's forms */
    char small[8];
    assert_string_equal(qg_scheme_spelling(qg_twn((qg_twn_spec){ 0 }).scheme, QG_WEIGHT, small, sizeof small), "twn");
    assert_string_equal(qg_scheme_spelling(NULL, QG_INPUT, small, sizeof small), "float");
}

/* --- texts, and memory -------------------------------------------------------------------- */

static qg_status count_to(const void *what, FILE *out)
{
    const int *n = what;
    for (int i = 0; i < *n; i++) fprintf(out, "%d\n", i);
    return *n < 0 ? qg_fail(QG_ENAN, "not a number of lines") : QG_OK;
}

static void test_a_printed_text_is_whole(void **state)
{
    for (int lines = 0; lines < 100000; lines = 2 * lines + 1) {
        char  *text;
        size_t n;
        assert_int_equal(qg__text_print(count_to, &lines, &text, &n), QG_OK);
        assert_int_equal(strlen(text), n);
        char *at = text;
        for (int i = 0; i < lines; i++, at++) assert_int_equal(strtol(at, &at, 10), i);
        assert_int_equal(*at, 0);
        free(text);
    }
    const int bad = -1, many = 100000;
    char     *text;
    size_t    n;
    assert_int_equal(qg__text_print(count_to, &bad, &text, &n), QG_ENAN);
    assert_null(text);
    for (heap_denied = 1;; heap_denied++) {
        heap_calls             = 0;
        const qg_status status = qg__text_print(count_to, &many, &text, &n);
        if (!status) break;
        assert_int_equal(status, QG_EMEM);
        assert_null(text);
    }
    assert_true(heap_denied > 2);               /* it grew */
    heap_denied = 0;
    free(text);
}

/* Who typed nothing wrong is not told so. */
static void test_lack_of_memory_is_not_a_usage_error(void **state)
{
    char *argv[] = { "train", "--model", "lenet5", "--lr", "0.1", "--layer", "conv1:weight=twn", NULL };
    int   status = EXIT_FAILED;
    for (heap_denied = 1; status == EXIT_FAILED; heap_denied++) {
        config asked = { .recipe = NULL };
        heap_calls   = 0;
        status       = options_parse(&train_verb, 7, argv, &asked);
        config_free(&asked);
    }
    heap_denied = 0;
    assert_int_equal(status, -1);
}

/* getopt keeps its place inside a word such as -h9 in a variable of its own. */
static void test_a_command_line_begins_anew(void **state)
{
    char  *unfinished[] = { "train", "-X9", NULL }, *whole[] = { "train", "--epochs", "3", NULL };
    config asked        = { .recipe = NULL };
    assert_int_equal(options_parse(&train_verb, 2, unfinished, &asked), EXIT_USAGE);
    assert_int_equal(options_parse(&train_verb, 3, whole, &asked), -1);
    assert_string_equal(config_text(&asked, "epochs"), "3");
    config_free(&asked);
}

/* A net without its layers has no quantizers, and cannot be judged by that. */
static void test_lack_of_memory_is_no_lack_of_quantizers(void **state)
{
    qg_recipe stored = { 0 }, c = { 0 };
    assert_ok(qg__recipe_parse(&stored, "model = 'mlp:depth=1,width=4'\nweight = 'twn'\nquantize-weights-after = 3\n", "file"));
    assert_ok(qg__recipe_as_stored(&stored, &c));
    for (heap_denies_on = true, heap_denied = 1;; heap_denied++) {
        heap_calls         = 0;
        const qg_status status = qg__recipe_check(&c, true);
        const bool      denied = heap_calls >= heap_denied;
        if (!denied && !status) break;
        if (status != QG_EMEM) fail_msg("call %ld: %s", heap_denied, qg_errmsg());
    }
    assert_true(heap_denied > 2);
    heap_denied    = 0;
    heap_denies_on = false;
    qg__recipe_clear(&stored), qg__recipe_clear(&c);
}

/* Neither can be looked at, so neither is said to be missing. */
static void test_what_cannot_be_looked_at_may_exist(void **state)
{
    char loop[ROOM_BYTES], below[ROOM_BYTES + 8];
    snprintf(loop, sizeof loop, "%s", in_room("loop"));
    snprintf(below, sizeof below, "%s/file", loop);
    assert_int_equal(symlink(loop, loop), 0);
    assert_true(qg__path_exists(loop));
    assert_true(qg__path_exists(below));
    write_text("plain", "");
    snprintf(below, sizeof below, "%s/file", in_room("plain"));
    assert_false(qg__path_exists(below));
    assert_false(qg__path_exists(in_room("nothing")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_have_one_spelling),
        cmocka_unit_test(test_order_blanks_and_comments_do_not_matter),
        cmocka_unit_test(test_strings_and_arrays),
        cmocka_unit_test(test_what_is_no_configuration_is_refused_with_its_line),
        cmocka_unit_test(test_values_out_of_range_are_refused),
        cmocka_unit_test(test_images_have_one_spelling),
        cmocka_unit_test_setup_teardown(test_files_have_a_point_where_numbers_have_a_comma, room_enter, leave),
        cmocka_unit_test(test_schemes_name_what_is_legal),
        cmocka_unit_test(test_a_scheme_becomes_its_quantizer),
        cmocka_unit_test(test_every_scheme_has_one_spelling),
        cmocka_unit_test(test_texts_of_runs_keep_their_defaults),
        cmocka_unit_test(test_texts_of_later_versions_are_refused),
        cmocka_unit_test(test_a_run_of_version_1_is_asked_for_in_the_words_of_its_time),
        cmocka_unit_test(test_schemes_decide_about_the_ends),
        cmocka_unit_test(test_a_float_run_does_not_decide_about_the_ends),
        cmocka_unit_test(test_options_reach_the_constructors),
        cmocka_unit_test(test_options_that_contradict_each_other_are_refused),
        cmocka_unit_test(test_an_option_without_effect_is_refused),
        cmocka_unit_test(test_the_run_sets_paces_and_delays),
        cmocka_unit_test(test_a_file_does_not_bind_another_optimizer),
        cmocka_unit_test(test_a_byte_order_mark_is_no_key),
        cmocka_unit_test(test_the_last_word_on_a_layer_counts),
        cmocka_unit_test(test_another_optimizer_does_not_inherit_the_recipe),
        cmocka_unit_test(test_a_resolved_configuration_resolves_to_itself),
        cmocka_unit_test(test_a_model_names_its_files),
        cmocka_unit_test(test_only_the_identity_of_a_stored_run_is_fixed),
        cmocka_unit_test(test_a_stored_run_keeps_what_its_version_lacked),
        cmocka_unit_test_setup_teardown(the_best_epoch_is_one_that_counts, room_enter, leave),
        cmocka_unit_test(schemes_are_called_as_on_the_command_line),
        cmocka_unit_test(test_a_printed_text_is_whole),
        cmocka_unit_test(test_lack_of_memory_is_not_a_usage_error),
        cmocka_unit_test(test_a_command_line_begins_anew),
        cmocka_unit_test(test_lack_of_memory_is_no_lack_of_quantizers),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_looked_at_may_exist, room_enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
