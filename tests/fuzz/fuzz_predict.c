/* A packed net and a picture for it.  The first byte says what the picture is (tests/fuzz/pictures.h) and
 * whether the net gets a valid checksum; the next two, how many bytes are the net.  What qgrad predict says
 * depends on both files alone, not on what its memory held before. */
#include <stdlib.h>
#include <string.h>

#include "cli/config/config.h"
#include "cli/predict/scorer.h"
#include "datasets/image.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/nets.h"
#include "tests/fuzz/pictures.h"
#include "tests/support/room.h"

enum { MOST_WORK = 1 << 18, MOST_MEMORY = 1 << 22 };

typedef enum demand { NO_NET, SMALL, LARGE } demand;

/* What loading the file and, if images may have its shape, running it takes. */
static demand demand_of(const uint8_t *file, size_t n, qg_shape *image)
{
    size_t          bytes;
    qg__file        f;
    const qg_infer *net;
    if (qg_infer_size(file, n, &bytes) || qg__file_open(file, n, &f)) return NO_NET;
    *image = (qg_shape){ 1, f.h, f.w, f.c };
    if (bytes > MOST_MEMORY) return LARGE;
    if (qg__image_wanted("net", *image)) return SMALL;
    void *memory = aligned_alloc(64, bytes);
    MUST(memory && !qg_infer_load(file, n, memory, bytes, &net));
    const size_t work = qg_infer_context_bytes(net, 1);
    free(memory);
    return fuzz_work(&f) <= MOST_WORK && work <= MOST_MEMORY ? SMALL : LARGE;
}

/* One prediction, in memory that has this byte everywhere. */
static float *scores_of(scorer *s, const char *picture, uint8_t fill)
{
    const size_t n     = qg_row(s->image), scores = (size_t)s->classes * sizeof(float);
    uint8_t     *bytes = malloc(n);
    float       *to    = malloc(scores);
    MUST(bytes && to);
    memset(bytes, fill, n);
    memset(to, fill, scores);
    bool         deep;
    const bool   ok = qg__image_resized(picture, s->image, bytes, &deep) &&
                      fuzz_ok(scorer_score(s, 1, bytes, to));
    free(bytes);
    if (ok) return to;
    free(to);
    return NULL;
}

static void score_twice(const config *asked, const char *picture)
{
    scorer s = { .run = NULL };
    if (fuzz_ok(scorer_begin(&s, asked))) {
        float *a = scores_of(&s, picture, 0), *b = scores_of(&s, picture, 0xFF);
        MUST(!a == !b && (!a || !memcmp(a, b, (size_t)s.classes * sizeof *a)));
        free(a), free(b);
    }
    scorer_end(&s);
}

static void predict(const char *net, char *picture, uint8_t how, demand d, qg_shape image)
{
    config     asked = { .verb = &predict_verb, .operand = &picture, .operands = 1 };
    const char top[] = { (char)('1' + how % 4), '\0' };
    MUST(!config_set(&asked, "packed", net) && !config_set(&asked, "top", top) && !config_set(&asked, "threads", "1") &&
         !config_set(&asked, "json", how & 64 ? "true" : "false"));
    fuzz_mute(true);
    const int status = predict_verb.run(&asked);
    fuzz_mute(false);
    MUST(status == EXIT_DONE || status == EXIT_FAILED || status == EXIT_USAGE);
    if (status == EXIT_DONE) MUST(d == SMALL && !qg__image_wanted(net, image));
    if (d == SMALL) score_twice(&asked, picture);
    config_free(&asked);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    enum { BEFORE = 3 };
    if (n < BEFORE) return 0;
    const size_t   asked = (size_t)bytes[1] | (size_t)bytes[2] << 8, rest = n - BEFORE;
    const size_t   size  = asked < rest ? asked : rest;
    const bool     seals = size >= QG__HEADER_BYTES && !(bytes[0] & 128);
    uint8_t *file = seals ? fuzz_sealed(bytes + BEFORE, size) : (uint8_t *)fuzz_text(bytes + BEFORE, size);
    qg_shape       image = { 0 };
    const demand   d     = demand_of(file, size, &image);
    char           net[ROOM_BYTES], picture[ROOM_BYTES];
    strcpy(net, in_room("net.qg"));
    strcpy(picture, in_room("picture"));
    write_in_room("net.qg", file, size);
    free(file);
    if (d != LARGE && fuzz_picture("picture", (fuzz_kind)(bytes[0] % 3), bytes + BEFORE + size, rest - size))
        predict(net, picture, bytes[0], d, image);
    return 0;
}
