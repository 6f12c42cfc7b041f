#include "infer/kernels/requantize.h"

#include "infer/kernels/find.h"

/* --- bits --------------------------------------------------------------------------------------- */

/* Bits of (acc[k] ^ flip[k]) >= least[k], k < n <= 64. */
INLINE uint64_t compare(const int32_t *acc, const int32_t *least, const int32_t *flip, int n)
{
    uint64_t bits = 0;
    int      k    = 0;
    for (; k + VL <= n; k += VL) {
        vi v = *(const vi *)(acc + k);
        if (flip) v ^= *(const vi *)(flip + k);
        bits |= (uint64_t)bits_of(v >= *(const vi *)(least + k)) << k;
    }
    for (; k < n; k++) bits |= (uint64_t)((acc[k] ^ (flip ? flip[k] : 0)) >= least[k]) << k;
    return bits;
}

/* n <= 64 channels from k on of a pixel; n and ternary are constants where it matters. */
INLINE void pack(bool ternary, const int32_t *least, const int32_t *flip, int c, int k, int n,
                 const int32_t *acc, uint64_t *packed)
{
    const uint64_t all = ~(uint64_t)0 >> (64 - n);
    if (flip) flip += k;
    const uint64_t second = compare(acc + k, least + k, flip, n);
    packed += k / 64;
    *packed = second & all;
    if (!ternary) return;
    const uint64_t third  = compare(acc + k, least + c + k, flip, n);
    *packed               = third & all;
    packed[qg__words(c)] = (third | ~second) & all;
}

INLINE void pack_all(bool ternary, const int32_t *least, const int32_t *flip, size_t pixels, int c,
                     const int32_t *acc, uint64_t *packed)
{
    for (size_t i = 0; i < pixels; i++, acc += c, packed += (ternary ? 2 : 1) * qg__words(c)) {
        int k = 0;
        for (; k + 64 <= c; k += 64) pack(ternary, least, flip, c, k, 64, acc, packed);
        if (c - k == 32) pack(ternary, least, flip, c, k, 32, acc, packed);     /* constants where thin nets
                                                                                   have them */
        else if (c - k == 16) pack(ternary, least, flip, c, k, 16, acc, packed);
        else if (k < c) pack(ternary, least, flip, c, k, c - k, acc, packed);
    }
}

static void bits(qg__alphabet a, const int32_t *least, const int32_t *flip, size_t pixels, int c,
                 const int32_t *acc, uint64_t *packed)
{
    if (a.kind == QG__TERNARY) pack_all(true, least, flip, pixels, c, acc, packed);
    else if (flip) pack_all(false, least, flip, pixels, c, acc, packed);
    else pack_all(false, least, NULL, pixels, c, acc, packed);
}

/* --- codes of floats ------------------------------------------------------------------------------ */

/* Lookups go in blocks of this size, over which the compiler vectorizes them. */
enum { PIECE = 256, HALF = QG__MOST_FOUND / 2 };

static void guess(const qg__finder *f, int n, const float *x, int32_t *code)
{
    int i = 0;
    for (; i + VL <= n; i += VL) *(vi *)(code + i) = line_code(f, load(x + i, VL));
    if (i < n) store((float *)code + i, (vf)line_code(f, load(x + i, n - i)), n - i);
    for (i = 0; i < n; i++) code[i] += x[i] >= f->threshold[code[i]];
}

static void bisect(const qg__finder *f, int n, const float *x, int32_t *code)
{
    for (int i = 0; i < n; i++) code[i] = 0;
    for (int step = HALF; step; step /= 2)
        for (int i = 0; i < n; i++) code[i] += x[i] >= f->threshold[code[i] + step - 1] ? step : 0;
}

static void find_by_thresholds(const qg__finder *f, size_t n, const float *x, uint8_t *codes)
{
    int32_t code[PIECE];
    for (size_t done = 0; done < n; done += PIECE, x += PIECE, codes += PIECE) {
        const int now = n - done < PIECE ? (int)(n - done) : PIECE;
        if (f->search == QG__GUESS) guess(f, now, x, code);
        else bisect(f, now, x, code);
        for (int i = 0, m; i < now; i += m) {
            m = least(now - i, VL);
            store_bytes(codes + i, stored_code(f, load(x + i, m), (vi)load((const float *)code + i, m)), m);
        }
    }
}

/* Codes are bytes, which may alias what f points to. */
INLINE void find_by(qg__search search, const qg__finder *f, size_t n, const float *x, uint8_t *codes)
{
    const qg__finder own = *f;
    size_t           i   = 0;
    for (; i + VL <= n; i += VL) store_bytes(codes + i, code_of(search, &own, load(x + i, VL)), VL);
    if (i < n) store_bytes(codes + i, code_of(search, &own, load(x + i, (int)(n - i))), (int)(n - i));
}

static void find(const qg__finder *f, size_t n, const float *x, uint8_t *codes)
{
    switch (f->search) {
    case QG__BISECTION: find_by_thresholds(f, n, x, codes); break;
    case QG__COUNT: find_by(QG__COUNT, f, n, x, codes); break;
    case QG__GUESS:
        if (qg__has_formula(f)) find_by(QG__GUESS, f, n, x, codes);
        else find_by_thresholds(f, n, x, codes);
        break;
    case QG__LINE: find_by(QG__LINE, f, n, x, codes); break;
    case QG__RATIO: find_by(QG__RATIO, f, n, x, codes); break;
    case QG__MULTIPLE: find_by(QG__MULTIPLE, f, n, x, codes); break;
    case QG__QUOTIENT: find_by(QG__QUOTIENT, f, n, x, codes); break;
    }
}

/* Bits of n <= 64 numbers of values, each plane of which has so many words. */
INLINE void pack_numbers(qg__alphabet a, size_t plane_words, const uint8_t *number, int n, uint64_t *packed)
{
    const uint64_t all = ~(uint64_t)0 >> (64 - n);
    for (int j = 0; j < a.bits; j++, packed += plane_words) {
        const bool ternary = a.kind == QG__TERNARY, flips = a.kind == QG__SIGNED && j == a.bits - 1;
        const uint64_t plane = plane_of_bytes(number, n, ternary ? 1 - j : j);
        *packed = (flips || (ternary && j) ? ~plane : plane) & all;
    }
}

/* Bits of x[k] >= t, k < n <= 64. */
INLINE uint64_t reach(const float *x, int n, float t)
{
    uint64_t bits = 0;
    int      k    = 0;
    for (; k + VL <= n; k += VL) bits |= (uint64_t)at_least(load(x + k, VL), splat(t)) << k;
    for (; k < n; k++) bits |= (uint64_t)(x[k] >= t) << k;
    return bits;
}

/* Two codes that are the values of an alphabet of one bit. */
static void find_signs(float t, size_t pixels, int c, const float *x, uint64_t *packed)
{
    for (size_t i = 0; i < pixels; i++, x += c)
        for (int k = 0; k < c; k += 64) {
            const int n = least(c - k, 64);
            *packed++   = n == 64 ? reach(x + k, 64, t) : n == 16 ? reach(x + k, 16, t) : reach(x + k, n, t);
        }
}

/* Several pixels at a time, or a piece of one. */
static void find_bits(const qg__finder *f, qg__alphabet a, size_t pixels, int c, const float *x,
                      uint64_t *packed)
{
    uint8_t      number[2 * PIECE] = { 0 };
    const size_t plane_words = qg__words(c), strip = c < PIECE ? (size_t)(PIECE / c) : 1;
    if (a.bits == 1 && f->search == QG__COUNT && f->count == 2 && !f->least) {
        find_signs(f->few[0], pixels, c, x, packed);
        return;
    }
    for (size_t done = 0, now; done < pixels; done += now, packed += now * (size_t)a.bits * plane_words) {
        now = pixels - done < strip ? pixels - done : strip;
        for (int first = 0, own; first < c; first += own, x += now * (size_t)own) {
            own = least(c - first, PIECE);
            find(f, now * (size_t)own, x, number);
            for (size_t i = 0; i < now; i++)
                for (int k = 0; k < own; k += 64)
                    pack_numbers(a, plane_words, number + i * (size_t)own + k, least(own - k, 64),
                                 packed + i * (size_t)a.bits * plane_words + (first + k) / 64);
        }
    }
}

/* --- fixed point ---------------------------------------------------------------------------------- */

INLINE int64_t saturate(int64_t v)
{
    v = v < INT32_MAX ? v : INT32_MAX;
    return v > INT32_MIN ? v : INT32_MIN;
}

/* v / 2^n for n >= 1, ties toward +inf. */
INLINE int64_t shift_up(int64_t v, int n) { return ((v >> (n - 1)) + 1) >> 1; }

INLINE int64_t rounded_product(int64_t acc, int64_t fraction, int32_t shift)
{
    const int64_t product = acc * fraction;
    if (shift <= 0) {
        const int64_t high = saturate(shift_up(product, 31)), down = -(int64_t)shift;
        const int64_t size = high < 0 ? -high : high, small = (size + ((int64_t)1 << down >> 1)) >> down;
        return high < 0 ? -small : small;
    }
    if (shift <= 30) return saturate(shift_up(product, 31 - shift));
    const int up = shift - 31 > 31 ? 31 : shift - 31;
    return saturate(saturate(product) * ((int64_t)1 << up));
}

static void fixed(const qg__fixed_point *f, size_t pixels, int c, const int32_t *acc, uint8_t *codes)
{
    for (size_t i = 0; i < pixels; i++, acc += c, codes += c)
        for (int k = 0; k < c; k++) {
            const int64_t sum = saturate((int64_t)acc[k] + f->bias[k]);
            int64_t       u   = rounded_product(sum, f->fraction[k], f->shift[k]) + f->zero;
            u                 = u > f->least ? u : f->least;
            u                 = u < f->most ? u : f->most;
            codes[k]          = (uint8_t)(f->step * (int32_t)u);
        }
}

const qg__requantize_kernels QG_PER_ISA(qg__requantize_kernels) = {
    .bits      = bits,
    .find      = find,
    .find_bits = find_bits,
    .fixed     = fixed,
};
