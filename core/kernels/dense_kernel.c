#include "core/kernels/dense_kernel.h"

#include "core/kernels/conv_tile.h"
#include "core/kernels/fma.h"

/* --- transposing ---------------------------------------------------------------------------- */

/* A register holds VL / 4 quads of four floats.  The shuffles below move floats within quads only, which
 * takes one instruction each; to exchange whole quads would take more, so each quad is loaded from its own
 * address, or stored to it. */
typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));

/* JOIN: the register whose quad b is at from[b] + offset.  LOWER, UPPER: in each quad, the lower or upper two
 * floats of a and of b by turns: a0 b0 a1 b1, a2 b2 a3 b3. */
#if __has_builtin(__builtin_shufflevector)
#define QUAD(b) (*(const quad *)(from[b] + offset))
#if VL == 16
#define JOIN_2(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7)
#define JOIN()                                                                                      \
    __builtin_shufflevector(JOIN_2(QUAD(0), QUAD(1)), JOIN_2(QUAD(2), QUAD(3)), 0, 1, 2, 3, 4, 5, 6, 7, \
                            8, 9, 10, 11, 12, 13, 14, 15)
#define LOWER(a, b)                                                                                 \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define UPPER(a, b)                                                                                 \
    __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#elif VL == 8
#define JOIN()      __builtin_shufflevector(QUAD(0), QUAD(1), 0, 1, 2, 3, 4, 5, 6, 7)
#define LOWER(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define UPPER(a, b) __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#else
#define JOIN()      QUAD(0)
#define LOWER(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define UPPER(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif
INLINE vec join(const float *const *from, ptrdiff_t offset) { return JOIN(); }
#else                                   /* gcc 10 and 11 have no such shuffles */
INLINE vec join(const float *const *from, ptrdiff_t offset)
{
    vec v;
    for (int b = 0; b < VL / 4; b++) memcpy((float *)&v + 4 * b, from[b] + offset, sizeof(quad));
    return v;
}

INLINE vec zip(vec a, vec b, int first)
{
    vec v;
    for (int i = 0; i < VL; i++) v[i] = (i & 1 ? b : a)[i / 4 * 4 + i % 4 / 2 + first];
    return v;
}
#define LOWER(a, b) zip(a, b, 0)
#define UPPER(a, b) zip(a, b, 2)
#endif

/* out[i][4 b + r] = in[r][4 b + i]: quads b of the four registers are a 4 x 4 matrix, which is
 * transposed. */
INLINE void turn(const vec *in, vec *out)
{
    const vec a = LOWER(in[0], in[2]), b = LOWER(in[1], in[3]);
    const vec c = UPPER(in[0], in[2]), d = UPPER(in[1], in[3]);
    out[0] = LOWER(a, b), out[1] = UPPER(a, b), out[2] = LOWER(c, d), out[3] = UPPER(c, d);
}

/* to[c][r] = from[r][c].  If rows is no multiple of four, the last one is repeated up to the next. */
static void transpose(int rows, int columns, const float *from, ptrdiff_t from_row, float *to,
                      ptrdiff_t to_row)
{
    for (int r = 0; r < rows; r += 4) {
        const float *row[4];
        int          c = 0;
        for (int i = 0; i < 4; i++) row[i] = from + least(r + i, rows - 1) * from_row;
        for (; c + VL <= columns; c += VL) {
            vec in[4], out[4];
            UNROLL
            for (int i = 0; i < 4; i++) in[i] = *(const vf *)(row[i] + c);
            turn(in, out);
            UNROLL
            for (int i = 0; i < VL; i++)
                *(quad *)(to + (c + i) * to_row + r) = ((const quad *)&out[i % 4])[i / 4];
        }
        for (; c < columns; c++)
            for (int i = 0; i < 4; i++) to[c * to_row + r + i] = row[i][c];
    }
}

/* --- one chain of a tile ------------------------------------------------------------------- */

/* A tile is a part of the result whose sums stay in registers during a chain: PIXELS_2 rows of two vectors,
 * or PIXELS_1 rows of one (core/kernels/conv_tile.h says why so many).
 *
 * For a chain, q is copied to rows that are ROW floats apart, a constant, so that one register addresses all
 * of them.  ROW is no power of two, because then few lines of the cache would have to hold all rows.
 *
 * p is copied for a chain and at most PANEL lanes, a panel.  All rows of the result use a panel before the
 * next one is copied.  With AVX-512 it is read from the second-level cache: a tile of 14 rows computes so
 * much with each line that the next one comes in time, and a wide panel means long rows of results.  Tiles of
 * 6 rows compute less, so their panel stays in the first-level cache. */
enum { LINE = 16, ROW = QG_CHAIN + LINE, PANEL = VL == 16 ? 256 : 2 * BLOCK };

/* With AVX-512, chains of fewer than SHORT steps have smaller tiles: to begin and end a tile takes longer,
 * the larger it is. */
enum { SHORT = 32 };

/* Where q has its rows side by side, it is copied only if its steps are more than MANY floats apart. */
enum { MANY = 64 };

/* How the operands of a tile lie in memory:
 *
 *     STRAIGHT    p[s * p_step + lane]   q[row * ROW + s]
 *     SIDE        p[s * p_step + lane]   q[s * q_step + row]
 *     TURNED      p[lane * p_step + s]   q[row * ROW + s]
 *
 * TURNED transposes p in registers, where so few rows use p that a copy would not pay. */
typedef enum form { STRAIGHT, SIDE, TURNED } form;

/* Transposing takes registers, so these tiles have fewer rows.  A multiply-add waits for the one before it in
 * the same chain, so where there are but FEW rows, two vectors keep the core busy. */
enum { TURNED_ROWS = VL == 16 ? 14 : 6, FEW = 3 };

typedef struct tile {
    form         form;
    const float *p, *q;
    ptrdiff_t    p_step, q_step, y_row;
    float       *y;
    int          rows, vectors, steps;
    bool         add;                   /* the chain is added to y; else it replaces y */
    uintptr_t    ahead, ahead_step;     /* each step fetches the line at `ahead` into the second-level
                                           cache; that of the next step is ahead_step bytes further */
} tile;

/* The next four steps of VL lanes; from[b] is lane 4 b. */
INLINE void turn_lanes(const float *const *from, ptrdiff_t lane, vec *out)
{
    vec in[4];
    UNROLL
    for (int r = 0; r < 4; r++) in[r] = join(from, r * lane);
    turn(in, out);
}

/* The next step of VL lanes. */
INLINE vec one_step(const float *from, ptrdiff_t lane)
{
    vec v;
    for (int i = 0; i < VL; i++) v[i] = from[i * lane];
    return v;
}

INLINE void chain(form how, int rows, int vectors, const tile *t)
{
    const float *p = t->p, *q = t->q;
    uintptr_t    ahead = t->ahead;
    vec          sum[MOST][2];
    float *const y = t->y;              /* what is stored might be t, as far as the compiler knows */
    const bool   add   = t->add;
    const ptrdiff_t y_row = t->y_row;
    int          s = 0;
    EACH(r, rows, v, vectors) sum[r][v] = (vec){ 0 };
    if (how == TURNED) {
        const float *from[BLOCK / 4];
        UNROLL
        for (int b = 0; b < vectors * VL / 4; b++) from[b] = p + 4 * b * t->p_step;
        for (; s + 4 <= t->steps; s += 4, p += 4, q += 4) {
            UNROLL
            for (int v = 0; v < vectors; v++) {
                vec turned[4];
                turn_lanes(from + v * VL / 4, t->p_step, turned);
                EACH(i, 4, r, rows) sum[r][v] = fma_of(splat(q[r * ROW + i]), turned[i], sum[r][v]);
            }
            UNROLL
            for (int b = 0; b < vectors * VL / 4; b++) from[b] += 4;
        }
    }
    for (; s < t->steps; s++, p += how == TURNED ? 1 : t->p_step, q += how == SIDE ? t->q_step : 1) {
        vec pv[2];
        __builtin_prefetch((const void *)ahead, 0, 2);
        ahead += t->ahead_step;
        UNROLL
        for (int v = 0; v < vectors; v++)
            if (how == TURNED) pv[v] = one_step(p + v * VL * t->p_step, t->p_step);
            else pv[v] = *(const vf *)(p + v * VL);
        EACH(r, rows, v, vectors)
            sum[r][v] = fma_of(splat(q[how == SIDE ? r : r * ROW]), pv[v], sum[r][v]);
    }
    if (add)
        EACH(r, rows, v, vectors) sum[r][v] += *(const vf *)(y + r * y_row + v * VL);
    EACH(r, rows, v, vectors) *(vf *)(y + r * y_row + v * VL) = sum[r][v];
}

/* One specialisation per size. */
#define UP_TO_3(M, f, v, most) M(f, 1, v, most) M(f, 2, v, most) M(f, 3, v, most)
#define UP_TO_14(M, f, v, most)                                                                     \
    UP_TO_3(M, f, v, most) M(f, 4, v, most) M(f, 5, v, most) M(f, 6, v, most) M(f, 7, v, most)      \
    M(f, 8, v, most) M(f, 9, v, most) M(f, 10, v, most) M(f, 11, v, most) M(f, 12, v, most)         \
    M(f, 13, v, most) M(f, 14, v, most)
#define UP_TO_24(M, f, v, most)                                                                     \
    UP_TO_14(M, f, v, most) M(f, 15, v, most) M(f, 16, v, most) M(f, 17, v, most)                   \
    M(f, 18, v, most) M(f, 19, v, most) M(f, 20, v, most) M(f, 21, v, most) M(f, 22, v, most)       \
    M(f, 23, v, most) M(f, 24, v, most)

#define DEFINE(f, n, v, most) TILE f##_##n##x##v(const tile *t) { chain(f, n <= (most) ? n : 1, v, t); }
UP_TO_24(DEFINE, STRAIGHT, 1, PIXELS_1)
UP_TO_24(DEFINE, SIDE, 1, PIXELS_1)
UP_TO_14(DEFINE, TURNED, 1, TURNED_ROWS)
UP_TO_14(DEFINE, STRAIGHT, 2, PIXELS_2)
UP_TO_14(DEFINE, SIDE, 2, PIXELS_2)
UP_TO_3(DEFINE, TURNED, 2, FEW)

static void run(const tile *t)
{
#define ENTRY(f, n, v, most) [n] = n <= (most) ? f##_##n##x##v : NULL,
    static void (*const of[][3][25])(const tile *t) = {
        { { UP_TO_24(ENTRY, STRAIGHT, 1, PIXELS_1) },
          { UP_TO_24(ENTRY, SIDE, 1, PIXELS_1) },
          { UP_TO_14(ENTRY, TURNED, 1, TURNED_ROWS) } },
        { { UP_TO_14(ENTRY, STRAIGHT, 2, PIXELS_2) },
          { UP_TO_14(ENTRY, SIDE, 2, PIXELS_2) },
          { UP_TO_3(ENTRY, TURNED, 2, FEW) } },
    };
    of[t->vectors - 1][t->form][t->rows](t);
}

/* --- a product --------------------------------------------------------------------------------- */

static int round_up(int lanes) { return (lanes + BLOCK - 1) / BLOCK * BLOCK; }

/* Where q has its rows side by side, a copy has so many floats per step: whole lines of the cache, an odd
 * number of them, so that steps are spread over all of it. */
static int side_step(int rows) { return (rows + LINE - 1) / LINE * LINE | LINE; }

/* Whether sums are collected in scratch and copied to the result at the end: because vectors would write
 * beyond its rows, or because its lanes are not adjacent. */
static bool is_apart(const qg__dense_product *m)
{
    return m->out_lane != 1 || (m->lanes % BLOCK && m->lanes % BLOCK != VL);
}

/* In scratch: a panel of p, a chain of q, sums [rows][lanes, rounded up to BLOCK]. */
static size_t p_size(const qg__dense_product *m) { return (size_t)(ROW * least(PANEL, round_up(m->lanes))); }
static size_t q_size(const qg__dense_product *m) { return (size_t)(ROW * side_step(m->rows)); }

/* How many of the last lanes are computed as a product of their own in which p and q change places, so that
 * lanes become rows: those that would fill at most half a vector.  Only where lanes are images: their results
 * are not adjacent, but become so. */
static int last_lanes(const qg__dense_product *m)
{
    const int last = m->lanes % VL;
    return m->out_lane != 1 && m->lanes > VL && last <= VL / 2 ? last : 0;
}

static qg__dense_product turned_product(const qg__dense_product *m, int last)
{
    const int first = m->lanes - last;
    return (qg__dense_product){
        .lanes = m->rows, .rows = last, .steps = m->steps,
        .p = m->q, .q = { m->p.at + first * m->p.item, m->p.item, m->p.step },
        .out = m->out + first * m->out_lane, .out_lane = m->out_row, .out_row = m->out_lane,
    };
}

static size_t scratch(const qg__dense_product *m)
{
    const size_t size = p_size(m) + q_size(m) + (is_apart(m) ? (size_t)m->rows * (size_t)round_up(m->lanes) : 0);
    if (!last_lanes(m)) return size;
    const qg__dense_product last = turned_product(m, last_lanes(m));
    const size_t            more = scratch(&last);
    return size > more ? size : more;
}

/* Compilers replace a plain loop by a call of memcpy, which takes longer than copying a vector or two. */
INLINE void copy(float *restrict to, const float *restrict from, int n)
{
    int i = 0;
    if (n == VL || n == BLOCK) {
        *(vf *)to = *(const vf *)from;
        if (n == BLOCK) *(vf *)(to + VL) = *(const vf *)(from + VL);
        return;
    }
    for (; i + VL <= n; i += VL) *(vf *)(to + i) = *(const vf *)(from + i);
    for (; i < n; i++) to[i] = from[i];
}

typedef struct work {
    const qg__dense_product *m;
    float                   *p, *q;     /* in scratch */
    float                   *y;         /* [rows][y_row] */
    ptrdiff_t                y_row;
} work;

/* A panel: lanes at .. at + n - 1 of the chain of steps s .. s + steps - 1. */
typedef struct part {
    int s, steps, at, n;
} part;

/* Whether p is transposed in registers (TURNED). */
static bool turns(const qg__dense_product *m) { return m->p.item != 1 && m->rows <= TURNED_ROWS; }

/* All panels of the first chain, then those of the second, and so on; n is 0 after the last. */
static part next_part(const qg__dense_product *m, part x)
{
    x.at += x.n;
    if (x.at == m->lanes) x.at = 0, x.s += QG_CHAIN;
    x.steps = least(QG_CHAIN, m->steps - x.s);
    x.n     = x.steps > 0 ? least(QG_CHAIN / x.steps * PANEL, m->lanes - x.at) : 0;
    /* A rest of one vector or less is a part of its own, because tiles of one vector have more rows. */
    if (x.n > VL && x.n % BLOCK <= VL && !turns(m)) x.n -= x.n % BLOCK;
    return x;
}

static const float *first_of(const qg__dense_product *m, part x)
{
    return m->p.at + x.at * m->p.item + x.s * m->p.step;
}

static bool is_side(const qg__dense_product *m) { return m->q.step != 1; }

/* Where lanes are missing in a vector, a copy repeats the last one.  Lanes that are a multiple of 4 KiB apart
 * are copied, too: they compete for so few lines of the first-level cache that a line is lost before all of
 * it has been read. */
static void multiply_turned(const work *w, part x)
{
    const float    *p    = first_of(w->m, x);
    const ptrdiff_t item = w->m->p.item;
    tile            t = { .form = TURNED, .q = w->q, .y_row = w->y_row, .rows = w->m->rows, .steps = x.steps,
                          .add = x.s > 0 || w->m->add };
    for (int i = 0; i < x.n; i += t.vectors * VL, p += t.vectors * VL * item) {
        t.vectors         = t.rows <= FEW && x.n - i > VL ? 2 : 1;
        const int  width  = t.vectors * VL;
        const bool copied = x.n - i < width || item * t.vectors % 1024 == 0;
        for (int l = 0; copied && l < width; l++) {
            for (int s = 0; x.n - i >= 2 * width && s < x.steps; s += LINE)
                __builtin_prefetch(p + (width + l) * item + s, 0, 2);
            copy(w->p + l * ROW, p + least(l, x.n - i - 1) * item, x.steps);
        }
        t.p      = copied ? w->p : p;
        t.p_step = copied ? ROW : item;
        t.y      = w->y + x.at + i;
        run(&t);
    }
}

/* Copies a panel of p as blocks [steps][width].  Where the last vector lacks lanes, they are 0: their
 * products are not used, but what was there might be slow to multiply, or raise an exception. */
static void pack(const qg__dense_product *m, part x, int width, float *to)
{
    const float *p = first_of(m, x);
    for (int b = 0; b < x.n; b += width, to += x.steps * width, p += width * m->p.item) {
        const int n = least(width, x.n - b);
        for (int s = 0; n < width && s < x.steps; s++) *(vf *)(to + (s + 1) * width - VL) = (vf){ 0 };
        if (m->p.item != 1) transpose(n, x.steps, p, m->p.item, to, width);
        else
            for (int s = 0; s < x.steps; s++) copy(to + s * width, p + s * m->p.step, n);
    }
}

/* What is fetched into the second-level cache before it is needed.  Each step of a tile fetches one line, so
 * a tile fetches line number `line` of as many rows as it has steps, which are a group:
 *
 *     first rows of p that make the next panel: `lines` tiles for each group
 *     then rows of y, in the first chain, which writes them: `y_lines` tiles for each group
 *
 * Addresses are integers, since the last group may end beyond its matrix. */
typedef struct ahead {
    uintptr_t from, row, group;     /* p: the group, and the bytes to its next row and to the next group */
    int       groups, lines, line;  /* groups that are left, and the line of the next tile */
    uintptr_t y, y_row;
    int       rows, steps;          /* rows of y; 0: none are fetched */
    int       covered;              /* rows of y in the groups until now, and */
    int       y_lines, left;        /* lines that are left of the last one */
} ahead;

static int lines_of(int floats) { return (floats + LINE - 1) / LINE; }

static uintptr_t bytes_of(ptrdiff_t floats) { return (uintptr_t)floats * sizeof(float); }

/* Short chains fetch nothing: they compute too little meanwhile. */
static ahead ahead_of(const work *w, part x)
{
    const qg__matrix p    = w->m->p;
    const part       next = next_part(w->m, x);
    ahead            a    = { .y       = (uintptr_t)(w->y + x.at),
                              .y_row   = bytes_of(w->y_row),
                              .steps   = x.steps,
                              .y_lines = lines_of(x.n) };
    if (x.steps < SHORT) return a;
    if (x.s == 0) a.rows = w->m->rows;
    if (!next.n) return a;
    a.from   = (uintptr_t)first_of(w->m, next);
    a.row    = bytes_of(p.item == 1 ? p.step : p.item);
    a.group  = (uintptr_t)x.steps * a.row;
    a.lines  = lines_of(p.item == 1 ? next.n : next.steps);
    a.groups = p.item == 1 ? 1 : (next.n + x.steps - 1) / x.steps;
    return a;
}

/* Chooses what a tile fetches whose last row is row - 1; if nothing is left, a line that is there anyway. */
static void look_ahead(ahead *a, int row, tile *t)
{
    enum { EARLY = 32 };            /* a group of y is fetched when tiles are so many rows before it */
    t->ahead = (uintptr_t)t->q, t->ahead_step = 0;
    if (a->groups) {
        t->ahead = a->from + bytes_of(a->line * LINE), t->ahead_step = a->row;
        if (++a->line == a->lines) a->line = 0, a->groups--, a->from += a->group;
        return;
    }
    if (!a->left && a->covered < a->rows && row + EARLY >= a->covered) {
        if (a->covered) a->y += (uintptr_t)a->steps * a->y_row;
        a->left = a->y_lines, a->covered += a->steps;
    }
    if (a->left) t->ahead = a->y + bytes_of(--a->left * LINE), t->ahead_step = a->y_row;
}

static void multiply_part(const work *w, part x)
{
    const qg__dense_product *m = w->m;
    const int    width = block_of(x.n);
    const int    most  = VL == 16 && x.steps < SHORT ? 16 * VL / width : x.n <= VL ? PIXELS_1 : PIXELS_2;
    const int    tiles = (m->rows + most - 1) / most;
    const bool   packed = m->p.item != 1 || tiles > 2 || x.n % width;
    const bool   side = is_side(m), there = side && m->q.step <= MANY;
    const float *p = packed ? w->p : first_of(m, x), *q = there ? m->q.at + x.s * m->q.step : w->q;
    ahead        a = ahead_of(w, x);
    tile         t = { .form = side ? SIDE : STRAIGHT, .p_step = packed ? width : m->p.step,
                       .q_step = there ? m->q.step : side_step(m->rows), .y_row = w->y_row,
                       .vectors = width / VL, .steps = x.steps, .add = x.s > 0 || m->add };
    if (packed) pack(m, x, width, w->p);
    for (int i = 0; i < tiles; i++) {
        const int r = cut(m->rows, i, tiles), next = cut(m->rows, i + 1, tiles);
        t.rows      = next - r;
        t.q         = q + (side ? r : r * ROW);
        for (int b = 0; b < x.n; b += width) {
            t.p = p + b * (packed ? x.steps : 1);
            t.y = w->y + r * w->y_row + x.at + b;
            look_ahead(&a, next, &t);
            run(&t);
        }
    }
}

/* Copies the steps of a part from q, unless its rows are side by side and few. */
static void copy_rows(const work *w, part x)
{
    const qg__matrix q    = w->m->q;
    const float     *from = q.at + x.s * q.step;
    if (!is_side(w->m)) {
        /* Whole vectors, beyond the steps of the chain, but not beyond the end of the matrix. */
        const int       whole = (x.steps + VL - 1) / VL * VL;
        const ptrdiff_t end   = (w->m->rows - 1) * q.item + x.steps;
        for (int r = 0; r < w->m->rows; r++)
            copy(w->q + r * ROW, from + r * q.item, r * q.item + whole <= end ? whole : x.steps);
    }
    else if (q.step > MANY)
        for (int s = 0; s < x.steps; s++)
            copy(w->q + s * side_step(w->m->rows), from + s * q.step, w->m->rows);
}

/* to[lane][row] = from[row][lane], from [rows][wide]. */
static void put_transposed(int rows, int lanes, const float *from, int wide, float *to, ptrdiff_t to_lane)
{
    int r = rows / 4 * 4;
    transpose(r, lanes, from, wide, to, to_lane);
    for (; r < rows; r++)
        for (int l = 0; l < lanes; l++) to[l * to_lane + r] = from[r * wide + l];
}

static void multiply_whole(const qg__dense_product *m, float *scratch)
{
    const bool apart = is_apart(m), transposed = m->out_lane != 1;
    const int  wide  = round_up(m->lanes);
    work       w     = { m, scratch, scratch + p_size(m), m->out, m->out_row };
    if (apart) w.y = w.q + q_size(m), w.y_row = wide;
    for (int r = 0; apart && m->add && r < m->rows; r++) {
        copy(w.y + r * wide, m->out + r * m->out_row, m->lanes);
        memset(w.y + r * wide + m->lanes, 0, (size_t)(wide - m->lanes) * sizeof *w.y);
    }
    for (part x = next_part(m, (part){ 0 }); x.n; x = next_part(m, x)) {
        if (x.at == 0) copy_rows(&w, x);
        (turns(m) ? multiply_turned : multiply_part)(&w, x);
    }
    if (transposed) put_transposed(m->rows, m->lanes, w.y, wide, m->out, m->out_lane);
    for (int r = 0; apart && !transposed && r < m->rows; r++)
        copy(m->out + r * m->out_row, w.y + r * wide, m->lanes);
}

static void multiply(const qg__dense_product *m, float *scratch)
{
    const int               last  = last_lanes(m);
    const qg__dense_product other = last ? turned_product(m, last) : *m;
    qg__dense_product       first = *m;
    first.lanes -= last;
    multiply_whole(&first, scratch);
    if (last) multiply_whole(&other, scratch);
}

const qg__dense_kernels QG_PER_ISA(qg__dense_kernels) = {
    .lanes    = VL,
    .multiply = multiply,
    .scratch  = scratch,
};
