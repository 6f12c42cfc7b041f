#include "infer/kernels/bits.h"

static bool is_alphabet(qg__alphabet a)
{
    switch (a.kind) {
    case QG__TERNARY: return a.bits == 2;
    case QG__SIGNED: return a.bits >= 2 && a.bits <= QG__MOST_PLANES;
    case QG__ODD:
    case QG__UNSIGNED: return a.bits >= 1 && a.bits <= QG__MOST_PLANES;
    }
    return false;
}

bool qg__bits_fit(const qg__bit_product *p)
{
    if (!is_alphabet(p->w) || !is_alphabet(p->x) || !qg__geometry_valid(&p->g)) return false;
    const uint64_t channels = 64 * qg__words(p->g.c);
    return (qg__taps(&p->g) * channels << (p->w.bits + p->x.bits + 2)) <= INT32_MAX;
}

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
