#!/usr/bin/env python3
"""Draws examples/digits/0.png .. 9.png: ten digits of strokes, white on black, 28 x 28, in the proportions of MNIST's.

    python3 tests/make_digits.py [DIRECTORY]
"""
import math
import sys

# Strokes through points of a square of 100.
DIGITS = [[[(50, 15), (30, 30), (27, 55), (38, 80), (58, 82), (70, 60), (68, 30), (50, 15)]], [[(40, 30), (52, 15), (52, 85)]],
          [[(30, 30), (45, 15), (65, 22), (65, 40), (30, 82), (72, 82)]],
          [[(30, 20), (55, 15), (66, 30), (48, 47), (68, 62), (58, 82), (30, 80)]], [[(60, 85), (60, 15), (27, 60), (76, 60)]],
          [[(68, 17), (36, 17), (33, 46), (58, 44), (68, 62), (55, 82), (30, 80)]],
          [[(60, 15), (36, 45), (32, 70), (48, 84), (64, 70), (56, 54), (34, 64)]], [[(28, 18), (72, 18), (44, 85)]],
          [[(50, 48), (33, 32), (50, 15), (66, 30), (50, 48), (32, 66), (50, 84), (68, 66), (50, 48)]],
          [[(66, 36), (50, 48), (36, 34), (48, 17), (66, 28), (64, 60), (54, 85)]]]
SIDE, RADIUS = 28, 1.2          # pixels


def distance(p, a, b):
    """From a point to the line between two others."""
    along, off = (b[0] - a[0], b[1] - a[1]), (p[0] - a[0], p[1] - a[1])
    t = (along[0] * off[0] + along[1] * off[1]) / (along[0] ** 2 + along[1] ** 2)
    t = min(max(t, 0), 1)
    return math.hypot(off[0] - t * along[0], off[1] - t * along[1])


def pixels(strokes):
    """[28][28], 255 on a stroke, falling to 0 within a pixel of its edge."""
    scale = SIDE / 100
    lines = [tuple((x * scale, y * scale) for x, y in ends) for s in strokes for ends in zip(s, s[1:])]
    near = [[min(distance((x + .5, y + .5), *l) for l in lines) for x in range(SIDE)] for y in range(SIDE)]
    return [[round(255 * min(max(RADIUS + .5 - d, 0), 1)) for d in row] for row in near]


def main(directory="examples/digits"):
    import numpy as np
    from make_sample import png
    for k, strokes in enumerate(DIGITS):
        with open(f"{directory}/{k}.png", "wb") as f:
            f.write(png(np.array(pixels(strokes), np.uint8)))


if __name__ == "__main__":
    main(*sys.argv[1:])
