/* Quantization-aware training in one file: a LeNet-5 whose weights are -a, 0 and +a.
 *
 *     cc -std=c11 -O3 -march=native -ffp-contract=off -o tiny examples/tiny.c -lm
 *     ./tiny datasets/mnist 1 twn      # the directory of MNIST's files, epochs, quantizer: twn or ttq
 *
 * It computes what `qgrad train --model lenet5 --data mnist --weight twn --epochs 1` computes, to the last
 * bit of each weight, and prints the same digest.  docs/arithmetic.md describes these operations in words.
 * Begin at the end: main, then forward and backward, which are a step, then what they call.
 *
 * Each product of the net has two weights.  The latent weight w is a float.  The quantized weight q(w) is -a,
 * 0 or +a, and it is what multiplies, in training and in use.  Its derivative is 0 almost everywhere, which
 * teaches nothing.  Training pretends that it is 1 (the straight-through estimator): the gradient of q(w) is
 * used as that of w.  Small updates of w add up until w crosses a threshold, and then q(w) changes.
 *
 * IEEE 754 defines each bit of a sum, product, quotient and square root, and of fmaf(a, b, c), which is
 * a b + c rounded once.  So the order of the operations decides each bit of the result.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Long sums are cut into chains of 128 terms or 16 parts: it is more exact, and threads can share them. */
enum { SEED = 1, FOR_WEIGHTS = 1, FOR_ORDER = 2, BATCH = 50, CHAIN = 128, PARTS = 16 };
enum { MOST_IMAGES = 60000, PIXELS = 28 * 28, CLASSES = 10 };
enum { MOST_WEIGHTS = 512 * 1024, MOST_K = 1024, MOST_OUT = 512 };

/* Number i of a stream of random numbers, 64 bits (SplitMix64). */
static uint64_t bits(uint64_t stream, uint64_t i)
{
    uint64_t z = stream + (i + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* The stream for a purpose. */
static uint64_t derive(uint64_t stream, uint64_t purpose)
{
    return bits(bits(stream, purpose) ^ 0xD1B54A32D192ED03u, purpose);
}

static uint8_t image[MOST_IMAGES][PIXELS], label[MOST_IMAGES];
static int     images, order[MOST_IMAGES];

/* A file of MNIST has a header, then `each` bytes for every image. */
static void read_file(const char *dir, const char *name, long header, size_t each, void *to)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "rb");
    images  = f && !fseek(f, header, SEEK_SET) ? (int)fread(to, each, MOST_IMAGES, f) : 0;
    if (f) fclose(f);
    if (images > 0 && images % BATCH == 0) return;
    fprintf(stderr, "tiny: %s has no images, or no whole batches of %d\n", path, BATCH);
    exit(1);
}

/* The order of the images in an epoch (Fisher and Yates). */
static void shuffle(int epoch)
{
    const uint64_t stream = derive(derive(SEED, FOR_ORDER), (uint64_t)epoch);
    for (int i = 0; i < images; i++) order[i] = i;
    for (int i = images; i > 1; i--) {
        const int j = (int)(bits(stream, (uint64_t)i) % (uint64_t)i), o = order[i - 1];
        order[i - 1] = order[j], order[j] = o;
    }
}

/* What is trained, and the statistics of batch norms, which have no gradient, so that steps leave them. */
typedef struct param {
    char  name[32];
    int   shape[4], n;                  /* [outputs][rows][columns][channels], and their product */
    float decay, rate;                  /* of weights; as a multiple of the learning rate */
    float value[MOST_WEIGHTS], grad[MOST_WEIGHTS], velocity[MOST_WEIGHTS];
} param;
static param params[32], *params_end = params;

static param *declare(const char *layer, const char *name, int out, int side, int c, float start)
{
    param *p = params_end++;
    snprintf(p->name, sizeof p->name, "%s.%s", layer, name);
    memcpy(p->shape, (int[]){ out, side, side, c }, sizeof p->shape);
    p->n    = out * side * side * c;
    p->rate = 1;
    for (int i = 0; i < p->n; i++) p->value[i] = start;
    return p;
}

/* Gradient descent with momentum:   v = 0.9 v + (g + decay w),   w = w - rate v */
static void update(float rate)
{
    for (param *p = params; p < params_end; p++)
        for (int i = 0; i < p->n; i++) {
            p->velocity[i] = 0.9f * p->velocity[i] + (p->grad[i] + p->decay * p->value[i]);
            p->value[i] -= rate * p->rate * p->velocity[i];
        }
}

/* The learning rate is 0.01, a tenth of that after 1/2 of all steps, and a hundredth after 5/6. */
static float rate_at(float progress)
{
    const double tenth = (double)0.1f;
    return (float)(0.01 * (progress < 0.5f ? 1 : progress < 0.83333f ? tenth : tenth * tenth));
}

/* The hash (64-bit FNV-1a) of the names, shapes and values of all parameters. */
static unsigned long long digest(void)
{
    uint64_t h = 0xCBF29CE484222325u;
    for (const param *p = params; p < params_end; p++) {
        const void *at[] = { p->name, p->shape, p->value };
        size_t      n[]  = { strlen(p->name) + 1, sizeof p->shape, (size_t)p->n * sizeof(float) };
        for (int i = 0; i < 3; i++)
            for (const uint8_t *b = at[i]; n[i]-- > 0; b++) h = (h ^ *b) * 0x100000001B3u;
    }
    return h;
}

/* A product y of x and q(w), then batch norm, relu and max pooling, whose result is the x of the next layer.
 * The last layer has a bias and nothing else after the product: y has the scores of the classes.  x is
 * [image][side][side][c], y [image][wide][wide][out], the weight [out][kernel][kernel][c], or [out][k]. */
enum { LAYERS = 4, MOST_X = BATCH * 24 * 24 * 32 };
typedef struct layer {
    bool   dense;                       /* the kernel is as large as x, so y has one pixel */
    int    side, c, kernel, out, wide;
    int    pixels, k, pool;             /* wide wide; kernel kernel c; the side of a pooling window */
    param *weight, *bias, *gamma, *beta, *mean, *var;   /* NULL: it has none */
    param *scale[2];                    /* TTQ: the level of positive and that of negative weights */
    float  threshold, level[2];         /* of the quantizer */
    float  q[MOST_WEIGHTS], transposed[MOST_WEIGHTS];   /* q(w), [out][k] and [k][out] */
    float  x[MOST_X], dx[MOST_X], y[MOST_X], dy[MOST_X];
    float  patches[BATCH * 8 * 8 * 800];                /* [image][pixel of y][k]: what it reads of x */
    int    from[MOST_X];                /* for each pooling window the index of its largest y */
    /* Of each channel of y: mean = centre + rest, inverse = 1 / sqrt(var + 1e-5), slope = gamma inverse. */
    float  centre[MOST_OUT], rest[MOST_OUT], inverse[MOST_OUT], slope[MOST_OUT], unbiased[MOST_OUT];
    double average[MOST_OUT], squares[MOST_OUT];        /* over several batches */
} layer;
static layer net[LAYERS], *const last = net + LAYERS - 1;

/* The sum of n terms in double, in runs of so many.  Term i of a run is added to lane i % 32, as in vectors;
 * then lanes are added, then runs, then blocks of 16384 terms. */
static float term[MOST_WEIGHTS];
static double sum_terms(int n, int run)
{
    double all = 0, block = 0;
    for (int at = 0; at < n; at += run) {
        double lane[32] = { 0 }, sum = 0;
        for (int i = at; i < at + run && i < n; i++) lane[(i - at) % 32] += (double)term[i];
        for (int i = 0; i < 8; i++) sum += (lane[i] + lane[i + 8]) + (lane[i + 16] + lane[i + 24]);
        block += sum;
        if ((at + run) % 16384 == 0 || at + run >= n) all += block, block = 0;
    }
    return all;
}

/* factor times the mean of those |w| that exceed a bound. */
static float mean_above(const param *w, float bound, double factor)
{
    int kept = 0;
    for (int i = 0; i < w->n; i++) {
        const float a = fabsf(w->value[i]);
        term[i] = a > bound ? a : 0, kept += a > bound;
    }
    return kept ? (float)(factor * sum_terms(w->n, 16384) / kept) : 0;
}

/*     q(w) = +level[0] where w > threshold,  -level[1] where w < -threshold,  else 0
 *
 * TWN: the threshold is 0.7 mean |w|, the levels the mean |w| above it   [Li, Zhang, Liu, arXiv:1605.04711]
 * TTQ: the threshold is 0.05 max |w|, the levels are trained      [Zhu, Han, Mao, Dally, arXiv:1612.01064] */
static void quantize(layer *l)
{
    const param *w    = l->weight;
    float        most = 0;
    if (l->scale[0]) {
        for (int i = 0; i < w->n; i++) most = fmaxf(most, fabsf(w->value[i]));
        l->threshold = 0.05f * most;
        for (int s = 0; s < 2; s++)
            l->level[s] = *l->scale[s]->value = fmaxf(*l->scale[s]->value, 0x1p-30f);
    } else {
        l->threshold = mean_above(w, -1, (double)0.7f);
        l->level[0] = l->level[1] = mean_above(w, l->threshold, 1);
    }
    for (int i = 0; i < w->n; i++) {
        const bool above = w->value[i] > l->threshold, below = w->value[i] < -l->threshold;
        l->q[i] = above ? l->level[0] : below ? -l->level[1] : 0;
        l->transposed[i % l->k * l->out + i / l->k] = l->q[i];
    }
}

/* The gradient of q, which weight_gradient has stored, is used as that of w.  TTQ's levels have the sum of dq
 * where q = level[0], and minus the sum where q = -level[1], over the root of the number of weights. */
static void level_gradient(layer *l)
{
    const param *w = l->weight;
    for (int s = 0; s < 2 && l->scale[s]; s++) {
        const float sign = s ? -1 : 1, gain = sign * (float)(1 / sqrt((double)w->n));
        for (int i = 0; i < w->n; i++) term[i] = sign * w->value[i] > l->threshold ? w->grad[i] : 0;
        *l->scale[s]->grad = (float)((double)gain * sum_terms(w->n, 256));
    }
}

/* --- products ------------------------------------------------------------------------------- */

/* out[r][i] = sum over s of a(r, s) b[s][i], where a(r, s) is a[r * row + s * step], in chains of so many
 * steps.  A chain begins with 0 and has a fused multiply-add for each step; chains are added in order. */
static void multiply(int rows, int lanes, int steps, int chain, const float *a, int row, int step,
                     const float *b, float *out)
{
    for (int from = 0; from < steps; from += chain)
        for (int r = 0; r < rows; r++) {
            float sum[MOST_K] = { 0 }, *to = out + r * lanes;
            for (int s = from; s < from + chain && s < steps; s++)
                for (int i = 0; i < lanes; i++)
                    sum[i] = fmaf(a[r * row + s * step], b[s * lanes + i], sum[i]);
            for (int i = 0; i < lanes; i++) to[i] = from ? to[i] + sum[i] : sum[i];
        }
}

/* The index in x of what pixel p of all y of the batch reads with row i and column j of the kernel. */
static int place(const layer *l, int p, int i, int j)
{
    const int row = p / l->pixels * l->side + p % l->pixels / l->wide + i;
    return (row * l->side + p % l->wide + j) * l->c;
}

/* y[p][o] = sum over k of patches[p][k] q[o][k], plus the bias.  A convolution is one chain. */
static void product(layer *l)
{
    const int row = l->kernel * l->c, rows = BATCH * l->pixels;
    for (int p = 0; p < rows; p++)
        for (int i = 0; i < l->kernel; i++)
            for (int j = 0; j < row; j++)
                l->patches[p * l->k + i * row + j] = l->x[place(l, p, i, 0) + j];
    multiply(rows, l->out, l->k, l->dense ? CHAIN : l->k, l->patches, l->k, 1, l->transposed, l->y);
    for (int i = 0; i < rows * l->out && l->bias; i++) l->y[i] += l->bias->value[i % l->out];
}

/* dq[o][k] = sum over p of dy[p][o] patches[p][k].  A convolution has 16 parts, each a chain, which are added
 * as a tree: neighbours, then the sums of neighbours, and so on.  A dense product has one part. */
static void weight_gradient(layer *l)
{
    static float sum[PARTS][MOST_WEIGHTS];
    const int    parts = l->dense ? 1 : PARTS, out = l->out, k = l->k;
    for (int i = 0; i < parts; i++) {
        const int at = BATCH * i / parts * l->pixels, n = BATCH * (i + 1) / parts * l->pixels - at;
        const float *dy = l->dy + at * out, *patches = l->patches + at * k;
        multiply(out, k, n, l->dense ? CHAIN : n, dy, 1, out, patches, sum[i]);
    }
    for (int apart = 1; apart < parts; apart *= 2)
        for (int i = 0; i < parts; i += 2 * apart)
            for (int w = 0; w < l->weight->n; w++) sum[i][w] += sum[i + apart][w];
    memcpy(l->weight->grad, sum[0], (size_t)l->weight->n * sizeof(float));
}

/* dx[row + i][column + j][c] = sum of dy[row][column][o] q[o][i][j][c], one chain over j, then i, then o. */
static void input_gradient(layer *l)
{
    memset(l->dx, 0, sizeof l->dx);
    if (l->dense) multiply(BATCH, l->k, l->out, CHAIN, l->dy, l->out, 1, l->q, l->dx);
    for (int j = 0; j < l->kernel && !l->dense; j++)
        for (int i = 0; i < l->kernel; i++)
            for (int p = 0; p < BATCH * l->pixels; p++)
                for (int o = 0; o < l->out; o++) {
                    const float *q  = l->q + o * l->k + (i * l->kernel + j) * l->c;
                    float       *dx = l->dx + place(l, p, i, j), dy = l->dy[p * l->out + o];
                    for (int c = 0; c < l->c; c++) dx[c] = fmaf(dy, q[c], dx[c]);
                }
}

/* --- batch norm, relu and max pooling ------------------------------------------------------- */

/* The mean and variance of channel k of y over the batch.  Each part sums the differences d from its first y
 * and d^2, in float and those of even and odd pixels apart; the parts are combined in double
 * [Chan, Golub, LeVeque 1983]. */
static void statistics(layer *l, int k)
{
    const int    parts = l->dense ? PARTS : BATCH;
    const double m = BATCH * l->pixels;
    double       n[BATCH], first[BATCH], sum[BATCH], squares[BATCH], mean = 0, var = 0;
    for (int i = 0, at = 0; i < parts; i++) {
        const int    end = BATCH * (i + 1) / parts * l->pixels;
        const float *y   = l->y + at * l->out + k;
        float        s[2] = { 0 }, s2[2] = { 0 };
        n[i] = end - at, first[i] = (double)y[0];
        for (int r = 0; at < end; r++, at++) {
            const float d = y[r * l->out] - y[0];
            s[r % 2] += d;
            s2[r % 2] = fmaf(d, d, s2[r % 2]);
        }
        sum[i] = (double)(s[0] + s[1]), squares[i] = (double)(s2[0] + s2[1]);
        mean += n[i] * first[i] + sum[i];
    }
    mean /= m;
    for (int i = 0; i < parts; i++) {
        const double off = first[i] + sum[i] / n[i] - mean;
        var += squares[i] - sum[i] * sum[i] / n[i] + n[i] * off * off;
    }
    var            = var > 0 ? var / m : 0;
    l->unbiased[k] = (float)(var * m / (m - 1));
    l->centre[k]   = (float)mean;
    l->rest[k]     = (float)(mean - (double)l->centre[k]);
    l->inverse[k]  = (float)(1 / sqrt(var + 1e-5));
}

/* Of z = gamma (y - mean) inverse + beta in channel k, pooling and relu keep the largest of a window or 0. */
static void norm(layer *l, int k, float *result)
{
    const int wide = l->wide / l->pool;
    statistics(l, k);
    l->slope[k]        = l->gamma->value[k] * l->inverse[k];
    const float offset = l->beta->value[k] - l->slope[k] * l->rest[k];
    for (int i = 0; i < BATCH * wide * wide; i++) {
        const int r = i * l->out + k;
        const int corner = (i / wide * l->wide + i % wide) * l->pool * l->out + k;
        result[r] = 0, l->from[r] = corner;
        for (int t = 0; t < l->pool * l->pool; t++) {
            const int   at = corner + (t / l->pool * l->wide + t % l->pool) * l->out;
            const float z  = fmaf(l->slope[k], l->y[at] - l->centre[k], offset);
            if (z > result[r]) result[r] = z, l->from[r] = at;
        }
    }
}

/*     dbeta = sum of dz,   dgamma = sum of dz xhat,   xhat = (y - mean) inverse,   over m pixels
 *     dy    = slope (dz - dbeta / m - xhat dgamma / m) = slope dz + p (y - centre) + q
 * dz is the gradient of a result for the z that was kept if it is above 0, and 0 for all others. */
static void norm_gradient(layer *l, int k, const float *result, float *dz)
{
    const int    windows = l->pixels / l->pool / l->pool, parts = l->dense ? PARTS : BATCH;
    const double m = BATCH * l->pixels, slope = (double)l->slope[k], rest = (double)l->rest[k];
    double       dbeta = 0, dgamma = 0;
    for (int i = 0, w = 0; i < parts; i++) {
        float s = 0, s2 = 0;
        for (; w < BATCH * (i + 1) / parts * windows; w++) {
            const int r = w * l->out + k;
            if (result[r] <= 0) dz[r] = 0;
            s += dz[r];
            s2 = fmaf(dz[r], l->y[l->from[r]] - l->centre[k], s2);
        }
        dbeta += (double)s, dgamma += (double)s2;
    }
    dgamma         = (dgamma - rest * dbeta) * (double)l->inverse[k];
    const double t = -slope * (double)l->inverse[k] * dgamma / m;
    const float  p = (float)t, q = (float)(-slope * dbeta / m - t * rest);
    for (int i = k; i < BATCH * l->pixels * l->out; i += l->out)
        l->dy[i] = fmaf(p, l->y[i] - l->centre[k], q);
    for (int i = k; i < BATCH * windows * l->out; i += l->out)
        l->dy[l->from[i]] = fmaf(l->slope[k], dz[i], l->dy[l->from[i]]);
    l->beta->grad[k] = (float)dbeta, l->gamma->grad[k] = (float)dgamma;
}

/* --- the net -------------------------------------------------------------------------------- */

/* exp(x), x <= 0, whose last bits differ between C libraries.  With x = k ln 2 + r it is 2^k exp(r), and
 * exp(r) is 1 + r + r^2 (1/2! + r/3! + .. + r^12/14!). */
static double exponential(double x)
{
    const double k = nearbyint(x * 0x1.71547652b82fep+0);                       /* ln 2 is in two parts */
    const double a = x - k * 0x1.62e42feep-1, b = -(k * 0x1.a39ef35793c76p-33), r = a + b;
    double       p = 0;
    for (double n = 14, factorial = 87178291200; n >= 2; factorial /= n--) p = p * r + 1 / factorial;
    return x < -746 ? 0 : ldexp(1 + (r + (r * r * p + ((a - r) + b))), (int)k);
}

/* The loss is cross entropy, the mean over the batch of -log p[label] with p = softmax(y).  Its gradient is
 * dy = (p - 1[label]) / BATCH.  Returns how many images have their highest score at the label. */
static int loss_gradient(const int *batch)
{
    int    correct = 0;
    double db[CLASSES] = { 0 };
    for (int i = 0; i < BATCH; i++) {
        const float *y    = last->y + i * CLASSES;
        double       e[CLASSES], sum = 0;
        int          best = 0, right = label[batch[i]];
        for (int k = 1; k < CLASSES; k++) best = y[k] > y[best] ? k : best;
        for (int k = 0; k < CLASSES; k++) sum += e[k] = exponential((double)y[k] - (double)y[best]);
        for (int k = 0; k < CLASSES; k++) {
            last->dy[i * CLASSES + k] = (float)(1.0 / BATCH * (e[k] / sum - (k == right)));
            db[k] += (double)last->dy[i * CLASSES + k];
        }
        correct += best == right;
    }
    for (int k = 0; k < CLASSES; k++) last->bias->grad[k] = (float)db[k];
    return correct;
}

/* Initial weights are uniform in +-sqrt(6 / (inputs + outputs)) [Glorot, Bengio 2010].  TTQ's levels start as
 * the means of w above the threshold and of -w below minus the threshold. */
static void start(layer *l, const char *name)
{
    const int   outputs = l->dense ? l->out : l->kernel * l->kernel * l->out;
    const float bound   = (float)sqrt(6.0 / (l->k + outputs));
    uint64_t    stream  = derive(SEED, FOR_WEIGHTS);
    double      sum[2] = { 0 }, kept[2] = { 0 };
    for (const char *c = name; *c; c++) stream = bits(stream, (uint64_t)*c);
    for (int i = 0; i < l->weight->n; i++)
        l->weight->value[i] =
            bound * (2 * ((float)(bits(stream, (uint64_t)i) >> 40) * 0x1p-24f) - 1);
    quantize(l);
    for (int i = 0; i < l->weight->n; i++) {
        const float w = l->weight->value[i];
        if (fabsf(w) > l->threshold) sum[w < 0] += (double)fabsf(w), kept[w < 0]++;
    }
    for (int s = 0; s < 2 && l->scale[s]; s++) *l->scale[s]->value = (float)(sum[s] / kept[s]);
}

/* kernel 0: as large as the input, which makes a dense layer.  norm NULL: no batch norm. */
static void build(layer *l, bool ttq, const char *name, const char *norm, int kernel, int out, int pool)
{
    l->dense = kernel == 0, l->out = out, l->pool = pool;
    l->side = l > net ? l[-1].wide / l[-1].pool : 28, l->c = l > net ? l[-1].out : 1;
    l->kernel = kernel ? kernel : l->side, l->k = l->kernel * l->kernel * l->c;
    l->wide = l->side - l->kernel + 1, l->pixels = l->wide * l->wide;
    (l->weight = declare(name, "weight", out, l->kernel, l->c, 0))->decay = 1e-4f;
    if (!norm) l->bias = declare(name, "bias", 1, 1, out, 0);
    for (int s = 0; s < 2 && ttq; s++)
        (l->scale[s] = declare(name, s ? "weight.wn" : "weight.wp", 1, 1, 1, 1))->rate = 0.1f;
    start(l, name);
    if (!norm) return;
    l->gamma = declare(norm, "gamma", 1, 1, out, 1);
    l->beta  = declare(norm, "beta", 1, 1, out, 0);
    l->mean  = declare(norm, "running_mean", 1, 1, out, 0);
    l->var   = declare(norm, "running_var", 1, 1, out, 1);
}

static void forward(const int *batch)       /* the numbers of its images */
{
    for (int i = 0; i < BATCH * PIXELS; i++)
        net->x[i] = (float)image[batch[i / PIXELS]][i % PIXELS] / 255;
    for (layer *l = net; l <= last; l++) {
        quantize(l);
        product(l);
        for (int k = 0; k < l->out && l->gamma; k++) norm(l, k, l[1].x);
    }
}

static void backward(void)
{
    for (layer *l = last; l >= net; l--) {
        for (int k = 0; k < l->out && l->gamma; k++) norm_gradient(l, k, l[1].x, l[1].dx);
        weight_gradient(l);
        level_gradient(l);
        if (l > net) input_gradient(l);
    }
}

/* The mean and variance for use come from some batches of the next epoch, with the weights as they are now.
 * Averages over the steps would not fit them: quantized weights jump. */
static void estimate(void)
{
    const int some = images / BATCH / 16, batches = some < 4 ? 4 : some > 32 ? 32 : some;
    for (int b = 0; b < batches && b < images / BATCH; b++) {
        forward(order + b * BATCH);
        for (layer *l = net; l < last; l++)
            for (int k = 0; k < l->out; k++) {
                const double m = BATCH * l->pixels, before = b * m, all = before + m;
                if (b == 0) l->average[k] = l->squares[k] = 0;
                const double d = (double)l->centre[k] - l->average[k];
                l->average[k] += d * m / all;
                l->squares[k] += (m - 1) * (double)l->unbiased[k] + d * d * before * m / all;
                l->mean->value[k] = (float)l->average[k];
                l->var->value[k]  = (float)(l->squares[k] / (all - 1));
            }
    }
}

int main(int argc, char **argv)
{
    const char *dir    = argc > 1 ? argv[1] : "datasets/mnist";
    const int   epochs = argc > 2 ? atoi(argv[2]) : 1;
    const bool  ttq    = argc > 3 && !strcmp(argv[3], "ttq");
    read_file(dir, "train-labels-idx1-ubyte", 8, 1, label);
    read_file(dir, "train-images-idx3-ubyte", 16, PIXELS, image);
    build(net + 0, ttq, "conv1", "bn1", 5, 32, 2);
    build(net + 1, ttq, "conv2", "bn2", 5, 64, 2);
    build(net + 2, ttq, "fc1", "bn3", 0, 512, 1);
    build(net + 3, ttq, "fc2", NULL, 0, CLASSES, 1);
    shuffle(0);
    for (int epoch = 0; epoch < epochs; epoch++) {
        int correct = 0;
        for (int i = 0; i < images; i += BATCH) {
            forward(order + i);
            correct += loss_gradient(order + i);
            backward();
            update(rate_at((float)(((double)epoch * images + i) / ((double)epochs * images))));
        }
        shuffle(epoch + 1);
        estimate();
        printf("epoch %d  training accuracy %.2f %%  digest %016llx\n", epoch + 1,
               100.0 * correct / images, digest());
    }
    return 0;
}
