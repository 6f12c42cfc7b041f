/* layers/export/export.h — a trained net as a file that other programs run.
 *
 * The file has what the net computes in QG_EVAL and nothing else: weights at the bits of their codes, batch norms
 * folded into two numbers per channel, activations between layers as codes where the next layer multiplies codes.  The
 * engine (infer/infer.h) computes the same scores from a packed file bit for bit (docs/packed-files.md).
 *
 *     qg_note        names = { "class-names", "cat/dog" };
 *     qg_export_spec spec  = { .notes = 1, .note = &names };
 *     if (qg_preprocess_numbers(qg_loader_preprocess(train), &spec.numbers, &spec.mean, &spec.deviation) ||
 *         qg_export(net, "net.qg", spec)) ...
 *
 * A file has one result, that of the last layer; other results (qg_net_mark_output) are left out.
 */
#ifndef QG_EXPORT_H
#define QG_EXPORT_H

#include <stdbool.h>

#include "core/io/state.h"
#include "layers/net.h"

typedef enum qg_export_format { QG_EXPORT_PACKED, QG_EXPORT_ONNX, QG_EXPORT_C } qg_export_format;

typedef struct qg_export_spec {
    qg_export_format format;    /* 0: packed */
    uint64_t       step;        /* of training: quantizers that start later (qg_quant.after) are left out, as in a tape of
                                   this step.  0: all have started; UINT64_MAX: it is the first step */
    int            numbers;     /* of mean and deviation: 1, c or h w c of an image */
    const float   *mean, *deviation;    /* x = (byte / 255 - mean) / deviation, finite, deviation > 0, which the file
                                           computes for images of bytes (qg_preprocess_numbers) */
    bool           floats_only; /* in place of these three: the file takes floats that the caller has normalised, and
                                   `qgrad predict` and `qgrad infer` refuse it */
    bool           nchw;        /* of ONNX: images are floats byte / 255, [N][c][h][w], in place of bytes [N][h][w][c] */
    int            notes;
    const qg_note *note;        /* UTF-8.  qgrad reads "class-names" ("cat/dog") and "data" ("mnist") */
} qg_export_spec;

/* Replaces the file, all or nothing (core/io/file.h).
 *
 * Fails    QG_EARG: no file can express a layer, as one of your own type without .pack, or a
 *          quantizer, as one with a scale per channel of its input; the message names the layer and
 *          says why.  QG_EARG: the spec says neither how bytes are normalised nor .floats_only.
 *          QG_ESTATE: a quantizer has seen no batch yet.  QG_ENAN: a number is
 *          not finite.  QG_ESHAPE, QG_EMEM, QG_EIO. */
QG_MUST_CHECK
qg_status qg_export(const qg_net *net, const char *path, qg_export_spec spec);

/* The file in memory, from malloc. */
QG_MUST_CHECK
qg_status qg_export_bytes(const qg_net *net, qg_export_spec spec, unsigned char **file, size_t *bytes);

#endif
