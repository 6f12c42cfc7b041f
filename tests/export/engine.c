/* Compares a net in C with the engine: the codes and floats of every step that the net computes,
 * scores and labels, bit for bit.
 *
 *     cc -I. -DNET='"net.c"' -o engine tests/export/engine.c build/libqgrad_infer.a -lm
 *     ./engine net.qg IMAGES N             IMAGES: an idx file of bytes [..][h][w][c] */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "infer/net.h"

static void compare_step(const char *name, const void *values, int bytes);
#define NET_TRACE(name, values, bytes, lowest, h, w, c) compare_step(name, values, bytes)
#include NET

enum { HEADER = 16, NAME = 300 };

static const qg_infer *net;
static uint8_t        *context, **value;        /* of the engine, of one image: floats, or code - lowest */
static size_t         *number;                  /* how many */
static long            numbers, others;

static void die(const char *what)
{
    fprintf(stderr, "engine: %s\n", what);
    exit(1);
}

static void *room(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p) die("out of memory");
    return p;
}

static unsigned char *read_all(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END)) die(path);
    *n = (size_t)ftell(f);
    rewind(f);
    unsigned char *all = room(*n);
    if (fread(all, 1, *n, f) != *n) die(path);
    fclose(f);
    return all;
}

/* Keeps the value of a step as the net in C has it. */
static void keep(void *user, int i)
{
    const qg__infer_step *s    = &net->step[i];
    const uint8_t        *from = context + net->value[i + 1].at;
    const qg__codes       q    = { s->r.q_lowest, s->r.q_step, s->r.q_count };
    const size_t          oc   = (size_t)s->r.oc, words = qg__words(s->r.oc), n = number[i];
    (void)user;
    if (s->r.coding == QG__AS_FLOATS) memcpy(value[i], from, n * sizeof(float));
    else if (s->r.coding == QG__AS_BYTES) memcpy(value[i], from, n);
    else {
        const qg__alphabet a = qg__alphabet_of(q);
        for (size_t k = 0; k < n; k++) {
            const uint64_t *word = (const uint64_t *)(const void *)from;
            word += k / oc * (size_t)a.bits * words + k % oc / 64;
            int             code = qg__offset(a);
            for (int j = 0; j < a.bits; j++, word += words)
                code += qg__factor(a, j) * (int)(*word >> k % oc % 64 & 1);
            value[i][k] = (uint8_t)(code - q.lowest);
        }
    }
}

/* Letters and digits of a name, which is what an identifier has of it. */
static bool same_name(const char *a, const char *b)
{
    while (*a && (*a == *b || (*b == '_' && !isalnum((unsigned char)*a)))) a++, b++;
    return !*a && !*b;
}

static void compare_step(const char *name, const void *values, int bytes)
{
    for (int i = 0; i < net->steps; i++) {
        if (!same_name(net->step[i].name, name)) continue;
        const size_t each = (size_t)bytes, all = number[i] * each;
        numbers += (long)number[i];
        for (size_t k = 0; k < all; k += each)
            others += memcmp((const char *)values + k, value[i] + k, each) != 0;
        return;
    }
    die(name);
}

int main(int argc, char **argv)
{
    size_t bytes, image_bytes, memory;
    if (argc != 4) die("usage: engine net.qg IMAGES N");
    const unsigned char *file = read_all(argv[1], &bytes), *images = read_all(argv[2], &image_bytes);
    const int            n = atoi(argv[3]);
    const size_t         size = NET_HEIGHT * NET_WIDTH * NET_CHANNELS;
    if (qg_infer_size(file, bytes, &memory)) die(argv[1]);
    if (qg_infer_load(file, bytes, room(memory), memory, &net)) die(argv[1]);
    if (image_bytes < HEADER + (size_t)n * size) die(argv[2]);
    const size_t work = qg_infer_context_bytes(net, 1);
    context = room(work);
    value   = room((size_t)net->steps * sizeof *value);
    number  = room((size_t)net->steps * sizeof *number);
    float *x = room(size * sizeof *x);
    for (int i = 0; i < net->steps; i++) {
        number[i] = (size_t)net->step[i].r.oh * (size_t)net->step[i].r.ow * (size_t)net->step[i].r.oc;
        value[i]  = room(number[i] * sizeof(float));
    }
    long labels = 0, scores = 0;
    for (int i = 0; i < n; i++) {
        float                own[NET_SCORES], theirs[NET_SCORES];
        const unsigned char *image = images + HEADER + (size_t)i * size;
        for (size_t k = 0; k < size; k++)
            x[k] = ((float)image[k] / 255.0f - net->mean[k % net->normal]) / net->deviation[k % net->normal];
        if (qg_infer_run_observed(net, 1, x, theirs, context, work, keep, NULL)) die("the engine fails");
        const int label = net_predict(image, own);
        labels += label == largest(NET_SCORES, theirs);
        for (int k = 0; k < NET_SCORES; k++) scores += memcmp(&own[k], &theirs[k], sizeof *own) == 0;
    }
    printf("%ld of %d labels, %ld of %ld scores and %ld of %ld codes and floats of steps are equal\n",
           labels, n, scores, (long)n * NET_SCORES, numbers - others, numbers);
    return labels != n || scores != (long)n * NET_SCORES || others;
}
