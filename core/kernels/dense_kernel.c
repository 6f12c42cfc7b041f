#include "core/kernels/dense_kernel.h"

#include "core/kernels/conv_tile.h"
#include "core/kernels/fma.h"

/* --- four rows to four columns ------------------------------------------------------------ */

/* A register is VL / 4 quads of floats.  Instructions turn rows to columns within quads; each quad is loaded from its
 * own place, or stored to it, so that quads need no exchange. */
typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));

/* JOIN: quad b is at from[b] + offset.  LOWER, UPPER: the lower or upper two floats of each quad of a, and those of
 * b between them. */
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
#else                                   /* gcc 10 and 11, through memory */
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

/* out[i][4 b + r] = in[r][4 b + i]: in each quad, rows become columns. */
INLINE void turn(const vec *in, vec *out)
{
    const vec a = LOWER(in[0], in[2]), b = LOWER(in[1], in[3]);
    const vec c = UPPER(in[0], in[2]), d = UPPER(in[1], in[3]);
    out[0] = LOWER(a, b), out[1] = UPPER(a, b), out[2] = LOWER(c, d), out[3] = UPPER(c, d);
}

/* to[c][r] = from[r][c].  Rows of `to` have a place for a multiple of four. */
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

/* A tile has rows x vectors sums, as in core/kernels/conv_tile.h: PIXELS_2 rows of two vectors, or
 * PIXELS_1 of one.
 *
 * A chain of q has rows of ROW floats, so that one register holds the address of all; ROW is no power of
 * two, so they use all lines of the cache.  A chain of p is a panel of at most PANEL lanes.  Tiles of 14 rows
 * read a panel slowly enough for the second-level cache, and then write long runs of all of its lanes before the
 * next rows; for those of 6 rows it stays in the first. */
enum { LINE = 16, ROW = QG_CHAIN + LINE, PANEL = VL == 16 ? 256 : 2 * BLOCK };

/* Chains of fewer than SHORT steps begin and end too often for the largest tiles of AVX-512. */
enum { SHORT = 32 };

/* Rows of q that lie side by side, more than MANY of them, are copied. */
enum { MANY = 64 };

/* How the operands of a tile lie: p[s * p_step + lane] and q[row * ROW + s]; or q[s * q_step + row]; or, where
 * few rows use it, p[lane * p_step + s], which is turned in registers and not stored. */
typedef enum form { STRAIGHT, SIDE, TURNED } form;

/* Turning takes registers.  A sum waits for each of its multiply-adds, so a FEW rows have two vectors. */
enum { TURNED_ROWS = VL == 16 ? 14 : 6, FEW = 3 };

typedef struct tile {
    form         form;
    const float *p, *q;
    ptrdiff_t    p_step, q_step, y_row;
    float       *y;
    int          rows, vectors, steps;
    bool         add;
    uintptr_t    ahead, ahead_step;     /* of which each step fetches a line into the second-level cache */
} tile;

/* The next four steps of VL lanes; from[b] is lane 4 b. */
INLINE void turn_lanes(const float *const *from, ptrdiff_t lane, vec *out)
{
    vec in[4];
    UNROLL
    for (int r = 0; r < 4; r++) in[r] = join(from, r * lane);
    turn(in, out);
}

/* The next step of them. */
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
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int v = 0; v < vectors; v++) sum[r][v] = (vec){ 0 };
    if (how == TURNED) {
        const float *from[BLOCK / 4];
        UNROLL
        for (int b = 0; b < vectors * VL / 4; b++) from[b] = p + 4 * b * t->p_step;
        for (; s + 4 <= t->steps; s += 4, p += 4, q += 4) {
            UNROLL
            for (int v = 0; v < vectors; v++) {
                vec turned[4];
                turn_lanes(from + v * VL / 4, t->p_step, turned);
                UNROLL
                for (int i = 0; i < 4; i++)
                    UNROLL
                    for (int r = 0; r < rows; r++)
                        sum[r][v] = fma_of(splat(q[r * ROW + i]), turned[i], sum[r][v]);
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
        UNROLL
        for (int r = 0; r < rows; r++)
            UNROLL
            for (int v = 0; v < vectors; v++)
                sum[r][v] = fma_of(splat(q[how == SIDE ? r : r * ROW]), pv[v], sum[r][v]);
    }
    if (add)
        UNROLL
        for (int r = 0; r < rows; r++)
            UNROLL
            for (int v = 0; v < vectors; v++) sum[r][v] += *(const vf *)(y + r * y_row + v * VL);
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int v = 0; v < vectors; v++) *(vf *)(y + r * y_row + v * VL) = sum[r][v];
}

/* One specialisation per size. */
static void run(const tile *t)
{
#define CASE(form, n, v, most) case n: if (n <= (most)) chain(form, n, v, t); break;
#define UP_TO_3(f, v, most) CASE(f, 1, v, most) CASE(f, 2, v, most) CASE(f, 3, v, most)
#define UP_TO_14(f, v, most)                                                                        \
    UP_TO_3(f, v, most) CASE(f, 4, v, most) CASE(f, 5, v, most) CASE(f, 6, v, most)                 \
    CASE(f, 7, v, most) CASE(f, 8, v, most) CASE(f, 9, v, most) CASE(f, 10, v, most)                \
    CASE(f, 11, v, most) CASE(f, 12, v, most) CASE(f, 13, v, most) CASE(f, 14, v, most)
#define UP_TO_24(f, v, most)                                                                        \
    UP_TO_14(f, v, most) CASE(f, 15, v, most) CASE(f, 16, v, most) CASE(f, 17, v, most)             \
    CASE(f, 18, v, most) CASE(f, 19, v, most) CASE(f, 20, v, most) CASE(f, 21, v, most)             \
    CASE(f, 22, v, most) CASE(f, 23, v, most) CASE(f, 24, v, most)
    switch ((t->vectors - 1) * 3 + (int)t->form) {
    case STRAIGHT:
        switch (t->rows) { UP_TO_24(STRAIGHT, 1, PIXELS_1) }
        break;
    case SIDE:
        switch (t->rows) { UP_TO_24(SIDE, 1, PIXELS_1) }
        break;
    case TURNED:
        switch (t->rows) { UP_TO_14(TURNED, 1, TURNED_ROWS) }
        break;
    case 3 + STRAIGHT:
        switch (t->rows) { UP_TO_14(STRAIGHT, 2, PIXELS_2) }
        break;
    case 3 + SIDE:
        switch (t->rows) { UP_TO_14(SIDE, 2, PIXELS_2) }
        break;
    case 3 + TURNED:
        switch (t->rows) { UP_TO_3(TURNED, 2, FEW) }
    }
}

/* --- a product --------------------------------------------------------------------------------- */

static int round_up(int lanes) { return (lanes + BLOCK - 1) / BLOCK * BLOCK; }

/* Rows of a chain of q that lie side by side: [QG_CHAIN][side_step], an odd number of lines. */
static int side_step(int rows) { return (rows + LINE - 1) / LINE * LINE | LINE; }

/* Sums that vectors of lanes would overrun, or that lie across, are collected in scratch. */
static bool is_apart(const qg__dense_product *m)
{
    return m->out_lane != 1 || (m->lanes % BLOCK && m->lanes % BLOCK != VL);
}

/* In scratch: a panel of p, a chain of q, sums [rows][lanes, rounded up to BLOCK]. */
static size_t p_size(const qg__dense_product *m) { return (size_t)(ROW * least(PANEL, round_up(m->lanes))); }
static size_t q_size(const qg__dense_product *m) { return (size_t)(ROW * side_step(m->rows)); }

/* Of lanes that lie along the batch, the last ones if they fill less than half a vector.  They are rows of a product that is
 * faster, in which p and q have changed places. */
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

/* The compiler makes a call of a loop, which takes longer than a vector or two. */
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

/* Lanes at .. at + n - 1 of the chain of steps s .. s + steps - 1. */
typedef struct part {
    int s, steps, at, n;
} part;

/* Whether few rows use lanes that have to be turned. */
static bool turns(const qg__dense_product *m) { return m->p.item != 1 && m->rows <= TURNED_ROWS; }

/* Empty after the last. */
static part next_part(const qg__dense_product *m, part x)
{
    x.at += x.n;
    if (x.at == m->lanes) x.at = 0, x.s += QG_CHAIN;
    x.steps = least(QG_CHAIN, m->steps - x.s);
    x.n     = x.steps > 0 ? least(QG_CHAIN / x.steps * PANEL, m->lanes - x.at) : 0;
    /* A block of one vector has larger tiles. */
    if (x.n > VL && x.n % BLOCK <= VL && !turns(m)) x.n -= x.n % BLOCK;
    return x;
}

static const float *first_of(const qg__dense_product *m, part x)
{
    return m->p.at + x.at * m->p.item + x.s * m->p.step;
}

static bool is_side(const qg__dense_product *m) { return m->q.step != 1; }

/* Registers are turned if they are full: where lanes are missing, the last is repeated in a copy.  Lanes a multiple of
 * 4 KiB apart share few lines of the first-level cache, which cannot keep them until all of a line has been read, so
 * they are copied, too. */
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

/* Lanes of p as blocks [steps][width].  Those that fill up the last are any numbers. */
static void pack(const qg__dense_product *m, part x, int width, float *to)
{
    const float *p = first_of(m, x);
    for (int b = 0; b < x.n; b += width, to += x.steps * width, p += width * m->p.item) {
        const int n = least(width, x.n - b);
        if (m->p.item != 1) transpose(n, x.steps, p, m->p.item, to, width);
        else
            for (int s = 0; s < x.steps; s++) copy(to + s * width, p + s * m->p.step, n);
    }
}

/* What runs of tiles fetch, a line for each of their steps: first what is packed next; then sums, the first time that they
 * are written, so many rows at a time as a chain has steps. */
typedef struct ahead {
    const float *from;              /* `groups` times so many rows */
    ptrdiff_t    row, group;        /* floats from one to the next */
    int          groups, lines, line;
    float       *sums;
    ptrdiff_t    sums_row;
    int          rows, steps, covered, sums_lines, left;
} ahead;

static int lines_of(int floats) { return (floats + LINE - 1) / LINE; }

/* Short chains fetch nothing: they have little to hide it behind. */
static ahead ahead_of(const work *w, part x)
{
    const qg__matrix p    = w->m->p;
    const part       next = next_part(w->m, x);
    ahead            a    = { .sums = w->y + x.at, .sums_row = w->y_row, .steps = x.steps, .sums_lines = lines_of(x.n) };
    if (x.steps < SHORT) return a;
    if (x.s == 0) a.rows = w->m->rows;
    if (!next.n) return a;
    a.from   = first_of(w->m, next);
    a.row    = p.item == 1 ? p.step : p.item;
    a.group  = x.steps * a.row;
    a.lines  = lines_of(p.item == 1 ? next.n : next.steps);
    a.groups = p.item == 1 ? 1 : (next.n + x.steps - 1) / x.steps;
    return a;
}

/* Before the run of a tile whose rows end with this one. */
static void look_ahead(ahead *a, int row, tile *t)
{
    enum { EARLY = 32 };            /* rows that are computed meanwhile */
    const float *from = t->q;
    ptrdiff_t    step = 0;
    if (a->groups) {
        from = a->from + a->line * LINE, step = a->row;
        if (++a->line == a->lines) a->line = 0, a->groups--, a->from += a->group;
    } else {
        if (!a->left && a->covered < a->rows && row + EARLY >= a->covered) {
            a->left = a->sums_lines, a->covered += a->steps;
            if (a->covered > a->steps) a->sums += a->steps * a->sums_row;
        }
        if (a->left) from = a->sums + --a->left * LINE, step = a->sums_row;
    }
    t->ahead      = (uintptr_t)from;
    t->ahead_step = (uintptr_t)step * sizeof *from;
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

/* The same steps of q.  Few rows side by side stay where they are. */
static void copy_rows(const work *w, part x)
{
    const qg__matrix q    = w->m->q;
    const float     *from = q.at + x.s * q.step;
    if (!is_side(w->m)) {
        /* Whole vectors, as far as the last of them ends within the matrix. */
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
static void put_across(int rows, int lanes, const float *from, int wide, float *to, ptrdiff_t to_lane)
{
    int r = rows / 4 * 4;
    transpose(r, lanes, from, wide, to, to_lane);
    for (; r < rows; r++)
        for (int l = 0; l < lanes; l++) to[l * to_lane + r] = from[r * wide + l];
}

static void multiply_whole(const qg__dense_product *m, float *scratch)
{
    const bool apart = is_apart(m), across = m->out_lane != 1;
    const int  wide  = round_up(m->lanes);
    work       w     = { m, scratch, scratch + p_size(m), m->out, m->out_row };
    if (apart) w.y = w.q + q_size(m), w.y_row = wide;
    for (int r = 0; apart && m->add && r < m->rows; r++)
        copy(w.y + r * wide, m->out + r * m->out_row, m->lanes);
    for (part x = next_part(m, (part){ 0 }); x.n; x = next_part(m, x)) {
        if (x.at == 0) copy_rows(&w, x);
        (turns(m) ? multiply_turned : multiply_part)(&w, x);
    }
    if (across) put_across(m->rows, m->lanes, w.y, wide, m->out, m->out_lane);
    for (int r = 0; apart && !across && r < m->rows; r++)
        copy(m->out + r * m->out_row, w.y + r * wide, m->lanes);
}

static void multiply(const qg__dense_product *m, float *scratch)
{
    const int         last = last_lanes(m);
    qg__dense_product most = *m;
    most.lanes -= last;
    multiply_whole(&most, scratch);
    if (!last) return;
    most = turned_product(m, last);
    multiply_whole(&most, scratch);
}

const qg__dense_kernels QG_PER_ISA(qg__dense_kernels) = {
    .lanes    = VL,
    .multiply = multiply,
    .scratch  = scratch,
};
