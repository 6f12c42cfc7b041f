#include "cli/report/page.h"

#include <inttypes.h>
#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "datasets/preprocess.h"

/* --- pictures --------------------------------------------------------------------------------- */

enum { PICTURE_SIDE = 64 };

/* The bytes [h][w][c] as a PNG file in memory, from malloc; c is 1 or 3.  NULL: QG_EMEM. */
static uint8_t *encode(qg_shape shape, const uint8_t *bytes, size_t *n)
{
    png_image m = { .version = PNG_IMAGE_VERSION,
                    .width   = (png_uint_32)shape.w,
                    .height  = (png_uint_32)shape.h,
                    .format  = shape.c == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB };
    png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(m);
    uint8_t         *file = malloc(size);
    if (file && png_image_write_to_memory(&m, file, &size, 0, bytes, 0, NULL)) {
        *n = size;
        return file;
    }
    png_image_free(&m);
    free(file);
    qg_fail(QG_EMEM, "out of memory for a picture of %d x %d", shape.w, shape.h);
    return NULL;
}

static char *base64(const uint8_t *bytes, size_t n, const char *before)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t      head    = strlen(before);
    char             *text    = malloc(head + (n + 2) / 3 * 4 + 1), *to = text;
    if (!text) return NULL;
    memcpy(to, before, head);
    to += head;
    for (size_t i = 0; i < n; i += 3) {
        const unsigned second = i + 1 < n ? bytes[i + 1] : 0, third = i + 2 < n ? bytes[i + 2] : 0;
        const unsigned v      = (unsigned)bytes[i] << 16 | second << 8 | third;
        *to++ = digit[v >> 18];
        *to++ = digit[v >> 12 & 63];
        *to++ = i + 1 < n ? digit[v >> 6 & 63] : '=';
        *to++ = i + 2 < n ? digit[v & 63] : '=';
    }
    *to = '\0';
    return text;
}

/* Any normalisation becomes a picture if its own extremes become black and white. */
static void stretch(size_t n, const float *x, uint8_t *to)
{
    float least = INFINITY, most = -INFINITY;
    for (size_t i = 0; i < n; i++) least = fminf(least, x[i]), most = fmaxf(most, x[i]);
    const float scale = most > least ? 255.0f / (most - least) : 0.0f;
    for (size_t i = 0; i < n; i++) to[i] = (uint8_t)lrintf((x[i] - least) * scale);
}

static qg_status draw(qg_shape s, const float *x, char **picture)
{
    const int      side  = s.h > s.w ? s.h : s.w;
    const qg_shape small = { 1, side > PICTURE_SIDE ? 1 + s.h * (PICTURE_SIDE - 1) / side : s.h,
                             side > PICTURE_SIDE ? 1 + s.w * (PICTURE_SIDE - 1) / side : s.w, s.c };
    uint8_t       *bytes = malloc(qg_row(s)), *shown = malloc(qg_row(small)), *png = NULL;
    size_t         n;
    if (bytes && shown) {
        stretch(qg_row(s), x, bytes);
        if (!qg_image_resize(bytes, s, shown, small)) png = encode(small, shown, &n);
    }
    *picture = png ? base64(png, n, "data:image/png;base64,") : NULL;
    free(png);
    free(shown);
    free(bytes);
    return *picture ? QG_OK : qg_fail(QG_EMEM, "out of memory for a picture");
}

qg_status mistakes_draw(mistakes *m, qg_loader *images)
{
    const qg_shape s      = qg_loader_shape(images);
    float         *x      = malloc(qg_row(s) * sizeof *x);
    qg_status      status = x ? QG_OK : qg_fail(QG_EMEM, "out of memory for an image");
    for (int i = 0; i < m->all.n_worst && !status && (s.c == 1 || s.c == 3); i++) {
        status = qg_loader_image(images, m->all.worst[i].image, x);
        if (!status) status = draw((qg_shape){ 1, s.h, s.w, s.c }, x, &m->picture[i]);
    }
    for (int i = 0; i < m->all.n_worst && !status; i++) {
        char path[QG__PATH_BYTES];
        if (qg_loader_file(images, m->all.worst[i].image, path, sizeof path)) m->file[i] = strdup(path);
    }
    free(x);
    return status;
}

void mistakes_end(mistakes *m)
{
    for (int i = 0; i < WORST_IMAGES; i++) free(m->picture[i]), free(m->file[i]);
    qg_assessment_free(&m->all);
    *m = (mistakes){ 0 };
}

/* --- the page ------------------------------------------------------------------------------ */

enum { MAP_CLASSES = 25, PAIRS = 20 };      /* more classes are listed as pairs */

/* Rows are labels, columns what the net said.  The darker a cell, the larger its share of the row. */
static void map(FILE *out, const qg_assessment *a, const qg_run *run)
{
    fputs("<div class=\"scroll\"><table class=\"map\"><thead><tr><th class=\"l\">label \\ said</th>", out);
    for (int k = 0; k < a->classes; k++) fputs("<th>", out), svg_text(out, qg_run_class(run, k)), fputs("</th>", out);
    fputs("<th>right</th></tr></thead><tbody>", out);
    for (int label = 0; label < a->classes; label++) {
        fputs("<tr><th class=\"l\">", out), svg_text(out, qg_run_class(run, label)), fputs("</th>", out);
        for (int said = 0; said < a->classes; said++) {
            const uint64_t n     = qg_assessment_confusion(a, label, said);
            const double   share = n ? (double)n / (double)a->labelled[label] : 0;
            if (n) fprintf(out, "<td style=\"background:rgba(var(--hit),%.2f)\">%" PRIu64 "</td>", 0.08 + 0.62 * share, n);
            else fputs("<td></td>", out);
        }
        const double recall = qg_assessment_recall(a, label);
        if (isnan(recall)) fputs("<td></td></tr>", out);
        else fprintf(out, "<td>%.1f&nbsp;%%</td></tr>", 100 * recall);
    }
    fputs("</tbody></table></div>", out);
}

static void pairs(FILE *out, const qg_assessment *a, const qg_run *run)
{
    fputs("<div class=\"scroll\"><table><thead><tr><th class=\"l\">label</th><th class=\"l\">said</th><th>images</th></tr></thead>"
          "<tbody>", out);
    for (size_t i = 0; i < a->n_confused && i < PAIRS; i++) {
        const qg_confused *c = &a->confused[i];
        fputs("<tr><td class=\"l\">", out), svg_text(out, qg_run_class(run, c->label));
        fputs("</td><td class=\"l\">", out), svg_text(out, qg_run_class(run, c->predicted));
        fprintf(out, "</td><td>%" PRIu64 "</td></tr>", c->count);
    }
    fputs("</tbody></table></div>", out);
}

/* Figures are narrow: the last part of a path, and all of it where the mouse rests. */
static void file_name(FILE *out, const char *path)
{
    const char *slash = strrchr(path, '/');
    fputs("<span title=\"", out), svg_text(out, path), fputs("\">", out);
    svg_text(out, slash ? slash + 1 : path);
    fputs("</span>", out);
}

static void worst(FILE *out, const mistakes *m, const qg_run *run)
{
    if (!m->all.n_worst) return;
    fputs("<h2>Worst mistakes</h2><p class=\"dim\">The images with the largest loss.  Each picture is stretched to its own "
          "darkest and brightest value.</p><div class=\"worst\">", out);
    for (int i = 0; i < m->all.n_worst; i++) {
        const qg_mistake *w = &m->all.worst[i];
        fputs("<figure>", out);
        if (m->picture[i]) fprintf(out, "<img alt=\"image %" PRIu64 "\" src=\"%s\">", w->image, m->picture[i]);
        fputs("<figcaption>", out), svg_text(out, qg_run_class(run, w->label));
        fputs(", said ", out), svg_text(out, qg_run_class(run, w->predicted));
        fputs("<br><small>", out);
        if (m->file[i]) file_name(out, m->file[i]);
        else fprintf(out, "image %" PRIu64, w->image);
        fprintf(out, "<br>loss %.2f</small></figcaption></figure>", w->loss);
    }
    fputs("</div>", out);
}

void page_mistakes(FILE *out, const mistakes *m, const qg_run *run)
{
    const qg_assessment *a = &m->all;
    fprintf(out, "<h2>Confusion</h2><p class=\"dim\">%" PRIu64 " of %" PRIu64 " %s images right.  Expected calibration error %.3f.  "
            "Rows are labels, columns what the net said.</p>", a->correct, a->images, m->split, qg_assessment_calibration_error(a));
    if (a->classes <= MAP_CLASSES) map(out, a, run);
    else pairs(out, a, run);
    worst(out, m, run);
}
