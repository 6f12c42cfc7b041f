/* cli/svg.h — charts as SVG, for `qgrad plot` and `qgrad report`.
 *
 *     svg_chart c = { .title = "q(x)", .x = { .label = "x" }, .series = { { "q", SVG_LINE, n, x, q } }, .n_series = 1 };
 *     svg_write(out, &c);
 *
 * A chart is one <svg> element without scripts, fonts or links.  Colours come from classes, which svg_style defines for
 * light and dark pages: a page writes them once, and a picture of its own (svg_picture) has them inside.
 */
#ifndef CLI_SVG_H
#define CLI_SVG_H

#include <stdbool.h>
#include <stdio.h>

typedef enum svg_kind {
    SVG_LINE,               /* through (x[i], y[i]); NaN in either interrupts it */
    SVG_DASHES,             /* the same, dashed, */
    SVG_DOTS,               /* dotted, */
    SVG_DASH_DOTS,          /* or both in turn */
    SVG_BAND,               /* the area between (x[i], y[i]) and (x[i], to[i]) */
    SVG_POINTS,             /* a dot at each */
    SVG_STEPS,              /* y[i] from x[i] to x[i + 1], so x has one number more than y */
    SVG_BARS                /* the same, filled down to 0 */
} svg_kind;

enum { SVG_COLOURS = 8, SVG_SERIES = 96, SVG_MARKS = 40 };

typedef struct svg_series {
    const char   *name;     /* in the legend; NULL: not in it */
    svg_kind      kind;
    int           n;        /* numbers of y */
    const double *x, *y;    /* borrowed */
    int           colour;   /* 0: as the place in the chart; else 1 .. SVG_COLOURS */
    const double *to;       /* of a band, borrowed */
} svg_series;

/* A dashed line across the chart, such as a threshold or an epoch. */
typedef struct svg_mark {
    double      at;         /* where it crosses the x axis, or the y axis if horizontal; not drawn outside */
    const char *name;       /* at its upper or right end; NULL: none */
    bool        low;        /* at its lower end, where the curves are high */
    bool        horizontal;
    bool        level;      /* a short solid line at the axis, with its name above */
} svg_mark;

typedef struct svg_axis {
    const char *label;      /* NULL: none */
    double      min, max;   /* both 0: from the data */
    bool        log;        /* powers of ten; values that are not positive are left out */
    bool        whole;      /* ticks at whole numbers only */
    bool        percent;    /* values are shares, ticks are in percent */
    bool        from_zero;  /* 0 belongs to it */
    bool        bare;       /* no ticks: only the shape of the curve matters */
} svg_axis;

typedef struct svg_chart {
    const char *title;      /* also what a screen reader says */
    int         most;       /* points of a line: of a longer one every k-th is drawn, and the last; 0: all */
    int         width, height;      /* in CSS pixels, all included; 0: 420 x 240 */
    svg_axis    x, y;
    svg_series  series[SVG_SERIES];
    int         n_series;
    svg_mark    mark[SVG_MARKS];
    int         n_marks;
} svg_chart;

/* Writes the chart; texts may have any bytes.  A chart without a finite number says so in place of the curves. */
void svg_write(FILE *out, const svg_chart *c);

/* Writes a file with one or two charts of the same size, whose .width and .height are set; right NULL: one. */
void svg_picture(FILE *out, const svg_chart *left, const svg_chart *right);

/* The rules for the classes, without the element <style>. */
void svg_style(FILE *out);

/* Writes text for XML and HTML: & < > " ' as entities, what a terminal should not get as in messages (core/io/utf8.h). */
void svg_text(FILE *out, const char *text);

#endif
