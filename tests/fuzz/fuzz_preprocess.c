/* Notes of checkpoints about preprocessing: a line each, a key and a value.  An image of more than 2^12
 * values is not tried, since a note may ask for the memory of the largest that a data set has. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/safetensors.h"
#include "datasets/normalise.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/room.h"

enum { MOST_VALUES = 1 << 12 };

static const char *path_of(const char *name)
{
    static char path[ROOM_BYTES];
    return strcpy(path, in_room(name));
}

/* The matrix for images of two values. */
static void write_matrix(void)
{
    static const float mean[] = { 0.5f, 0.25f }, matrix[] = { 2, -1, -1, 3 };
    static bool        done;
    if (done) return;
    qg_state *s = qg_state_new();
    qg_state_add(s, "mean", (qg_array){ QG_F32, 1, { 2 }, (void *)(uintptr_t)mean });
    qg_state_add(s, "whitening", (qg_array){ QG_F32, 2, { 2, 2 }, (void *)(uintptr_t)matrix });
    MUST(!qg_state_save(s, path_of(QG_WHITENING_FILE)));
    qg_state_free(s);
    done = true;
}

/* Whether the notes are those of a checkpoint. */
static bool save_notes(char *text)
{
    qg_state *s = qg_state_new();
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char *value = strchr(line, ' ');
        if (value) *value++ = '\0';
        qg_state_set_note(s, line, value ? value : "");
    }
    const char *image = qg_state_find_note(s, "image");
    qg_shape    shape;
    bool        small = !image || qg__image_parse(image, &shape) || qg_row(shape) <= MOST_VALUES;
    if (small) small = fuzz_ok(qg_state_save(s, path_of("checkpoint")));
    qg_state_free(s);
    return small;
}

/* It preprocesses images, and is noted as it was. */
static void check(const qg_preprocess *p)
{
    static uint8_t bytes[MOST_VALUES];
    static float   x[MOST_VALUES], again[MOST_VALUES];
    const size_t   row = qg_row(qg_preprocess_shape(p));
    for (size_t i = 0; i < row; i++) bytes[i] = (uint8_t)(37 * i);
    MUST(!qg_preprocess_bytes(p, bytes, x));
    qg_state *s = qg_state_new();
    qg_preprocess_note(p, s);
    MUST(!qg_state_save(s, path_of("again")));
    qg_state_free(s);
    qg_preprocess *q = qg_preprocess_open(path_of("again"));
    MUST(q);
    MUST(!qg_preprocess_bytes(q, bytes, again));
    MUST(!memcmp(x, again, row * sizeof *x));
    qg_preprocess_free(q);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *text = fuzz_text(bytes, n);
    write_matrix();
    if (save_notes(text)) {
        qg_preprocess *p = qg_preprocess_open(path_of("checkpoint"));
        if (fuzz_got(p)) check(p);
        qg_preprocess_free(p);
    }
    free(text);
    return 0;
}
