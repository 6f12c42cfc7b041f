/* JPEG files, by libjpeg. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "core/status.h"
#include "datasets/image.h"

typedef struct reading {
    qg__picture                  *m;
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr         errors;
    struct jpeg_progress_mgr      progress;
    jmp_buf                       failed;
    int                           orientation;  /* 1..8; 0: no Exif so far */
    uint8_t                      *inks;     /* [w][4], a row of a CMYK file */
} reading;

static void fail(j_common_ptr jpeg)
{
    reading *r = jpeg->client_data;
    char     why[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, why);
    if (jpeg->err->msg_code == JERR_OUT_OF_MEMORY) qg_fail(QG_EMEM, "out of memory: '%s'", r->m->path);
    else qg__image_damaged(r->m, why);
    longjmp(r->failed, 1);
}

/* A negative level is a warning: libjpeg makes up the pixels that follow.  Two warnings concern no pixel:
 * bytes between segments, which some cameras leave, and a version of JFIF. */
static void message(j_common_ptr jpeg, int level)
{
    const int code = jpeg->err->msg_code;
    if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_JFIF_MAJOR) fail(jpeg);
}

/* Each scan of a progressive file visits every block, and takes as little as ten bytes. */
static void check_scans(j_common_ptr jpeg)
{
    reading *r = jpeg->client_data;
    if (r->jpeg.input_scan_number <= QG__IMAGE_SCANS) return;
    qg_fail(QG_EFORMAT, "'%s' has more than %d scans", r->m->path, (int)QG__IMAGE_SCANS);
    longjmp(r->failed, 1);
}

/* Reads a segment of type APP1, which has Exif or something else.  libjpeg can keep such segments
 * (jpeg_save_markers), but in a list whose end it looks for at each of them: hours for millions. */
static boolean read_app1(j_decompress_ptr jpeg)
{
    static const char       name[] = "Exif\0";          /* and the zero after it */
    reading                *r      = jpeg->client_data;
    struct jpeg_source_mgr *from   = jpeg->src;
    const uint8_t          *at     = from->next_input_byte;
    const size_t            left   = from->bytes_in_buffer;
    const size_t            length = left < 2 ? 2 : (size_t)(at[0] << 8 | at[1]);
    const size_t            n      = length < left ? length : left;
    if (!r->orientation && n >= 2 + sizeof name && !memcmp(at + 2, name, sizeof name))
        r->orientation = qg__exif_orientation(at + 2 + sizeof name, n - 2 - sizeof name);
    from->skip_input_data(jpeg, length < 2 ? 2 : (long)length);
    return TRUE;
}

/* Adobe stores inks inverted: 255 is none. */
static void to_rgb(const uint8_t *inks, int w, uint8_t *row)
{
    for (int x = 0; x < w; x++)
        for (int c = 0; c < 3; c++)
            row[3 * x + c] = (uint8_t)((inks[4 * x + c] * inks[4 * x + 3] + 127) / 255);
}

/* libjpeg leaves through longjmp, so what changes meanwhile stands in *r and *r->m. */
static bool decode(reading *r)
{
    j_decompress_ptr jpeg = &r->jpeg;
    if (setjmp(r->failed)) return false;
    jpeg_create_decompress(jpeg);
    jpeg_mem_src(jpeg, r->m->bytes, r->m->n);
    jpeg_set_marker_processor(jpeg, JPEG_APP0 + 1, read_app1);
    jpeg_read_header(jpeg, TRUE);
    const bool inks = jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK;
    const bool grey = r->m->grey && !inks;
    if (!qg__image_allocate(r->m, jpeg->image_height, jpeg->image_width, grey ? 1 : 3)) return false;
    if (inks && !(r->inks = malloc(4 * (size_t)jpeg->image_width)))
        return qg_fail(QG_EMEM, "out of memory: a row of '%s'", r->m->path), false;

    jpeg->out_color_space = inks ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
    jpeg->progress        = &r->progress;
    jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        uint8_t *row = r->m->pixels + (size_t)jpeg->output_scanline * (size_t)r->m->w * (size_t)r->m->c;
        jpeg_read_scanlines(jpeg, inks ? &r->inks : &row, 1);
        if (inks) to_rgb(r->inks, r->m->w, row);
    }
    jpeg_finish_decompress(jpeg);
    return true;
}

bool qg__jpeg_decode(qg__picture *m)
{
    reading r                   = { .m = m };
    r.jpeg.err                  = jpeg_std_error(&r.errors);
    r.jpeg.client_data          = &r;
    r.errors.error_exit         = fail;
    r.errors.emit_message       = message;
    r.progress.progress_monitor = check_scans;
    const bool ok = decode(&r);
    jpeg_destroy_decompress(&r.jpeg);
    free(r.inks);
    return ok && qg__image_turn(m, r.orientation ? r.orientation : 1);
}
