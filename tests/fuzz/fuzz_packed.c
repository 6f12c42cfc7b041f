/* Packed files: the bytes as they are, and again with the marks and the checksum that a damaged file lacks.
 * What is accepted and small runs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "infer/file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/nets.h"

enum { MOST_WORK = 1 << 20, MOST_MEMORY = 1 << 24, BATCH = 2 };

static void *lines(size_t bytes)
{
    void *p = aligned_alloc(64, bytes ? bytes : 64);
    MUST(p);
    return p;
}

/* Whether the images are finite; no others run. */
static bool run(const qg_infer *net, int n, const float *x, float *y)
{
    const qg_infer_shape s       = qg_infer_input(net);
    const size_t         bytes   = qg_infer_context_bytes(net, n),
                           numbers = (size_t)n * (size_t)s.h * (size_t)s.w * (size_t)s.c;
    void                *context = lines(bytes);
    bool                 finite  = true;
    for (size_t i = 0; i < numbers; i++) finite &= isfinite(x[i]) != 0;
    MUST(qg_infer_run(net, n, x, y, context, bytes) == (finite ? QG_INFER_OK : QG_INFER_ENAN));
    free(context);
    return finite;
}

/* Every image alone has the scores that it has in a batch. */
static void run_batch(const qg_infer *net, draws *d)
{
    const qg_infer_shape s = qg_infer_input(net);
    const size_t numbers = (size_t)s.h * (size_t)s.w * (size_t)s.c, scores = (size_t)qg_infer_scores(net);
    float               *x = malloc(BATCH * numbers * sizeof *x), *y = malloc(BATCH * scores * sizeof *y),
                        *alone = malloc(scores * sizeof *y);
    MUST(x && y && alone);
    for (size_t i = 0; i < BATCH * numbers; i++) x[i] = draw_float(d);
    if (!run(net, BATCH, x, y))
        for (size_t i = 0; i < BATCH * numbers; i++) x[i] = isfinite(x[i]) ? x[i] : 1.0f;
    MUST(run(net, BATCH, x, y));
    for (size_t i = 0; i < BATCH; i++) {
        MUST(run(net, 1, x + i * numbers, alone));
        for (size_t k = 0; k < scores; k++)
            MUST(alone[k] == y[i * scores + k] || (isnan(alone[k]) && isnan(y[i * scores + k])));
    }
    free(x), free(y), free(alone);
}

static void describe(const qg_infer *net)
{
    for (int i = 0; i < qg_infer_steps(net); i++) {
        fuzz_touch(qg_infer_step_name(net, i), strlen(qg_infer_step_name(net, i)));
        MUST(strlen(qg_infer_step_kind(net, i)) > 2);
    }
    const char *note = qg_infer_note(net, "class-names");
    if (note) fuzz_touch(note, strlen(note));
}

static void read_file(const uint8_t *file, size_t n, qg_infer_requantize how)
{
    size_t          bytes;
    qg__file        f;
    const qg_infer *net;
    const qg_infer_status s = qg_infer_size(file, n, &bytes);
    MUST(strlen(qg_infer_message(s)) > 2);
    if (s || bytes > MOST_MEMORY) return;
    void *memory = lines(bytes);
    MUST(!qg_infer_load_with(file, n, how, memory, bytes, &net));
    describe(net);
    MUST(!qg__file_open(file, n, &f));
    draws d = { file, n, 0 };
    if (fuzz_work(&f) <= MOST_WORK && qg_infer_context_bytes(net, BATCH) <= MOST_MEMORY) run_batch(net, &d);
    free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    read_file(bytes, n, QG_INFER_EVALUATE);
    if (n < QG__HEADER_BYTES) return 0;
    uint8_t *file = fuzz_sealed(bytes, n);
    read_file(file, n, n % 2 ? QG_INFER_TFLITE : QG_INFER_EVALUATE);
    free(file);
    return 0;
}
