/* Which products the kernels accept. */
#include "infer/kernels/bits.h"
#include "infer/kernels/int8.h"
#include "infer/kernels/real.h"

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

bool qg__codes_valid(qg__codes c)
{
    enum { MOST = 1 << 24 };
    if (c.count < 1 || c.count > 1 << 16 || c.step < 1 || c.step > MOST) return false;
    if (c.lowest < -MOST || c.lowest > MOST) return false;
    return c.lowest + (int64_t)c.step * (c.count - 1) <= MOST;
}

bool qg__int8_fits(const qg__int8_product *p)
{
    const int lowest = p->x_signed ? -128 : 0;
    return qg__geometry_valid(&p->g) && p->x_zero >= lowest && p->x_zero <= lowest + 255 &&
           qg__codes_valid(p->w) && p->w.count <= 256 &&
           qg__row(&p->g) * 255 * (uint64_t)qg__reach(p->w) <= INT32_MAX;
}

bool qg__real_fits(const qg__real_product *p)
{
    return qg__geometry_valid(&p->g) && (!p->w.count || qg__codes_valid(p->w));
}
