/* qg_run_import: nets with the weights of another program, against the same nets computed here as
 * PyTorch lays them out. */
#include "tests/support/bytes.h"
#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/io/file.h"
#include "qgrad.h"
#include "tests/support/room.h"

enum { MOST_ARRAYS = 64, MOST = 4096, NAME = 48, RUNS = 3 };

/* --- a file ---------------------------------------------------------------------------------- */

typedef struct array {
    char        name[NAME];
    const char *dtype;
    int         rank, dims[4];
    float       value[MOST];            /* a float in the file's dtype, too */
} array;

typedef struct file {
    array item[MOST_ARRAYS];
    int   count;
    bool  hwio;
} file;

static file file_of;                    /* large */

static size_t count_of(const array *a)
{
    size_t n = 1;
    for (int i = 0; i < a->rank; i++) n *= (size_t)a->dims[i];
    return n;
}

static size_t bytes_of(const char *dtype)
{
    return !strcmp(dtype, "F64") || !strcmp(dtype, "I64") ? 8 : strstr(dtype, "F16") ? 2 : 4;
}

static void put_value(unsigned char *to, const char *dtype, float x)
{
    const double d = (double)x;
    uint32_t     bits;
    memcpy(&bits, &x, sizeof bits);
    if (!strcmp(dtype, "F64")) memcpy(to, &d, sizeof d);
    else if (!strcmp(dtype, "I64")) put_u64(to, (uint64_t)x);
    else if (!strcmp(dtype, "BF16")) put_u16(to, (uint16_t)(bits >> 16));
    else if (strcmp(dtype, "F16")) memcpy(to, &x, sizeof x);
    else if (x == 0) put_u16(to, 0);         /* normal numbers else */
    else
        put_u16(to, (uint16_t)((bits >> 16 & 0x8000) | ((bits >> 23 & 255) - 112) << 10 |
                                  (bits >> 13 & 1023)));
}

/* Writes the arrays in the order of the list to in_room("net.safetensors"). */
static const char *write_file(const file *f)
{
    static char   path[ROOM_BYTES], header[1 << 14];
    size_t        n = 8, at = 0;
    unsigned char *bytes = calloc(1, sizeof header + (size_t)f->count * MOST * 8);
    assert_non_null(bytes);
    int length = snprintf(header, sizeof header, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (int i = 0; i < f->count; i++) {
        const array *a    = &f->item[i];
        const size_t size = bytes_of(a->dtype) * count_of(a);
        length += snprintf(header + length, sizeof header - (size_t)length,
                           ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", a->name, a->dtype);
        for (int k = 0; k < a->rank; k++)
            length += snprintf(header + length, sizeof header - (size_t)length, "%s%d",
                               k ? "," : "", a->dims[k]);
        length += snprintf(header + length, sizeof header - (size_t)length,
                           "],\"data_offsets\":[%zu,%zu]}", at, at + size);
        at += size;
    }
    length += snprintf(header + length, sizeof header - (size_t)length, "}");
    put_u64(bytes, (uint64_t)length);
    memcpy(bytes + n, header, (size_t)length);
    n += (size_t)length;
    for (int i = 0; i < f->count; i++)
        for (size_t k = 0; k < count_of(&f->item[i]); k++, n += bytes_of(f->item[i].dtype))
            put_value(bytes + n, f->item[i].dtype, f->item[i].value[k]);
    write_in_room("net.safetensors", bytes, n);
    free(bytes);
    return strcpy(path, in_room("net.safetensors"));
}

/* Values in steps of 1/32 from lo to hi, which fit in all types. */
static array *add(file *f, const char *module, const char *end, int rank, const int *dims,
                  double lo, double hi)
{
    array *a = &f->item[f->count];
    assert_in_range(f->count, 0, MOST_ARRAYS - 1);
    *a = (array){ .dtype = "F32", .rank = rank };
    snprintf(a->name, NAME, "%s%s%s", module, *module ? "." : "", end);
    for (int i = 0; i < rank; i++) a->dims[i] = dims[i];
    assert_in_range(count_of(a), 1, MOST);
    fill_uniform(a->value, count_of(a), (float)lo, (float)hi, (uint64_t)f->count++);
    for (size_t i = 0; i < count_of(a); i++)
        a->value[i] = nearbyintf(a->value[i] * 32) / 32 + 0.0f; /* no -0 */
    return a;
}

static array *add_vector(file *f, const char *module, const char *end, int n, double lo, double hi)
{
    return add(f, module, end, 1, &n, lo, hi);
}

/* --- the reference: images and weights are [c][h][w] and [out][in][h][w], as in PyTorch
 * -------------------------- */

typedef enum kind { END, CONV, NORM, RELU, PRELU, POOL, MEANS, DENSE } kind;

typedef struct op {
    kind kind;
    int  out, kernel, stride, pad, groups;
    bool bias;
} op;

typedef struct image {
    int    c, h, w;
    double x[MOST];
} image;

/* The number of the weight in the file. */
static size_t place(const file *f, op o, int inputs, int n, int i, int h, int w)
{
    if (f->hwio) return (size_t)(((h * o.kernel + w) * inputs + i) * o.out + n);
    return (size_t)(((n * inputs + i) * o.kernel + h) * o.kernel + w);
}

static void convolve(const file *f, op o, const array *w, const array *b, const image *x, image *y)
{
    const int inputs = x->c / o.groups, outputs = o.out / o.groups;
    *y = (image){ o.out,
                  (x->h + 2 * o.pad - o.kernel) / o.stride + 1,
                  (x->w + 2 * o.pad - o.kernel) / o.stride + 1,
                  { 0 } };
    for (int n = 0; n < o.out; n++)
        for (int r = 0; r < y->h; r++)
            for (int c = 0; c < y->w; c++) {
                double sum = b ? (double)b->value[n] : 0;
                for (int i = 0; i < inputs; i++)
                    for (int k = 0; k < o.kernel * o.kernel; k++) {
                        const int row = r * o.stride - o.pad + k / o.kernel,
                                  column = c * o.stride - o.pad + k % o.kernel;
                        if (row < 0 || row >= x->h || column < 0 || column >= x->w) continue;
                        sum +=
                            x->x[((n / outputs * inputs + i) * x->h + row) * x->w + column] *
                            (double)w->value[place(f, o, inputs, n, i, k / o.kernel, k % o.kernel)];
                    }
                y->x[(n * y->h + r) * y->w + c] = sum;
            }
}

/* Flattened as [c][h][w]; Keras has [h][w][c]. */
static void connect(const file *f, op o, const array *w, const array *b, const image *x, image *y)
{
    const int inputs = x->c * x->h * x->w;
    *y = (image){ .c = o.out, .h = 1, .w = 1 };
    for (int n = 0; n < o.out; n++) {
        y->x[n] = b ? (double)b->value[n] : 0;
        for (int i = 0; i < inputs; i++) {
            const int c = i / (x->h * x->w), point = i % (x->h * x->w), flat = point * x->c + c;
            y->x[n] += x->x[i] * (double)w->value[f->hwio ? flat * o.out + n : n * inputs + i];
        }
    }
}

static void normalise(const array *a, image *x)
{
    for (int i = 0, n = x->h * x->w; i < x->c * n; i++)
        x->x[i] = (x->x[i] - (double)a[2].value[i / n]) / sqrt((double)a[3].value[i / n] + 1e-5) *
                      (double)a[0].value[i / n] +
                  (double)a[1].value[i / n];
}

static void rectify(const array *a, image *x)
{
    for (int i = 0, n = x->h * x->w; i < x->c * n; i++)
        if (x->x[i] < 0) x->x[i] *= a ? (double)a->value[i / n] : 0;
}

static void pool(op o, image *x)
{
    image y = { x->c, o.kind == POOL ? x->h / 2 : 1, o.kind == POOL ? x->w / 2 : 1, { 0 } };
    for (int i = 0; i < y.c * y.h * y.w; i++) {
        const int c = i / (y.h * y.w), r = i / y.w % y.h, k = i % y.w;
        double    most = -INFINITY, sum = 0;
        for (int p = 0; p < (o.kind == POOL ? 4 : x->h * x->w); p++) {
            const int row = o.kind == POOL ? 2 * r + p / 2 : p / x->w,
                      column = o.kind == POOL ? 2 * k + p % 2 : p % x->w;
            const double v   = x->x[(c * x->h + row) * x->w + column];
            most = fmax(most, v), sum += v;
        }
        y.x[i] = o.kind == POOL ? most : sum / (x->h * x->w);
    }
    *x = y;
}

/* --- nets ------------------------------------------------------------------------------------ */

typedef struct sample {
    const char *text;
    int         h, w, c;
    op          op[20];
} sample;

static const sample nets[] = {
    /* The dense layer reads an image that is not square, of several channels. */
    { "3C3p0-BN-R-MP2-7FC-BN-R-4", 8, 12, 2, { { CONV, 3, 3, 1, 0, 1, false }, { NORM }, { RELU }, { POOL }, { DENSE, 7 }, { NORM },
      { RELU }, { DENSE, 4, .bias = true } } },
    /* Biases before batch norms, and one before nothing. */
    { "4C3-BN-R-6C3s2-R-5FC-BN-R-3", 6, 7, 1, { { CONV, 4, 3, 1, 1, 1, true }, { NORM }, { RELU }, { CONV, 6, 3, 2, 1, 1, true },
      { RELU }, { DENSE, 5, .bias = true }, { NORM }, { RELU }, { DENSE, 3, .bias = true } } },
    /* Depthwise and grouped convolutions, more than ten modules, and a mean. */
    { "6C3-BN-R-DW3-BN-R-8C1-BN-PR-8C3g4-BN-R-GAP-3", 6, 5, 3, { { CONV, 6, 3, 1, 1, 1, false }, { NORM }, { RELU },
      { CONV, 6, 3, 1, 1, 6, false }, { NORM }, { RELU }, { CONV, 8, 1, 1, 0, 1, false }, { NORM }, { PRELU },
      { CONV, 8, 3, 1, 1, 4, false }, { NORM }, { RELU }, { MEANS }, { DENSE, 3, .bias = true } } },
};

enum { NETS = sizeof nets / sizeof *nets };

/* Writes random weights for a net, and computes its scores. */
static void compute(const sample *net, file *f, const uint8_t *pixels, image *x)
{
    static image y;
    f->count = 0;
    *x       = (image){ .c = net->c, .h = net->h, .w = net->w };
    for (int i = 0; i < net->c * net->h * net->w; i++)
        x->x[i] = (double)((float)pixels[i % (net->h * net->w) * net->c + i / (net->h * net->w)] /
                           255.0f);
    for (int i = 0; net->op[i].kind != END; i++) {
        const op  o = net->op[i];
        char      module[16];
        const int c = x->c, inputs = c * x->h * x->w, groups = o.groups ? o.groups : 1;
        array    *a = &f->item[f->count];
        snprintf(module, sizeof module, "net.%d", i);
        if (o.kind == CONV) {
            const int oihw[] = { o.out, c / groups, o.kernel, o.kernel },
                      hwio[] = { o.kernel, o.kernel, c / groups, o.out };
            add(f, module, "weight", 4, f->hwio ? hwio : oihw, -1, 1);
        }
        if (o.kind == DENSE)
            add(f, module, "weight", 2,
                f->hwio ? (int[]){ inputs, o.out } : (int[]){ o.out, inputs }, -1, 1);
        if (o.kind == PRELU || o.kind == NORM) add_vector(f, module, "weight", c, 0.2, 1);
        if (o.bias) add_vector(f, module, "bias", o.out, -1, 1);
        if (o.kind == NORM) {
            add_vector(f, module, "bias", c, -1, 1);
            add_vector(f, module, "running_mean", c, -1, 1);
            add_vector(f, module, "running_var", c, 0.5, 2);
            add(f, module, "num_batches_tracked", 0, NULL, 1, 2)->dtype = "I64";
        }
        if (o.kind == CONV) convolve(f, o, a, o.bias ? a + 1 : NULL, x, &y), *x = y;
        if (o.kind == DENSE) connect(f, o, a, o.bias ? a + 1 : NULL, x, &y), *x = y;
        if (o.kind == NORM) normalise(a, x);
        if (o.kind == RELU || o.kind == PRELU) rectify(o.kind == PRELU ? a : NULL, x);
        if (o.kind == POOL || o.kind == MEANS) pool(o, x);
    }
}

static void fill_pixels(uint8_t *pixels, size_t n)
{
    for (size_t i = 0; i < n; i++) pixels[i] = (uint8_t)(i * i * 31 + 7 * i);
}

static const char *run_path(void)
{
    static char path[ROOM_BYTES];
    return strcpy(path, in_room("run"));
}

static void remove_run(void)
{
    static const char *const files[] = { "config.toml", "metrics.csv", "result.json",
                                         "last.safetensors", "best.safetensors" };
    char                     path[ROOM_BYTES];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", run_path(), files[i]);
        unlink(path);
    }
    rmdir(run_path());
}

/* Imports the file into a run, in place of the last one. */
static qg_status import_as(const char *model, const qg_run_import_spec *like,
                           qg_run_imported *result)
{
    qg_run_import_spec spec   = *like;
    qg_recipe         *recipe = qg_recipe_new();
    remove_run();
    spec.dir    = run_path();
    spec.recipe = recipe;
    if (!spec.weights) spec.weights = write_file(&file_of);
    qg_recipe_set(recipe, "model", model);
    qg_recipe_set(recipe, "threads", "1");
    const qg_status status = qg_run_import(spec, result);
    qg_recipe_free(recipe);
    return status;
}

static void import(const sample *net, const qg_run_import_spec *like)
{
    qg_run_imported    result;
    qg_run_import_spec spec = *like;
    spec.image              = (qg_shape){ 1, net->h, net->w, net->c };
    spec.layout             = file_of.hwio ? QG_HWIO : QG_OIHW;
    assert_ok(import_as(net->text, &spec, &result));
    assert_true(result.tested == 0 && result.names);
    free(result.names);
}

static void assert_scores(const uint8_t *pixels, const image *want)
{
    float   got[16], expected[16];
    double  most = 0;
    qg_run *run  = qg_run_open(run_path(), QG_RUN_BEST);
    assert_non_null(run);
    assert_int_equal(qg_run_classes(run), want->c);
    assert_ok(qg_run_predict(run, 1, pixels, got));
    for (int k = 0; k < want->c; k++)
        expected[k] = (float)want->x[k], most = fmax(most, fabs(want->x[k]));
    assert_close(got, expected, (size_t)want->c,
                 2e-6 * most); /* sums of at most a hundred floats, in a few layers */
    qg_run_close(run);
}

/* --- tests ----------------------------------------------------------------------------------- */

static void test_scores_are_those_of_the_other_program(void **state)
{
    uint8_t      pixels[MOST];
    static image x;
    fill_pixels(pixels, sizeof pixels);
    for (int i = 0; i < 2 * NETS; i++) {
        file_of.hwio = i >= NETS;
        compute(&nets[i % NETS], &file_of, pixels, &x);
        import(&nets[i % NETS], &(qg_run_import_spec){ 0 });
        assert_scores(pixels, &x);
    }
    file_of.hwio = false;
}

/* The values of the test are floats of every type. */
static void test_each_type_gives_the_same_weights(void **state)
{
    static const char *const types[] = { "F32", "F16", "BF16", "F64" };
    uint8_t                  pixels[MOST];
    static image             x;
    uint64_t                 digest = 0;
    fill_pixels(pixels, sizeof pixels);
    compute(&nets[1], &file_of, pixels, &x);
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < file_of.count; i++)
            if (file_of.item[i].rank) file_of.item[i].dtype = types[k];
        import(&nets[1], &(qg_run_import_spec){ 0 });
        qg_run        *run   = qg_run_open(run_path(), QG_RUN_LAST);
        const uint64_t found = qg_params_digest(qg_net_params(qg_run_net(run)));
        assert_true(k == 0 || found == digest);
        digest = found;
        qg_run_close(run);
    }
}

static array *find(const char *name)
{
    for (int i = 0; i < file_of.count; i++)
        if (!strcmp(file_of.item[i].name, name)) return &file_of.item[i];
    fail_msg("no %s", name);
    return NULL;
}

static void rename_module(const char *old, const char *new)
{
    const size_t n = strlen(old);
    for (int i = 0; i < file_of.count; i++) {
        char rest[NAME];
        if (strncmp(file_of.item[i].name, old, n) || file_of.item[i].name[n] != '.') continue;
        strcpy(rest, file_of.item[i].name + n);
        snprintf(file_of.item[i].name, NAME, "%s%.40s", new, rest);
    }
}

/* A run's recipe notes its images and classes; those of the new run are others. */
static void test_a_recipe_of_other_images_is_taken(void **state)
{
    uint8_t         pixels[MOST];
    static image    x;
    char            text[400];
    qg_run_imported result;
    qg_recipe      *recipe = qg_recipe_new();
    fill_pixels(pixels, sizeof pixels);
    compute(&nets[1], &file_of, pixels, &x);
    snprintf(text, sizeof text, "defaults = 2\nmodel = \"%s\"\ndata-digest = \"0123456789abcdef\"\n"
             "class-digest = \"0123456789abcdef\"\nthreads = 1\n", nets[1].text);
    write_text("recipe", text);
    remove_run();
    assert_ok(qg_recipe_read(recipe, in_room("recipe")));
    char names[64] = "a";
    for (int k = 1; k < x.c; k++) snprintf(names + strlen(names), 8, ",%c", 'a' + k);
    assert_ok(qg_run_import((qg_run_import_spec){ .recipe  = recipe,
                                                  .weights = write_file(&file_of),
                                                  .dir     = run_path(),
                                                  .image   = { 1, nets[1].h, nets[1].w, nets[1].c },
                                                  .classes = names }, &result));
    free(result.names);
    qg_recipe_free(recipe);
}

/* Two convolutions of one shape, whose order is not that of their names: the map, or names of the
 * net's layers. */
static void test_a_map_and_names_decide(void **state)
{
    static const sample twins = { "4C3-4C3-4C3-GAP-3",
                                  6,
                                  5,
                                  4,
                                  { { CONV, 4, 3, 1, 1, 1, true },
                                    { CONV, 4, 3, 1, 1, 1, true },
                                    { CONV, 4, 3, 1, 1, 1, true },
                                    { MEANS },
                                    { DENSE, 3, .bias = true } } };
    static const char *const order[][2] = {
        { "net.0", "stem" }, { "net.1", "b10" }, { "net.2", "b9" }, { "net.4", "head" }
    };
    static const char *const named[][2] = {
        { "stem", "conv1" }, { "b10", "conv2" }, { "b9", "conv3" }, { "head", "fc1" }
    };
    uint8_t                  pixels[MOST];
    static image             x;
    char                     map[ROOM_BYTES];
    qg_run_imported          result;
    fill_pixels(pixels, sizeof pixels);
    compute(&twins, &file_of, pixels, &x);
    for (int i = 0; i < 4; i++) rename_module(order[i][0], order[i][1]);
    assert_ok(import_as(twins.text, &(qg_run_import_spec){ .image = { 1, 6, 5, 4 } }, &result));
    assert_string_equal(result.names, "conv1 b9\nconv2 b10\nconv3 stem\nfc1 head\n");
    write_text("map", "# stem first\n\nconv1 stem\r\n  conv2\tb10   # the second\n");
    free(result.names);
    strcpy(map, in_room("map"));
    assert_ok(import_as(twins.text, &(qg_run_import_spec){ .image = { 1, 6, 5, 4 }, .map = map },
                        &result));
    assert_string_equal(result.names, "conv1 stem\nconv2 b10\nconv3 b9\nfc1 head\n");
    free(result.names);
    assert_scores(pixels, &x);
    for (int i = 0; i < 4; i++) rename_module(named[i][0], named[i][1]);
    import(&twins, &(qg_run_import_spec){ 0 });
    assert_scores(pixels, &x);
}

/* A norm of the right size may be in another block, which comes first by its name. */
static void test_a_norm_is_in_the_block_of_its_product(void **state)
{
    static const sample net = { "4C3-BN-R-4C3-BN-R-GAP-3",
                                6,
                                5,
                                3,
                                { { CONV, 4, 3, 1, 1, 1, false },
                                  { NORM },
                                  { RELU },
                                  { CONV, 4, 3, 1, 1, 1, false },
                                  { NORM },
                                  { RELU },
                                  { MEANS },
                                  { DENSE, 3, .bias = true } } };
    static const char *const ours[] = { "net.0", "net.1", "net.3", "net.4", "net.7" };
    static const char *const theirs[][5] = {
        { "stem.0", "stem.1", "blocks.0", "blocks.1", "head" },
        { "conv_stem", "bn1", "blocks.0.conv_dw", "blocks.0.bn1", "classifier" },
        { "z.conv", "z.norm", "a.0.conv", "a.0.norm", "b" },
        { "conv1", "layer1.0.bn1", "layer1.0.conv1", "layer1.0.bn2", "fc" },    /* norms first */
    };
    uint8_t      pixels[MOST];
    static image x;
    fill_pixels(pixels, sizeof pixels);
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++) {
        compute(&net, &file_of, pixels, &x);
        for (int k = 0; k < 5; k++) rename_module(ours[k], theirs[i][k]);
        import(&net, &(qg_run_import_spec){ 0 });
        assert_scores(pixels, &x);
    }
}

/* What a qgrad.torch.Quantizer learns and tracks is left out, also under a name of an array of layers. */
static void test_arrays_of_quantizers_are_skipped(void **state)
{
    static const char *const learned[] = { "wp",  "wn",    "seen",  "step", "min",
                                           "max", "alpha", "scale", "mean" };
    uint8_t                  pixels[MOST];
    static image             x;
    fill_pixels(pixels, sizeof pixels);
    compute(&nets[0], &file_of, pixels, &x);
    for (size_t i = 0; i < sizeof learned / sizeof *learned; i++)
        add_vector(&file_of, i < 4 ? "net.0.quantize" : "net.4.quantize", learned[i], 1, 0, 1);
    add(&file_of, "net.0.quantize", "forwards", 0, NULL, 1, 2)->dtype = "I64";
    add(&file_of, "net.4.quantize", "forwards", 0, NULL, 1, 2)->dtype = "I64";
    import(&nets[0], &(qg_run_import_spec){ 0 });
    assert_scores(pixels, &x);
}

/* The first net with one change, which must fail so, and leave no run. */
static void refuses(qg_status how, const char *message, const qg_run_import_spec *with)
{
    qg_run_imported    result;
    qg_run_import_spec spec = *with;
    if (!spec.image.h) spec.image = (qg_shape){ 1, nets[0].h, nets[0].w, nets[0].c };
    assert_failed(import_as(nets[0].text, &spec, &result), how, message);
    assert_null(result.names);
    assert_int_equal(access(run_path(), F_OK), -1);
    assert_int_equal(access(in_room("run.part"), F_OK), -1);
}

static void begin(void)
{
    static image x;
    uint8_t      pixels[MOST];
    fill_pixels(pixels, sizeof pixels);
    compute(&nets[0], &file_of, pixels, &x);
}

static void test_all_that_does_not_fit_is_in_one_message(void **state)
{
    const qg_run_import_spec plain = { 0 };
    begin();
    find("net.0.weight")->dims[3] = 5, find("net.0.weight")->dims[2] = 5;
    add_vector(&file_of, "extra", "weight", 4, 0, 1);
    strcpy(find("net.7.bias")->name, "net.7.offset");
    find("net.5.bias")->dtype = "I64";
    refuses(QG_ESHAPE,
            "net.safetensors: does not fit the net: net.5.bias [7] is I64, not F32, F16, BF16 or F64, "
            "net.7.offset [4] is not an array of a layer, net.0.weight [3,2,5,5] is [3,2,3,3] in the net, "
            "conv1.weight, fc2.bias [4] is missing in net.7, extra.weight [4] is not in the net",
            &plain);
    begin();
    file_of.count--;
    refuses(QG_ESHAPE, "does not fit the net: fc2.bias [4] is missing", &plain);
    begin();
    add_vector(&file_of, "net.0", "kernel", 4, 0, 1);
    refuses(QG_ESHAPE, "net.0.weight is the same as net.0.kernel", &plain);
    begin();
    add_vector(&file_of, "net.4", "running_mean", 7, 0, 1);
    refuses(QG_ESHAPE, "net.4.running_mean [7] is not in the net", &plain);
    file_of.count = 0;
    refuses(QG_ESHAPE,
            "does not fit the net: conv1.weight [3,2,3,3] is missing, bn1.gamma [3] is missing, "
            "bn1.beta [3] is missing, "
            "bn1.running_mean [3] is missing, bn1.running_var [3] is missing, fc1.weight [7,45] is "
            "missing, bn2.gamma [7] is missing, bn2.beta [7] is missing, "
            "bn2.running_mean [7] is missing, bn2.running_var [7] is missing, fc2.weight [4,7] is "
            "missing, fc2.bias [4] is missing",
            &plain);
}

static void test_values_must_be_numbers(void **state)
{
    const qg_run_import_spec plain = { 0 };
    begin();
    find("net.4.weight")->value[5] = NAN;
    refuses(QG_ENAN, "net.safetensors: net.4.weight contains a value that is not finite", &plain);
    begin();
    find("net.1.running_var")->value[2] = -0.25f;
    refuses(QG_EFORMAT, "net.1.running_var contains a negative variance", &plain);
    begin();
    find("net.4.weight")->dtype    = "BF16";
    find("net.4.weight")->value[5] = -INFINITY;
    refuses(QG_ENAN, "net.4.weight contains a value that is not finite", &plain);
}

static void test_a_map_names_what_exists(void **state)
{
    static const char *const lines[][2] = {
        { "conv1 net.0 net.1\n", "map:1: is not a line LAYER MODULE" },
        { "\nconv1\n", "map:2: is not a line LAYER MODULE" },
        { "conv9 net.0", "map:1: the net has no layer 'conv9' with parameters" },
        { "conv1 net.9", "map:1: " },
        { "conv1 net.0\nconv1 net.4", "map:2: 'conv1' is named twice" },
        { "conv1 net.0\nfc1 net.0", "map:2: 'net.0' is named twice" },
        { "conv1 net.4\nfc1 net.0", "net.4.weight [7,45] is [3,2,3,3] in the net, conv1.weight, "
                                    "net.0.weight [3,2,3,3] is [7,45] in the net, fc1.weight" }
    };
    char                     map[ROOM_BYTES];
    begin();
    strcpy(map, in_room("map"));
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        write_text("map", lines[i][0]);
        refuses(i < 6 ? QG_EARG : QG_ESHAPE, lines[i][1], &(qg_run_import_spec){ .map = map });
    }
    strcpy(map, in_room("none"));
    refuses(QG_EIO, "none", &(qg_run_import_spec){ .map = map });
}

static void test_classes_and_sizes(void **state)
{
    qg_run_import_spec spec = { .image = { 1, nets[0].h, nets[0].w, nets[0].c } };
    qg_run_imported    result;
    begin();
    refuses(QG_EARG, "the net ends with 4 outputs, but the data has 3 classes",
            &(qg_run_import_spec){ .classes = "a,b,c" });
    static const char *const illegal[] = { "",         "0",      "65536",  "99999999999999999999",
                                           "-1",       ",a,b,c", "a,,b,c", "a,b,c,",
                                           "a,b,c,d/e" };
    for (size_t i = 0; i < sizeof illegal / sizeof *illegal; i++)
        refuses(QG_EARG, "' is neither a number, 1..65535, nor names",
                &(qg_run_import_spec){ .classes = illegal[i] });
    refuses(QG_ESHAPE, "fc1.weight", &(qg_run_import_spec){ .image = { 1, 8, 10, 2 } });
    spec.classes = "ant,bee,cow,dog";
    assert_ok(import_as(nets[0].text, &spec, &result));
    free(result.names);
    qg_run *run = qg_run_open(run_path(), QG_RUN_LAST);
    assert_string_equal(qg_run_class(run, 2), "cow");
    qg_run_close(run);
    spec.classes = NULL;
    assert_failed(import_as("lenet5", &spec, &result), QG_EARG,
                  "classes: pass their number or names, or a data set");
    spec.image = (qg_shape){ 0 };
    assert_failed(import_as(nets[0].text, &spec, &result), QG_EARG,
                  "image: pass the size of the images, or a data set");
}

static void test_damaged_files(void **state)
{
    qg_run_import_spec spec = { .weights = "none.safetensors" };
    char               path[ROOM_BYTES];
    begin();
    refuses(QG_EIO, "none.safetensors", &spec);
    strcpy(path, write_file(&file_of));
    assert_int_equal(truncate(path, 1000), 0);
    spec.weights = path;
    refuses(QG_EFORMAT, "net.safetensors' is ", &spec);
    write_text("net.safetensors", "x");
    refuses(QG_EFORMAT, "is truncated: 1 bytes", &spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scores_are_those_of_the_other_program),
        cmocka_unit_test(test_each_type_gives_the_same_weights),
        cmocka_unit_test(test_a_recipe_of_other_images_is_taken),
        cmocka_unit_test(test_a_map_and_names_decide),
        cmocka_unit_test(test_a_norm_is_in_the_block_of_its_product),
        cmocka_unit_test(test_arrays_of_quantizers_are_skipped),
        cmocka_unit_test(test_all_that_does_not_fit_is_in_one_message),
        cmocka_unit_test(test_values_must_be_numbers),
        cmocka_unit_test(test_a_map_names_what_exists),
        cmocka_unit_test(test_classes_and_sizes),
        cmocka_unit_test(test_damaged_files),
    };
    return cmocka_run_group_tests_name("train/import", tests, room_enter, room_leave);
}
