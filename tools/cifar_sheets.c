/* cifar_sheets SHEET.png LABELS.json FIRST OUT.bin — converts a sheet of images to a file of CIFAR-10's binary
 * version.
 *
 * Row i of the sheet has the 1024 RGB pixels of image i, row by row.  LABELS.json is an array of numbers 0..9;
 * element FIRST, counted from 0, is the label of row 0.  OUT.bin is written completely or not at all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/file.h"
#include "core/io/json.h"
#include "datasets/image.h"

enum { PIXELS = 32 * 32, CHANNELS = 3, CLASSES = 10, RECORD = 1 + CHANNELS * PIXELS, MAX_LABEL_BYTES = 1 << 20 };

/* Labels first .. first + n-1 of the array. */
static bool take_labels(qg_json *j, size_t first, size_t n, uint8_t *labels)
{
    if (!qg__json_expect(j, '[')) return false;
    for (size_t i = 0;; i++) {
        bool   more;
        size_t label;
        if (!qg__json_next(j, i == 0, ']', &more)) return false;
        if (!more) return i >= first + n || qg__json_bad(j, "fewer labels than images");
        if (!qg__json_size(j, &label)) return false;
        if (label >= CLASSES) return qg__json_bad(j, "a label that is not in 0..9");
        if (i >= first && i < first + n) labels[i - first] = (uint8_t)label;
    }
}

static qg_status read_labels(const char *path, size_t first, size_t n, uint8_t *labels)
{
    unsigned char *bytes  = NULL;
    size_t         size   = 0;
    qg_status      status = qg__file_read_in(QG_BY_PATH, path, MAX_LABEL_BYTES, &bytes, &size);
    if (status) return status;
    qg_json j = { .path = path, .start = bytes, .at = bytes, .end = bytes + size };
    if (take_labels(&j, first, n, labels)) qg__json_at_end(&j);
    free(bytes);
    return j.status;
}

static qg_status write_records(const char *path, const uint8_t *sheet, const uint8_t *labels, size_t n)
{
    qg_file *f = qg__file_begin_in(QG_BY_PATH, path);
    for (size_t i = 0; i < n; i++) {
        uint8_t        record[RECORD];
        const uint8_t *row = sheet + i * CHANNELS * PIXELS;
        record[0]          = labels[i];
        for (int k = 0; k < PIXELS; k++)
            for (int c = 0; c < CHANNELS; c++) record[1 + c * PIXELS + k] = row[CHANNELS * k + c];
        qg__file_put(f, record, RECORD);
    }
    return qg__file_commit(f);
}

static qg_status convert(const char *sheet, const char *labels, size_t first, const char *out)
{
    qg_shape shape  = { 1, 0, PIXELS, CHANNELS };
    uint8_t *pixels = qg__png_read(sheet, &shape);
    if (!pixels) return QG_EFORMAT;
    const size_t n      = (size_t)shape.h;
    uint8_t     *label  = malloc(n);
    qg_status    status = label ? read_labels(labels, first, n, label) : qg_fail(QG_EMEM, "out of memory: %zu labels", n);
    if (!status) status = write_records(out, pixels, label, n);
    free(label);
    free(pixels);
    return status;
}

int main(int argc, char **argv)
{
    const bool usable = argc == 5 && *argv[3] && strlen(argv[3]) < 9 &&
                        strspn(argv[3], "0123456789") == strlen(argv[3]);
    if (!usable) {
        fprintf(stderr, "usage: cifar_sheets SHEET.png LABELS.json FIRST OUT.bin\n");
        return 2;
    }
    return convert(argv[1], argv[2], strtoul(argv[3], NULL, 10), argv[4]) ? qg_print_error("cifar_sheets") : 0;
}
