#!/usr/bin/env python3
"""Opens the page of a net (make page) in headless Chromium, draws ten digits with the mouse, and compares what the page computes with
`qgrad predict` and, bit for bit, with the net in C as a program of this machine.  Part of `make check` (tests/page.sh).

    python3 tests/drawn.py BUILD BROWSER RUN [DIRECTORY]

BUILD/page has the page of RUN; DIRECTORY gets a screenshot.
"""
import json
import math
import os
import subprocess
import sys

from chromium import check, run
from make_digits import DIGITS

BUILD, BROWSER, RUN = sys.argv[1:4]
PAGE = os.path.abspath(BUILD + "/page/page.html")
MOST_BYTES = 400000


def draw(b, strokes):
    b.click("#clear")
    x0, y0, side = b.run("(r => [r.x, r.y, r.width])(document.querySelector('#pad').getBoundingClientRect())")
    for stroke in strokes:
        for i, (x, y) in enumerate(stroke):
            b.mouse("mouseMoved" if i else "mousePressed", x0 + x * side / 100, y0 + y * side / 100)
        b.mouse("mouseReleased", x0 + x * side / 100, y0 + y * side / 100)
    return b.run("({ image: [...image], label: result.label, scores: [...new Uint32Array(result.scores.buffer)], values: [...result.scores],"
                 " steps: steps.map(s => s.values.length) })")


def program(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def check_scores(drawn, side, scratch):
    """As the net in C has them on this machine, and as qgrad predict has their softmax, of nine digits."""
    with open(scratch + "/images", "wb") as out:
        out.write(bytes(16) + b"".join(bytes(d["image"]) for d in drawn))
    program(os.environ.get("CC", "cc").split()[-1], "-std=c99", "-O2", '-DNET="%s/page/net.c"' % os.path.abspath(BUILD), "-o", scratch + "/net",
            "tests/export/hosted.c")
    for d, line in zip(drawn, program(scratch + "/net", scratch + "/images", str(len(drawn))).splitlines()):
        own = [int(word, 16) for word in line.split()[-len(d["scores"]) - 1:]]
        check(own == d["scores"] + [d["label"]], "the page has other scores than the program")
    for i, d in enumerate(drawn):
        name = "%s/%d.pgm" % (scratch, i)
        with open(name, "wb") as out:
            out.write(b"P5 %d %d 255\n" % (side, side) + bytes(d["image"]))

        top = json.loads(program(BUILD + "/qgrad", "predict", "--run", RUN, "--top", str(len(d["scores"])), "--json", to_bmp(name, side, d["image"])))
        total = sum(math.exp(v - max(d["values"])) for v in d["values"])
        for c in top["images"][0]["classes"]:
            p = math.exp(d["values"][c["class"]] - max(d["values"])) / total
            check(abs(p - c["probability"]) <= 1e-8, "class %d has %g, in qgrad predict %g" % (c["class"], p, c["probability"]))
        check(top["images"][0]["classes"][0]["class"] == d["label"], "the label differs from that of qgrad predict")


def to_bmp(name, side, image):
    """A grey image as 24 bits, rows from below; rows of 28 pixels end at a multiple of 4 bytes."""
    name = name[:-3] + "bmp"
    rows = b"".join(bytes(v for v in image[y * side:(y + 1) * side] for _ in range(3)) for y in reversed(range(side)))
    with open(name, "wb") as out:
        out.write(b"BM" + (54 + len(rows)).to_bytes(4, "little") + bytes(4) + (54).to_bytes(4, "little") + (40).to_bytes(4, "little")
                  + side.to_bytes(4, "little") * 2 + b"\1\0\x18\0" + bytes(24) + rows)
    return name


def main(browser, scratch):
    size = os.path.getsize(PAGE)
    check(size <= MOST_BYTES, "the page has %d bytes, %d are allowed" % (size, MOST_BYTES))
    directory = sys.argv[4] if len(sys.argv) > 4 else scratch
    for width in 390, 1280:
        browser.window(width)
        browser.open()
        check(browser.run("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than a window of %d" % width)
    side = browser.run("W")
    drawn = [draw(browser, strokes) for strokes in DIGITS]
    with open(directory + "/page.png", "wb") as out:
        out.write(browser.screenshot())
    browser.check_quiet()
    check(all(d["steps"] == drawn[0]["steps"] and len(d["steps"]) > 1 for d in drawn), "not all steps are shown")
    check_scores(drawn, side, scratch)
    right = sum(d["label"] == i for i, d in enumerate(drawn))
    print("tests/drawn.py: %d bytes; the scores of ten drawn digits, %d of them recognised, are those of the program and of qgrad predict"
          % (size, right))


run(main, BROWSER, "file://" + PAGE)
