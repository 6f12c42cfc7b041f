#!/usr/bin/env python3
"""Draws the figures of the course, and that of the README, from what qgrad and the programs of examples/course print.

    python3 docs/course/figures.py [BUILD [DIRECTORY [CHAPTERS]]]

from the top of the tree, after make all examples.  CHAPTERS 127 draws those of chapters 1, 2 and 7; 0 is that of the README.
"""
import json
import math
import subprocess
import sys
import tempfile
from html import escape

if any(word.startswith("-") for word in sys.argv[1:]):
    sys.exit(__doc__)
BUILD, OUT, CHAPTERS = (sys.argv[1:] + ["build", "docs/course", "012345678"][len(sys.argv) - 1:])[:3]
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#b0568c"], ["#56b4e9", "#ff9248", "#3fd0a4", "#e59bc6"]
STYLE = """text{font:12px system-ui,sans-serif;fill:#333}.t{font-weight:600}.l{fill:none;stroke-width:2}
.g{stroke:#e4e4e4}.a{stroke:#999;fill:none}.m{stroke:#888;stroke-dasharray:4 3}.dash{stroke-dasharray:6 4}.area{fill-opacity:.35}
.box{fill:#f4f4f4;stroke:#999}.band{fill:#999;fill-opacity:.16}""" + "".join(
    ".s%d{stroke:%s}.f%d{fill:%s}" % (i, c, i, c) for i, c in enumerate(COLOURS[0])) + """
@media(prefers-color-scheme:dark){text{fill:#ccc}.g{stroke:#333}.box{fill:#222}""" + "".join(
    ".s%d{stroke:%s}.f%d{fill:%s}" % (i, c, i, c) for i, c in enumerate(COLOURS[1])) + "}"
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 400, 270, 52, 48, 44


def run(*command):
    return subprocess.run([BUILD + "/" + command[0], *command[1:]], check=True, capture_output=True, text=True).stdout


def program(name, *arguments):
    return run("examples/course/" + name, *arguments)


def text(x, y, words, anchor="middle", kind=""):
    return '<text class="%s" text-anchor="%s" x="%.1f" y="%.1f">%s</text>' % (kind, anchor, x, y, escape(words))


def ticks(low, high):
    """Round numbers between low and high, about five of them."""
    step = 10 ** math.floor(math.log10((high - low) / 4))
    step *= next(k for k in (1, 2, 5, 10) if (high - low) / (k * step) <= 6)
    return [round(i * step, 10) for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def chart(at, title, x, y, series, band=None, marks=(), names=True):
    """x, y: (label, low, high).  series: (name, colour, points) and "dash", "area" or "dots" if it is not a line."""
    def px(v): return at + LEFT + (v - x[1]) / (x[2] - x[1]) * (WIDTH - LEFT - 16)
    def py(v): return HEIGHT - BOTTOM - (min(max(v, y[1]), y[2]) - y[1]) / (y[2] - y[1]) * (HEIGHT - BOTTOM - TOP)
    out = [text(at + LEFT, 16, title, "start", "t")]
    for v in ticks(*x[1:]):
        out += ['<path class="g" d="M%.1f %dV%d"/>' % (px(v), HEIGHT - BOTTOM, TOP), text(px(v), HEIGHT - BOTTOM + 16, "%g" % v)]
    for v in ticks(*y[1:]):
        out += ['<path class="g" d="M%.1f %.1fH%.1f"/>' % (px(x[1]), py(v), px(x[2])), text(at + LEFT - 6, py(v) + 4, "%g" % v, "end")]
    out += [text(at + (WIDTH + LEFT - 16) / 2, HEIGHT - 8, x[0]),
            '<text text-anchor="middle" transform="translate(%d %d) rotate(-90)">%s</text>' % (at + 13, (HEIGHT - BOTTOM + TOP) / 2, escape(y[0])),
            '<path class="a" d="M%.1f %dV%dH%.1f"/>' % (px(x[1]), TOP, HEIGHT - BOTTOM, px(x[2]))]
    if band:
        out.append('<rect class="band" x="%.1f" y="%d" width="%.1f" height="%d"/>' % (px(band[0]), TOP, px(band[1]) - px(band[0]), HEIGHT - BOTTOM - TOP))
    for v, words in marks:
        out += ['<path class="m" d="M%.1f %dV%d"/>' % (px(v), HEIGHT - BOTTOM, TOP), text(px(v) + 4, TOP + 12, words, "start")]
    legend = at + LEFT
    for name, colour, points, *kind in series:
        if "dots" in kind:
            out += ['<circle class="f%d" r="3" cx="%.1f" cy="%.1f"/>' % (colour, px(a), py(b)) for a, b in points]
        else:
            shown = [(a, b) for a, b in points if b <= y[2]]
            path = "M" + "L".join("%.1f %.1f" % (px(a), py(b)) for a, b in shown)
            if "area" in kind:
                out.append('<path class="f%d area" d="%sL%.1f %.1fL%.1f %.1fZ"/>' % (colour, path, px(points[-1][0]), py(y[1]), px(points[0][0]), py(y[1])))
            out.append('<path class="l s%d %s" d="%s"/>' % (colour, " ".join(kind), path))
        if names and name:
            out += ['<path class="l s%d %s" d="M%d 30h22"/>' % (colour, " ".join(kind), legend), text(legend + 26, 34, name, "start")]
            legend += 40 + 7 * len(name)
    return "".join(out)


def write(name, panels, width=None, height=HEIGHT, style=""):
    width = width or WIDTH * len(panels)
    with open("%s/%s.svg" % (OUT, name), "w") as out:
        out.write('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d"><style>%s</style>\n%s\n</svg>\n' % (
            width, height, width, height, STYLE + style, "\n".join(panels)))


def ternary():
    """A ternary LeNet-5 after eight epochs on the sample: its second convolution.  The page behind it may be dark or light."""
    with tempfile.TemporaryDirectory() as at:
        run("qgrad", "train", *"--model lenet5 --data sample --weight twn --batch 20 --epochs 8 --optimizer adam --lr 0.002".split(),
            "--schedule", "cosine", "--out", at + "/run")
        layers = json.loads(run("qgrad", "inspect", at + "/run", "--json", "--histogram"))["layers"]
    layer = next(one for one in layers if one["layer"] == "conv2")
    edges, counts, (low, high) = (layer["histogram"][k] for k in ("edges", "counts", "thresholds"))
    levels = [v["min"] for v in layer["quantized"]["values"]]
    shares = [v["share"] for v in layer["quantized"]["values"]]
    reach, width, left, top, bottom = 3.2 * high, 760, 20, 66, 316
    def px(w): return left + (w + reach) / (2 * reach) * (width - 2 * left)
    def py(v): return (top + bottom) / 2 - v / (1.5 * levels[2]) * (bottom - top) / 2
    heights = [c / (edges[i + 1] - edges[i]) for i, c in enumerate(counts)]
    out = ['<rect class="page" width="%d" height="386" rx="8"/>' % width]
    for i, h in enumerate(heights):
        a, b, kind = max(edges[i], -reach), min(edges[i + 1], reach), 1 if edges[i + 1] <= low else 3 if edges[i] >= high else 2
        tall = h / max(heights) * (bottom - top) * 0.6
        if a < b:
            out.append('<rect class="bar%d" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>' % (kind, px(a), bottom - tall, max(px(b) - px(a) - 1, 0.5), tall))
    out += ['<path class="a" d="M%d %dH%d"/>' % (left, bottom, width - left)]
    for at, name in (low, "-D"), (0, "0"), (high, "+D"):
        out += ['<path class="m" d="M%.1f %dV%d"/>' % (px(at), bottom, top), text(px(at), bottom + 17, name)]
    end = min(1.5 * levels[2], reach)
    out += ['<path class="l dash s1" d="M%.1f %.1fL%.1f %.1f"/>' % (px(-end), py(-end), px(end), py(end)),
            '<path class="stair" d="M%.1f %.1fH%.1fV%.1fH%.1fV%.1fH%.1f"/>' % (
                px(-reach), py(levels[0]), px(low), py(0), px(high), py(levels[2]), px(reach)),
            text(px(-reach) + 4, py(levels[0]) - 8, "-a", "start", "t big"), text(px(reach) - 4, py(levels[2]) - 8, "+a", "end", "t big")]
    for k, (at, name) in enumerate((((low - reach) / 2, "-a"), (0, "0"), ((high + reach) / 2, "+a"))):
        out.append(text(px(at), bottom + 38, "%.0f %% become %s" % (100 * shares[k], name), kind="t"))
    out += ['<path class="stair" d="M20 24h26"/>', text(54, 28, "forward: the net computes with the stairs q(w)", "start", "t big"),
            '<path class="l dash s1" d="M20 46h26"/>', text(54, 50, "backward: gradients take the slope of this line instead", "start", "t lean"),
            '<rect class="bar2" x="470" y="38" width="26" height="14"/>', text(504, 50, "bars: the latent weights of a layer", "start"),
            text(width / 2, 376, "latent weight w of the second convolution of a trained LeNet-5, %s weights" % format(layer["weights"], ","))]
    write("ternary", out, width=width, height=386, style="""
.page{fill:#fff;stroke:#ddd}.stair{fill:none;stroke:#0072b2;stroke-width:4}.big{fill:#0072b2}.lean{fill:#c04a00}
.bar1{fill:#b0568c;fill-opacity:.35}.bar3{fill:#009e73;fill-opacity:.35}.bar2{fill:#888;fill-opacity:.3}
@media(prefers-color-scheme:dark){.page{fill:#15181c;stroke:#333}.stair{stroke:#56b4e9}.big{fill:#56b4e9}.lean{fill:#ff9248}}""")


def staircase():
    of = {}
    for surrogate in "identity", "clip", "approx-sign":
        rows = [line.split(",") for line in run("qgrad", "plot", "sign:surrogate=" + surrogate, "--csv").split()[1:]]
        of[surrogate] = [[float(v) for v in row] for row in rows if abs(float(row[0])) <= 1.6][::3]
    steps = [(-1.6, -1), (0, -1), (0, 1), (1.6, 1)]
    kinds = [("identity", 1, "dash"), ("clip", 2), ("approx-sign", 3)]
    left = [("sign", 0, steps)] + [(n, c, [(r[0], r[2]) for r in of[n]], *k) for n, c, *k in kinds]
    right = [(n, c, [(r[0], r[3]) for r in of[n]], *k) for n, c, *k in kinds]
    write("1-staircase", [chart(0, "the staircase, and three smoother functions", ("w", -1.6, 1.6), ("", -1.6, 1.6), left),
                          chart(WIDTH, "their slopes", ("w", -1.6, 1.6), ("", -0.2, 2.2), right)])


def arrow(kind, colour, x, y, middle, height, to):
    """A curve from (x, y) to (to, y) that is drawn towards (middle, height), with a head."""
    a = math.atan2(y - height, to - middle)
    sides = [(to - 9 * math.cos(a + turn), y - 9 * math.sin(a + turn)) for turn in (-0.4, 0.4)]
    return ('<path class="%s" d="M%d %dQ%d %d %d %d"/>' % (kind, x, y, middle, height, to, y)
            + '<path class="f%d" d="M%d %dL%.1f %.1fL%.1f %.1fZ"/>' % (colour, to, y, *sides[0], *sides[1]))


def tape():
    rows = [line.split() for line in program("tape").split("\n\n")[0].split("\n")[1:]]
    out, wide = [], 150
    for i, op, a, b, value, gradient in rows:
        x = 20 + int(i) * wide
        out += ['<rect class="box" x="%d" y="110" width="112" height="62" rx="6"/>' % x, text(x + 56, 130, "var %s: %s" % (i, op), kind="t"),
                text(x + 56, 148, "value " + value), text(x + 56, 164, "grad " + gradient)]
        for k in int(a), int(b):
            if k >= 0:
                start, end, lift = 20 + k * wide + 56, x + 56, 22 + 26 * (int(i) - k)
                middle = (start + end) / 2
                out += [arrow("l s0", 0, start, 110, middle, 110 - lift, end - 12), arrow("l s1 dash", 1, end, 172, middle, 172 + lift, start + 12)]
    out += [text(20, 24, "forward: each var is computed from older ones, left to right", "start", "t"),
            text(20, 276, "backward: gradients flow from the newest var to the oldest, right to left", "start", "t")]
    write("2-tape", out, width=20 + wide * len(rows), height=290)


def scales():
    curves = {}
    for line in program("scales", "curves").split("\n")[:-1]:
        name, threshold, lost = line.split()
        curves.setdefault(name, []).append((float(threshold), 100 * float(lost)))
    write("3-scales", [chart(0, "what ternary weights lose", ("threshold d / mean|w|", 0, 2), ("lost, % of the sum of squares", 0, 60),
                             [(n, i, p) for i, (n, p) in enumerate(curves.items())], marks=[(0.7, "0.7")])])


def learned():
    runs = {}
    for line in program("learned", "1").split("\n")[1:-1]:
        words = line.split()
        values = dict(zip(words[3::2], map(float, words[4::2])))
        runs.setdefault(words[0], []).append((int(words[1]), float(words[2]), values))
    exact, printed = runs["ttq:as=paper"], runs["ttq:as=paper,rule=as-printed"]
    left = [("derivative", 0, [(s, v["wn"]) for s, _, v in exact]), ("as printed", 1, [(s, v["wn"]) for s, _, v in printed if v["wn"] < 4])]
    right = [("LSQ, 3 s", 0, [(s, 3 * v["step"]) for s, _, v in runs["lsq:bits=2"]])]
    right += [(n, c, [(s, v["alpha"]) for s, _, v in runs[k]]) for n, c, k in (("PACT from 1", 1, "pact:bits=2,alpha=1"), ("PACT from 6", 2, "pact:bits=2,alpha=6"))]
    write("4-learned", [chart(0, "Wn of TTQ", ("update", 0, 60), ("Wn", 0, 4), left), chart(WIDTH, "the largest level", ("update", 0, 60), ("", 0, 7), right)])


def order():
    bins = {}
    for line in program("order", "histogram").split("\n")[:-1]:
        name, low, share = line.split(";")
        bins.setdefault(name, []).extend([(int(low), 100 * float(share)), (int(low) + 1, 100 * float(share))])
    write("5-order", [chart(WIDTH * i, "before the sign: " + n, ("x", -15, 15), ("values, %", 0, 80), [(None, i, p, "area")], band=(-1, 1))
                      for i, (n, p) in enumerate(bins.items())])


def dynamics():
    curves = {}
    for line in program("moons", "5", "flips").split("\n")[:-1]:
        weights, rate, epoch, flipped = line.split()
        curves.setdefault((weights, rate), []).append((int(epoch), float(flipped)))
    write("6-dynamics", [chart(WIDTH * i, w + " weights", ("epoch", 0, 40), ("codes that changed, %", 0, 40), [("constant rate", 1, curves[w, "constant"]), ("cosine", 0, curves[w, "cosine"])])
                         for i, w in enumerate(("binary", "ternary"))])


def integers():
    words = program("integers").split("the batch norm is ")[1].split()
    slope, crosses = float(words[0]), float(words[3].strip("):"))
    line = [(y, slope * (y - crosses)) for y in (-8, 20)]
    dots = [[(y, slope * (y - crosses)) for y in range(-8, 21) if (y >= crosses) == above] for above in (False, True)]
    write("7-integers", [chart(0, "a batch norm before a sign is a comparison", ("whole number y", -8, 20), ("batch norm of y", -1.5, 1.5),
                               [("", 2, line), ("", 1, dots[0], "dots"), ("", 0, dots[1], "dots")], marks=[(crosses, "sign changes")])])


def honest():
    def bell(n, p): return [(x / 10, 100 * math.exp(-(x / 1000 - p) ** 2 * n / (2 * p * (1 - p)))) for x in range(800, 951)]
    write("8-honest", [chart(WIDTH * i, "{:,} test images".format(n), ("measured accuracy, %", 80, 95), ("relative frequency", 0, 110),
                             [("truly 87 %", 0, bell(n, 0.87), "area"), ("truly 88 %", 1, bell(n, 0.88), "area")]) for i, n in enumerate((500, 10000))])


FIGURES = ternary, staircase, tape, scales, learned, order, dynamics, integers, honest
for chapter in CHAPTERS:
    FIGURES[int(chapter)]()
