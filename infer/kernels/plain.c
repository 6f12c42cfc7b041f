#include "infer/kernels/plain.h"

qg__plain_product qg__plain_of(qg__geometry g, qg__codes x, qg__codes w)
{
    return (qg__plain_product){ .g = g, .x = x, .w = w, .xa = qg__alphabet_of(x), .wa = qg__alphabet_of(w) };
}
