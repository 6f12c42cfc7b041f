/* tests/support/integer.h — one convolution that trains in integers, and its step by the definition in
 * layers/integer.h, with sums of 64 bits. */
#ifndef TEST_INTEGER_H
#define TEST_INTEGER_H

#include "layers/evaluate.h"
#include "layers/integer.h"

/* kernel_w 0: kernel. */
typedef struct shape {
    int  n, h, w, c, out, kernel, kernel_w, stride, pad;
    bool same, bias;
} shape;

/* Of the tape of a trial. */
enum { KEY = 7, STEP = 3 };

/* Two products of one input and one weight, whose gradients are given. */
enum { PRODUCTS = 2 };

typedef struct trial {
    char        what[256];
    shape       s;
    qg_net     *net;
    qg_product *p;
    qg_params   own;
    qg_param   *x;
    qg_tape    *t;
    float      *dy[PRODUCTS];
    size_t      images, results;    /* numbers of x and of y */
} trial;

qg_quant parsed_quant(const char *text, qg_role role);
void     open_quantized(trial *r, shape s, qg_quant weight, qg_quant input, qg_quant gradient);
void     open_trial(trial *r, shape s, const char *weight, const char *input, const char *gradient);
void     close_trial(trial *r);

/* dL/dx = what it was given, under a loss of 0, which is finite whatever the gradient is.  dy is borrowed. */
qg_var  *given(qg_tape *t, qg_var *x, const float *dy);

bool     in_integers(const qg_var *y);

/* A step with the first gradient.  begin clears all gradients; run_layer runs the layer as a net does, and
 * run_floats what layers/product.c records where a product is not in integers.  Both give the product. */
void     begin(trial *r, uint64_t step, bool retain);
void     backward(trial *r, qg_var *loss);
qg_var  *run_layer(trial *r, bool retain);
qg_var  *run_floats(trial *r);

/* Codes, scales and results of one product, and the sum of the absolute values of each result's terms. */
typedef struct definition {
    qg__geometry g;
    int          n;
    int32_t     *x, *w, *dy;
    float        x_scale, *w_scale, *dy_scale;      /* of dy: of each image */
    float       *y, *dx, *dw;
    double      *y_size, *dx_size, *dw_size;
} definition;

/* y: the product of the step that has just run and was retained.  Asserts that the codes of x and w are the
 * values on the tape. */
void     define(const trial *r, int product, const qg_var *y, definition *d);
void     free_definition(definition *d);

/* Zeroed. */
void    *numbers(size_t n, size_t bytes);

/* The largest |x|; NaN if one is not finite. */
float    largest_of(size_t n, const float *x);

/* The same bits; where the definition has no number, it must not be finite.  The codes of an image of zeros
 * are not defined, so zeros may have either sign. */
void     assert_equal_to(const trial *r, const char *name, size_t n, const float *got, const float *want);

/* As close as so many roundings of all terms together. */
void     assert_within(const trial *r, const char *name, size_t n, const float *got, const float *want,
                       const double *size, double roundings);

#endif
