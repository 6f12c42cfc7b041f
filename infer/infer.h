/* infer/infer.h — load a packed net and run it.
 *
 *     size_t bytes, work;
 *     qg_infer_status s = qg_infer_size(file, n, &bytes);
 *     void *memory = aligned_alloc(64, bytes);
 *     const qg_infer *net;
 *     s = qg_infer_load(file, n, memory, bytes, &net);
 *     work = qg_infer_context_bytes(net, 16);
 *     s = qg_infer_run(net, 16, images, scores, aligned_alloc(64, work), work);
 *
 * No globals, no heap, no threads: memory comes from the caller.  A loaded net is constant, and any number
 * of threads may run it, each with a context of its own.  The file may be discarded after qg_infer_load.  A
 * load that fails gives the net NULL, of which everything is 0 or NULL, and which runs with QG_INFER_EARG.
 *
 * qg_infer_load chooses the kernels of the widest instruction set that the machine has and that the
 * environment variable QGRAD_CPU (avx512, avx2 or baseline) allows, and packs the weights for them.  The
 * net keeps these kernels: nothing that runs it reads the environment.  qg_infer_size makes the same
 * choice, so QGRAD_CPU should not change between the two.
 *
 * It also chooses whether products read codes of at most 4 bits as bits or as bytes, by an estimate of
 * which is faster for an image at a time; QGRAD_PRODUCTS = bits | bytes forces one of them where both are
 * possible, and any other text is ignored.  Scores are the same.
 */
#ifndef QG_INFER_H
#define QG_INFER_H

/* The missing header ends the compilation, so that nothing follows the message. */
#if (defined(__SIZEOF_POINTER__) && __SIZEOF_POINTER__ < 8) || \
    (defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
#error "qgrad is for little-endian machines of 64 bits"
#include <nothing-else-can-be-compiled>
#endif

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qg_infer qg_infer;

typedef enum qg_infer_status {
    QG_INFER_OK,
    QG_INFER_EFORMAT,       /* no packed net, or one whose parts contradict each other */
    QG_INFER_EVERSION,      /* a format newer than this engine */
    QG_INFER_ECHECKSUM,     /* damaged */
    QG_INFER_EMEMORY,       /* memory of the caller is too small, or not aligned to 64 bytes */
    QG_INFER_EARG,
    QG_INFER_ENAN,          /* an image has a NaN or an infinity */
    QG_INFER_EMODE          /* this thread does not round to nearest, or flushes denormal numbers to zero, so
                               results would have other bits; of qg_infer_load and qg_infer_run */
} qg_infer_status;

const char *qg_infer_message(qg_infer_status s);        /* a constant; never NULL */

/* The bytes that load needs, a multiple of 64.  Validates the whole file: everything that load and run rely
 * on. */
qg_infer_status qg_infer_size(const void *file, size_t n, size_t *bytes);

/* Packs the weights for the kernels of this machine into memory, which must outlive the net. */
qg_infer_status qg_infer_load(const void *file, size_t n, void *memory, size_t bytes, const qg_infer **net);

/* How an accumulator of a product of 8-bit codes becomes an 8-bit code. */
typedef enum qg_infer_requantize {
    QG_INFER_EVALUATE,      /* by the arithmetic of evaluation, as the net was tested: what qg_infer_load
                               does */
    QG_INFER_TFLITE         /* by TFLite's fixed-point operator, only in integers: an int32 bias and a
                               31-bit factor per channel, with its two roundings.  A code is at most one
                               level away; load checks that for all sums, and a product for which it does
                               not hold is evaluated */
} qg_infer_requantize;

qg_infer_status qg_infer_load_with(const void *file, size_t n, qg_infer_requantize how, void *memory,
                                   size_t bytes, const qg_infer **net);

/* Products that are computed by the fixed-point operator. */
int qg_infer_fixed_point(const qg_infer *net);

typedef struct qg_infer_shape { int h, w, c; } qg_infer_shape;

qg_infer_shape qg_infer_input(const qg_infer *net);
int            qg_infer_scores(const qg_infer *net);                        /* per image */
const char    *qg_infer_note(const qg_infer *net, const char *key);         /* UTF-8; NULL: no such note, or
                                                                               key is NULL */
size_t         qg_infer_weight_bytes(const qg_infer *net);                  /* of packed weights in memory */

/* Scratch for runs of at most n images, a multiple of 64. */
size_t          qg_infer_context_bytes(const qg_infer *net, int n);

/* scores[n][scores] of images[n][h][w][c], which are normalised already.
 *
 * QG_INFER_ENAN: a value of an image is not finite, or not once a byte is normalised.  Codes of such values
 * would not be those of QG_EVAL, which refuses them as well; scores of images before it may have been
 * written.  Finite values are legal, but codes may differ from those of QG_EVAL where they are so large
 * that a sum overflows. */
qg_infer_status qg_infer_run(const qg_infer *net, int n, const float *images, float *scores, void *context,
                             size_t bytes);

/* The same of bytes 0 .. 255, which the net normalises.  QG_INFER_EARG: the file has no normalisation. */
qg_infer_status qg_infer_run_bytes(const qg_infer *net, int n, const uint8_t *images, float *scores,
                                   void *context, size_t bytes);

/* --- steps, for profiles ------------------------------------------------------------------------ */

int             qg_infer_steps(const qg_infer *net);
const char *qg_infer_step_name(const qg_infer *net, int step); /* "conv1"; of the layer that it ends with */
const char     *qg_infer_step_kind(const qg_infer *net, int step);  /* "product, 1 x 2 bits, as bytes" */

/* Images that pass through all steps together; larger batches run in groups of so many. */
int             qg_infer_images_at_once(const qg_infer *net);

/* qg_infer_run that calls after(user, step) when each step has run, for all images of this call if n is at
 * most qg_infer_images_at_once(net). */
qg_infer_status qg_infer_run_observed(const qg_infer *net, int n, const float *images, float *scores,
                                      void *context, size_t bytes, void (*after)(void *user, int step),
                                      void *user);

#ifdef __cplusplus
}
#endif

#endif
