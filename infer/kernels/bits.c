#include "infer/kernels/bits.h"

void qg__bits_in_parts(const qg__bit_product *p, int n, const uint64_t *x, const void *packed, int32_t *acc,
                       void *scratch, qg__bits_part *part)
{
    const int    most  = qg__images_at_once(&p->g, n);
    const size_t image = qg__bit_words(p->x, qg__pixels(&p->g), p->g.c),
                 results = qg__results(&p->g) * (size_t)p->g.oc;
    for (int done = 0, now; done < n; done += now) {
        now = n - done < most ? n - done : most;
        part(p, now, x + (size_t)done * image, packed, acc + (size_t)done * results, scratch);
    }
}
