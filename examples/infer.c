/* Classifies an image with a packed net.  Needs only libqgrad_infer.a and -lm, not the library that
 * trained the net.  The image is a binary PGM or PPM of the net's size.
 *
 *     build/examples/infer net.qg digit.pgm */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "infer/infer.h"

static void *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END)) return NULL;
    const long bytes = ftell(f);
    char      *all   = bytes < 0 ? NULL : malloc((size_t)bytes + 1);
    rewind(f);
    *n = all ? fread(all, 1, (size_t)bytes, f) : 0;
    if (all) all[*n] = '\0';
    fclose(f);
    return all;
}

/* The next number of a header, after spaces and comments; -1: none. */
static int number(const char **at)
{
    static const char space[] = " \t\r\n";
    int               n, length;
    *at += strspn(*at, space);
    while (**at == '#') *at += strcspn(*at, "\n"), *at += strspn(*at, space);
    if (sscanf(*at, "%d%n", &n, &length) != 1) return -1;
    *at += length;
    return n;
}

/* "P5 28 28 255", one space, and the bytes; P6 has three of them per pixel. */
static const uint8_t *pixels_of(const char *image, size_t n, qg_infer_shape s)
{
    if (strncmp(image, s.c == 3 ? "P6" : "P5", 2)) return NULL;
    const char  *at = image + 2;
    const int    w = number(&at), h = number(&at), most = number(&at);
    const size_t header = (size_t)(at - image) + 1, numbers = (size_t)s.h * (size_t)s.w * (size_t)s.c;
    if (w != s.w || h != s.h || most != 255 || n != header + numbers) return NULL;
    return (const uint8_t *)image + header;
}

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "infer: %s: %s\n", what, why);
    return 1;
}

int main(int argc, char **argv)
{
    size_t          n = 0, image_bytes = 0, bytes = 0;
    const qg_infer *net = NULL;
    if (argc != 3) return fail("usage", "infer net.qg image.pgm");
    void           *file   = read_file(argv[1], &n);
    if (!file) return fail(argv[1], strerror(errno));
    qg_infer_status s      = qg_infer_size(file, n, &bytes);
    void           *memory = s ? NULL : aligned_alloc(64, bytes);
    if (!s) s = qg_infer_load(file, n, memory, bytes, &net);
    if (s) return fail(argv[1], qg_infer_message(s));
    char *image = read_file(argv[2], &image_bytes);
    if (!image) return fail(argv[2], strerror(errno));
    const uint8_t *pixels = pixels_of(image, image_bytes, qg_infer_input(net));
    if (!pixels) return fail(argv[2], "not a binary PGM or PPM of the net's size");
    const int    classes = qg_infer_scores(net);
    const size_t work    = qg_infer_context_bytes(net, 1);
    float       *scores  = malloc((size_t)classes * sizeof *scores);
    void        *context = aligned_alloc(64, work);
    s = scores ? qg_infer_run_bytes(net, 1, pixels, scores, context, work) : QG_INFER_EMEMORY;
    if (s) return fail(argv[2], qg_infer_message(s));
    int k = 0;
    for (int i = 1; i < classes; i++) k = scores[i] > scores[k] ? i : k;
    return printf("%d\n", k) < 0;
}
