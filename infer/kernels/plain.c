#include "infer/kernels/plain.h"

qg__plain_product qg__plain_of(qg__geometry g, qg__codes x, qg__codes w)
{
    return (qg__plain_product){ .g = g, .x = x, .w = w, .xa = qg__alphabet_of(x), .wa = qg__alphabet_of(w) };
}

void qg__bits_in_parts(const qg__plain_product *p, int n, const void *x, const void *packed, void *y,
                       void *scratch, qg__bits_part *part)
{
    const int    most  = qg__images_at_once(&p->g, n);
    const size_t image = qg__bit_words(p->xa, qg__pixels(&p->g), p->g.c),
                 results = qg__results(&p->g) * (size_t)p->g.oc;
    for (int done = 0, now; done < n; done += now) {
        now = n - done < most ? n - done : most;
        part(p, now, (const uint64_t *)x + (size_t)done * image, packed,
             (int32_t *)y + (size_t)done * results, scratch);
    }
}
