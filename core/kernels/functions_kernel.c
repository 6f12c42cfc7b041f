/* Loops over the functions of core/kernels/functions.h. */
#include "core/kernels/functions.h"

static void exp_kernel(size_t n, double *x)
{
    for (size_t i = 0; i < n; i++) x[i] = qg__exp(x[i]);
}

static void sigmoid_kernel(size_t n, const float *x, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = (float)(1 / (1 + qg__exp(-(double)x[i])));
}

static void tanh_kernel(size_t n, const float *x, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = (float)qg__tanh((double)x[i]);
}

const qg__function_kernels QG_PER_ISA(qg__function_kernels) = { exp_kernel, sigmoid_kernel, tanh_kernel };
