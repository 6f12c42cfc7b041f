/* GCN and ZCA.  Sums run over blocks of images and products over blocks of rows.  Both depend on the set
 * alone, so the bits do not depend on the number of threads.  Those of the matrix depend on OpenBLAS and
 * LAPACK, so a run stores it; what a given matrix makes of an image does not. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cblas.h>

#include "datasets/normalise.h"

#include "core/kernels/dense_kernel.h"
#include "core/kernels/parallel.h"

/* A piece of a product is large enough to run at full speed. */
enum { BLOCK = 512, PIECE_ROWS = 64, PIECE_IMAGES = 32 };

/* Pylearn2: GlobalContrastNormalization(scale=55.) with its min_divisor, ZCA() with its filter_bias. */
static const double SCALE = 55, LEAST_NORM = 1e-8, BIAS = 0.1;

static int pieces_of(size_t n, int size) { return (int)((n + (size_t)size - 1) / (size_t)size); }

static int rest_of(size_t n, size_t begin, int size)
{
    return n - begin < (size_t)size ? (int)(n - begin) : size;
}

/* --- a block of images -------------------------------------------------------------------- */

typedef struct block {
    const qg__dataset *set;
    const float       *mean;    /* [row], subtracted after GCN; or NULL */
    size_t             row;
    int                first, n;
    float             *x;       /* [BLOCK][row] */
} block;

static void contrast(const uint8_t *image, size_t row, float *to)
{
    double sum = 0, squares = 0;
    for (size_t k = 0; k < row; k++) sum += image[k];
    const double mean = sum / (double)row;
    for (size_t k = 0; k < row; k++) squares += (image[k] - mean) * (image[k] - mean);
    const double norm  = sqrt(squares) / (255 * SCALE);
    const double scale = 1 / (255 * (norm < LEAST_NORM ? 1 : norm));
    for (size_t k = 0; k < row; k++) to[k] = (float)((image[k] - mean) * scale);
}

static void load_piece(void *context, int piece, int worker)
{
    const block *b     = context;
    const int    begin = piece * PIECE_IMAGES, n = rest_of((size_t)b->n, (size_t)begin, PIECE_IMAGES);
    for (int i = begin; i < begin + n; i++) {
        float *to = b->x + (size_t)i * b->row;
        contrast(b->set->images + (size_t)(b->first + i) * b->row, b->row, to);
        for (size_t k = 0; b->mean && k < b->row; k++) to[k] -= b->mean[k];
    }
}

/* Loads the images from first on; false at the end of the set. */
static bool load(block *b, int first)
{
    if (first >= b->set->shape.n) return false;
    b->first = first;
    b->n     = rest_of((size_t)b->set->shape.n, (size_t)first, BLOCK);
    qg_parallel(pieces_of((size_t)b->n, PIECE_IMAGES), load_piece, b);
    return true;
}

/* --- mean and covariance ------------------------------------------------------------------ */

static void fit_mean(block *b, double *sum, float *mean)
{
    memset(sum, 0, b->row * sizeof *sum);
    for (int first = 0; load(b, first); first += BLOCK)
        for (int i = 0; i < b->n; i++)
            for (size_t k = 0; k < b->row; k++) sum[k] += (double)b->x[(size_t)i * b->row + k];
    for (size_t k = 0; k < b->row; k++) mean[k] = (float)(sum[k] / b->set->shape.n);
}

/* c += a^T a in its lower half, a [n][row]. */
typedef struct square {
    const float *a;
    float       *c;     /* [row][row] */
    int          n, row;
    float        beta;
} square;

static void square_piece(void *context, int piece, int worker)
{
    const square *s     = context;
    const int     begin = piece * PIECE_ROWS, m = rest_of((size_t)s->row, (size_t)begin, PIECE_ROWS);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, m, begin + m, s->n, 1, s->a + begin, s->row, s->a,
                s->row, s->beta, s->c + (size_t)begin * (size_t)s->row, s->row);
}

static qg_status fit_covariance(block *b, float *c)
{
    square    s      = { .a = b->x, .c = c, .row = (int)b->row };
    qg_status status = QG_OK;
    for (int first = 0; !status && load(b, first); first += BLOCK, s.beta = 1) {
        s.n    = b->n;
        status = qg_parallel_blas(pieces_of(b->row, PIECE_ROWS), square_piece, &s);
    }
    return status;
}

/* --- eigenvectors of a symmetric matrix ---------------------------------------------------- */

/* LAPACK has no header.  Fortran passes everything by address, and the lengths of its strings after the last
 * argument. */
void dsyevd_(const char *job, const char *part, const int *n, double *a, const int *lda, double *value,
             double *work, const int *lwork, int *iwork, const int *liwork, int *info, size_t job_length,
             size_t part_length);

/* Column by column, as Fortran stores matrices, the rows of a are columns and its lower half is the
 * upper one. */
static int decompose(int n, double *a, double *value, double *work, int lwork, int *iwork, int liwork)
{
    int info = 0;
    dsyevd_("V", "U", &n, a, &n, value, work, &lwork, iwork, &liwork, &info, 1, 1);
    return info;
}

typedef struct eigen {
    int       n;
    double   *a, *value;
    qg_status status;
} eigen;

static qg_status solve(int n, double *a, double *value)
{
    double size  = 0;
    int    isize = 0;
    if (decompose(n, a, value, &size, -1, &isize, -1))
        return qg_fail(QG_EARG, "a %d x %d matrix is too large for LAPACK", n, n);
    const int lwork  = (int)size;
    double   *work   = malloc((size_t)lwork * sizeof *work);
    int      *iwork  = malloc((size_t)isize * sizeof *iwork);
    qg_status status = QG_OK;
    if (!work || !iwork)
        status = qg_fail(QG_EMEM, "out of memory: eigenvectors of a %d x %d matrix", n, n);
    else if (decompose(n, a, value, work, lwork, iwork, isize))
        status = qg_fail(QG_ENAN, "the eigenvectors of a %d x %d matrix did not converge", n, n);
    free(work);
    free(iwork);
    return status;
}

/* The only piece, so it runs on the caller's thread and sets that thread's error message. */
static void eigen_piece(void *context, int index, int worker)
{
    eigen *e = context;
    e->status = solve(e->n, e->a, e->value);
}

qg_status qg__eigen(int n, double *a, double *value)
{
    eigen           e      = { n, a, value, QG_OK };
    const qg_status status = qg_parallel_blas(1, eigen_piece, &e);
    return status ? status : e.status;
}

/* --- (C + bias)^(-1/2) -------------------------------------------------------------------- */

/* a holds the eigenvectors v_j as rows; P = sum_j v_j v_j^T / sqrt(d_j), and so the square of the rows
 * v_j / d_j^(1/4).  scratch [row][row] holds those. */
static qg_status invert_root(const double *a, const double *d, int row, float *scratch, float *p)
{
    for (int j = 0; j < row; j++) {
        if (!(d[j] > 0)) return qg_fail(QG_ENAN, "an eigenvalue of the images' covariance is %g", d[j]);
        const double scale = 1 / sqrt(sqrt(d[j]));
        for (int k = 0; k < row; k++) {
            const size_t at = (size_t)j * (size_t)row + (size_t)k;
            scratch[at]     = (float)(a[at] * scale);
        }
    }
    square          s      = { .a = scratch, .c = p, .n = row, .row = row };
    const qg_status status = qg_parallel_blas(pieces_of((size_t)row, PIECE_ROWS), square_piece, &s);
    for (size_t i = 0; !status && i < (size_t)row; i++)
        for (size_t k = i + 1; k < (size_t)row; k++) p[i * (size_t)row + k] = p[k * (size_t)row + i];
    return status;
}

/* d [row] holds the sums of the mean at first. */
static qg_status fit(qg_preprocess *s, const qg__dataset *set, float *x, double *a, double *d)
{
    const size_t row = qg_row(s->shape);
    block        b   = { .set = set, .row = row, .x = x };
    fit_mean(&b, d, s->mean);
    b.mean = s->mean;
    qg_status status = fit_covariance(&b, s->whitening);
    for (size_t i = 0; !status && i < row; i++) {
        for (size_t k = 0; k <= i; k++) a[i * row + k] = (double)s->whitening[i * row + k] / set->shape.n;
        a[i * row + i] += BIAS;
    }
    if (!status) status = qg__eigen((int)row, a, d);
    return status ? status : invert_root(a, d, (int)row, x, s->whitening);
}

qg_status qg__whiten_fit(qg_preprocess *s, const qg__dataset *set)
{
    /* LAPACK counts its scratch, a little over 2 row^2 doubles, in an int. */
    enum { MOST_ROW = 32000 };
    const size_t row = qg_row(s->shape);
    if (row > MOST_ROW)
        return qg_fail(QG_EARG, "images " QG_SHAPE_FMT " have %zu values; whitening takes at most %d",
                       QG_SHAPE_ARGS(set->shape), row, (int)MOST_ROW);
    float    *x = malloc((row > BLOCK ? row : BLOCK) * row * sizeof *x);
    double   *a = malloc(row * row * sizeof *a), *d = malloc(row * sizeof *d);
    qg_status status = x && a && d ? fit(s, set, x, a, d)
                                   : qg_fail(QG_EMEM, "out of memory: whitening of %zu values", row);
    free(x);
    free(a);
    free(d);
    return status;
}

/* --- the images --------------------------------------------------------------------------- */

/* to = x P, with P symmetric, in columns of to: the same bits on every machine, and for any images beside. */
typedef struct product {
    const qg_preprocess     *s;
    const qg__dense_kernels *kernels;
    const float             *x;         /* [n][row] */
    int                      n;         /* at most BLOCK */
    float                   *to;        /* [n][row] */
    float                   *scratch;   /* [threads][size] */
    size_t                   size;
} product;

enum { COLUMNS = 128 };

/* All of a piece's product but its place. */
static qg__dense_product columns_of(const product *p, int piece)
{
    const size_t row = qg_row(p->s->shape), at = (size_t)piece * COLUMNS;
    return (qg__dense_product){ .lanes    = rest_of(row, at, COLUMNS),
                                .rows     = p->n,
                                .steps    = (int)row,
                                .p        = { p->s->whitening + at, 1, (ptrdiff_t)row },
                                .q        = { p->x, (ptrdiff_t)row, 1 },
                                .out_lane = 1,
                                .out_row  = (ptrdiff_t)row };
}

static void product_piece(void *context, int piece, int worker)
{
    const product    *p = context;
    qg__dense_product m = columns_of(p, piece);
    m.out               = p->to + (size_t)piece * COLUMNS;
    p->kernels->multiply(&m, p->scratch + (size_t)worker * p->size);
}

float *qg__whiten(const qg_preprocess *s, const qg__dataset *set)
{
    const size_t n = (size_t)set->shape.n, row = qg_row(s->shape);
    float       *x  = malloc(BLOCK * row * sizeof *x);
    float       *to = row > SIZE_MAX / sizeof *to / n ? NULL : malloc(n * row * sizeof *to);
    block        b  = { .set = set, .mean = s->mean, .row = row, .x = x };
    product      p  = { .s = s, .kernels = QG_KERNELS(qg__dense_kernels), .x = x, .n = rest_of(n, 0, BLOCK) };
    /* The last piece has fewer columns, but if they fill no vectors, it collects its sums in scratch. */
    const qg__dense_product first = columns_of(&p, 0), last = columns_of(&p, pieces_of(row, COLUMNS) - 1);
    p.size    = qg__dense_scratch(p.kernels, &last, qg__dense_scratch(p.kernels, &first, 0));
    p.scratch = aligned_alloc(64, (size_t)qg_threads() * p.size * sizeof *p.scratch);
    if (!x || !to || !p.scratch) {
        qg_fail(QG_EMEM, "out of memory: images " QG_SHAPE_FMT " as floats", QG_SHAPE_ARGS(set->shape));
        free(to);
        to = NULL;
    }
    for (int at = 0; to && load(&b, at); at += BLOCK) {
        p.n  = b.n;
        p.to = to + (size_t)at * row;
        qg_parallel(pieces_of(row, COLUMNS), product_piece, &p);
    }
    free(p.scratch);
    free(x);
    return to;
}
