#!/usr/bin/env python3
"""Opens docs/course/staircase.html in headless Chromium, as a reader would: drags, presses keys, plays, predicts,
prints, at the widths of a desktop and a phone, light and dark.  Compares its quantizers with `qgrad plot --json`, bit
for bit, and its nets with the program of chapter 6.  Part of `make check` (tests/page.sh).

    python3 tests/staircase.py BUILD BROWSER [DIRECTORY]

DIRECTORY gets the screenshots, and what Chromium prints.
"""
import base64
import json
import os
import subprocess
import sys

from chromium import check, run

BUILD, BROWSER = sys.argv[1:3]
PAGE = "file://" + os.path.abspath("docs/course/staircase.html")
MOST_BYTES = 80000


def program(*command):
    return subprocess.run([BUILD + "/" + command[0], *command[1:]], check=True, capture_output=True, text=True).stdout


def settings():
    """Some of what the controls of part 1 offer: all schemes with all surrogates, and all bits and thresholds of their ranges."""
    of = {"twn": "threshold", "ttq": "threshold", "lsq": "bits", "dorefa": "bits", "fake_quant": "bits"}
    some = {"twn": [0.05, 0.3, 0.55, 0.7, 1, 1.35, 2], "ttq": [0.01, 0.05, 0.21, 0.5, 0.77, 0.95],
            "lsq": range(2, 9), "dorefa": range(1, 9), "fake_quant": range(2, 9)}
    for surrogate in "own", "identity", "clip", "approx-sign":
        yield {"scheme": "sign", "surrogate": surrogate}
        for scheme, option in of.items():
            for value in some[scheme]:
                yield {"scheme": scheme, option: value, "surrogate": surrogate}


def quantizers(b):
    """x, q and the slope are floats, of which 9 digits are all; s is a double, compared as it is printed."""
    n = 0
    for o in settings():
        scheme = b.run("schemeText(%s)" % json.dumps(o))
        printed = program("qgrad", "plot", scheme, "--json")
        differ = b.run("""(() => { const theirs = %s, c = plot(%s), differ = [];
            for (const [name, mine] of [["x", c.x], ["q", c.q], ["slope", c.slope]])
                theirs[name].forEach((v, i) => Object.is(f(v), mine[i]) || differ.push([name, i, v, mine[i]]));
            theirs.surrogate.forEach((v, i) => Number(c.s[i].toPrecision(9)) === v || differ.push(["s", i, v, c.s[i]]));
            return theirs.x.length === c.x.length ? differ : ["lengths"]; })()""" % (printed, json.dumps(o)))
        check(not differ, "%s: %d numbers differ from those of qgrad plot, the first is %s" % (scheme, len(differ), differ[:1]))
        n += 1
    return "%d quantizers have the bits of qgrad plot" % n


def moons(b, seeds=20):
    """Both sum in the same order.  tanh, sin and cos may differ in the last digit, which moves a point on the border at most:
    one point of accuracy is 5 of the 500 test points of each seed."""
    levels, worst = {"float": 0, "binary": 2, "ternary": 3}, 0
    for line in program("examples/course/moons", str(seeds)).split("\n")[1:-1]:
        weights, schedule, accuracy, _, flipped, _ = line.split()
        mine = b.run("""(() => { const r = { accuracy: 0, flipped: 0 };
            for (let seed = 1; seed <= %d; seed++)
                for (const [name, v] of Object.entries(trainNet(%d, seed, 0.1, "%s"))) r[name] += v / %d;
            return r; })()""" % (seeds, levels[weights], schedule, seeds))
        for name, theirs in ("accuracy", accuracy), ("flipped", flipped):
            off = abs(mine[name] - float(theirs))
            check(off <= 1, "two moons, %s, %s: %s is %.2f, in C %s" % (weights, schedule, name, mine[name], theirs))
            worst = max(worst, off)
    return "six nets of %d seeds are within %.2f points of moons.c" % (seeds, worst)


def weight(b):
    """The weight as the page shows it."""
    return float(b.run("document.querySelector('#weight').getAttribute('aria-valuenow')"))


def drags(b):
    b.open()
    x, y = b.place("#weight .grip")
    left, right = (b.run("(m => m.e + m.a * %s)(document.querySelector('#curves').getScreenCTM())" % side)
                   for side in ("LEFT", "RIGHT"))
    before = b.run("document.querySelector('#at-w').textContent")
    b.mouse("mousePressed", x, y)
    for part in 0.2, 0.5, 0.8:
        at = left + part * (right - left)
        b.mouse("mouseMoved", at, y)
        low, high = b.run("[curve.from, curve.to]")
        check(abs(weight(b) - (low + part * (high - low))) < 0.01, "dragged to %g, the weight is %g" % (part, weight(b)))
    b.mouse("mouseReleased", at, y)
    b.mouse("mouseMoved", left, y)
    check(abs(weight(b) - (low + part * (high - low))) < 0.01, "the weight follows a mouse that has let it go")
    check(b.run("document.querySelector('#at-w').textContent") != before, "the numbers do not follow the weight")
    b.wait("location.hash.includes('w=')")
    # A finger, on a phone.
    b.window(390, 844)
    b.call("Emulation.setTouchEmulationEnabled", enabled=True)
    b.open()
    x, y = b.place("#weight .grip")
    b.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
    for k in 1, 2, 3:
        b.call("Input.dispatchTouchEvent", type="touchMove", touchPoints=[{"x": x + 30 * k, "y": y}])
    b.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    check(weight(b) > 0.3, "a finger drags the weight to %g" % weight(b))
    b.call("Emulation.setTouchEmulationEnabled", enabled=False)
    b.window(1280)
    return "the weight follows the mouse and a finger"


def uses_keys(b):
    b.open()
    b.run("document.querySelector('#weight').focus()")
    low, high, start = b.run("[curve.from, curve.to, %g]" % weight(b))
    step = (high - low) / 100
    for key, to in ("ArrowRight", start + step), ("ArrowLeft", start), ("Home", low), ("PageUp", low + 10 * step), ("End", high):
        b.press(key)
        check(abs(weight(b) - to) < 2e-3, "after %s the weight is %g, not %g" % (key, weight(b), to))
    b.press("r")
    for key in "sss":
        b.press(key)
    check(b.run("run.w.length") == 4, "three times s are not three steps")
    b.press("e")
    check(b.run("nets[0].step") == 20, "e is not an epoch")
    b.press("p")
    check(b.run("playing"), "p does not play")
    b.press("p")
    check(not b.run("playing"), "p does not pause")
    # Radio buttons move with the arrows.
    b.run("document.querySelector('[name=scheme][value=twn]').focus()")
    b.press("ArrowRight")
    check(b.run("o.scheme") == "ttq", "the arrow does not choose the next scheme")
    # Everything that can be used is reached with Tab.
    b.run("document.activeElement.blur()")
    reached = set()
    for _ in range(60):
        b.press("Tab")
        reached.add(b.run("document.activeElement.id || document.activeElement.name || ''"))
    want = {"weight", "scheme", "threshold", "surrogate", "guess1", "guess2", "guess3", "target", "noise", "rate", "schedule",
            "play", "step", "restart", "netRate", "netSchedule", "seed", "train", "epoch", "again", "average"}
    check(want <= reached, "Tab does not reach %s" % (want - reached))
    return "keys move, step, play and choose, and Tab reaches %d controls" % len(want)


def plays(b):
    # What answer 2 lets the reader try.
    ends = []
    for rate, target, noise, schedule in (("0.1", 0.4, 0, "constant"), ("0.002", 0.4, 0, "constant"), ("0.1", 0.6, 1, "constant"),
                                          ("0.1", 0.6, 1, "cosine")):
        b.open("#rate=%s&target=%g&noise=%g&schedule=%s" % (rate, target, noise, schedule))
        b.click("#play")
        b.wait("isDone(run) && !playing")
        check(b.run("document.querySelectorAll('#trail path.flip').length === flipsOf(run, curve).length"),
              "the ticks are not the flips")
        ends.append(b.run("document.querySelector('#verdict').textContent").split(":")[0])
    check(ends == ["Chatter", "Frozen", "Chatter", "Settled"], "the runs end as %s" % ends)
    b.open("#surrogate=none&rate=1")
    b.click("#play")
    b.wait("isDone(run) && !playing")
    check(b.run("run.w.every(w => w === run.w[0])"), "without a surrogate the weight moves")
    b.open("#netSchedule=cosine&seed=3")
    b.click("#train")
    b.wait("isTrained(nets[0]) && !training")
    shown = b.run("[...document.querySelectorAll('.nets output')].map(o => o.textContent)")
    want = b.run("KINDS.map(([, levels]) => trainNet(levels, 3, 0.1, 'cosine').accuracy.toFixed(1) + ' %')")
    check(shown == want, "the nets show %s, and should %s" % (shown, want))
    b.open()
    b.run("average(2)")
    check(b.run("document.querySelectorAll('#seeds td').length") == 12, "the table of seeds has not twelve numbers")
    return "runs end as %s; three nets train to %s" % (", ".join(ends).lower(), ", ".join(shown))


def predicts(b):
    b.open("#scheme=lsq&rate=0.001")
    shown = "[...document.querySelectorAll('.answer')].map(a => !a.hidden)"
    check(b.run(shown) == [False] * 3, "an answer is shown before a guess")
    for i, right in enumerate(("not at all", "jumping", "binary")):
        b.click(".choices label:has([name=guess%d]:not([value='%s']))" % (i + 1, right))
        if i:
            check(not b.run(shown)[i], "answer %d is shown before the run has ended" % (i + 1))
        b.wait(shown + "[%d]" % i)
        check(b.run("document.querySelectorAll('.verdict')[%d].textContent" % i) == "No.", "a wrong guess is praised")
    check(b.run("o.scheme") == "twn" and b.run("run.w.length") == 201, "the question's own run was not made")
    # What the answers claim.
    flipped = b.run("nets.map(n => n.flipped.at(-1))")
    check(max(flipped) == flipped[2], "another net than binary flips most: %s" % flipped)
    check(b.run("document.querySelector('#verdict').textContent").startswith("Chatter"), "the weight of question 2 does not jump")
    check(b.run("Math.abs(levelsOf(curve).at(-1) - 0.592) < 0.001"), "question 2 names another level")
    return "answers come after guesses"


def keeps_address(b):
    wants = {"scheme": "fake_quant", "bits": 4, "surrogate": "clip", "target": -0.5, "noise": 0.3, "rate": 0.2,
             "schedule": "cosine", "netRate": 0.05, "netSchedule": "cosine", "seed": 7, "w": 0.5}
    address = ["%s=%s" % pair for pair in wants.items()]
    b.open("#" + "&".join(address))
    got = b.run("o")
    check(got == wants, "the address gives %s" % got)
    b.press("r")
    b.wait("new Date() - performance.timeOrigin > 1000")            # it is written 250 ms later
    check(sorted(b.run("location.hash")[1:].split("&")) == sorted(address), "the address becomes " + b.run("location.hash"))
    b.open("#scheme=nonsense&bits=x&rate=-1&w=NaN&seed=1e99&other=1")
    got = b.run("o")
    check(got["scheme"] == "twn" and got["rate"] == 0.05 and got["w"] == -0.25, "nonsense in the address gives %s" % got)
    return "the address holds the settings"


def pictures(b, directory):
    made = 0
    b.window(320)
    b.open()
    check(b.run("document.documentElement.scrollWidth <= 320"), "the page is wider than a window of 320")
    for width in 1280, 390:
        for dark in False, True:
            b.window(width, 900 if width > 600 else 844, dark)
            b.open("#w=0.45")
            b.run("(setUp.forEach((_, i) => form.elements['guess' + (i + 1)][1].checked = true), setUp[1](), setUp[2](), setUp[0]())")
            b.wait("!playing && !training && isDone(run) && isTrained(nets[0])")
            check(b.run("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than a window of %d" % width)
            check(b.run("[...document.querySelectorAll('svg text')].every(t => { const b = t.getBoundingClientRect();"
                        " return b.left >= 0 && b.right <= innerWidth + 0.5; })"), "a word of a chart leaves a window of %d" % width)
            paper = b.run("getComputedStyle(document.body).backgroundColor")
            check((sum(map(int, paper[4:-1].split(","))) < 200) == dark, "a %s page is %s" % ("dark" if dark else "light", paper))
            colours = b.run("""[...document.querySelectorAll("canvas")].map(c => new Set(
                new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer)).size)""")
            check(min(colours) > 20, "a net is drawn in %s colours" % colours)
            name = "%s/staircase-%d-%s.png" % (directory, width, "dark" if dark else "light")
            with open(name, "wb") as out:
                out.write(b.screenshot())
            check(os.path.getsize(name) > 50000, name + " is nearly empty")
            made += 1
    b.window(1280)
    b.open("#w=0.45")
    pdf = base64.b64decode(b.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"])
    with open(directory + "/staircase.pdf", "wb") as out:
        out.write(pdf)
    b.window(725, 1055, media="print")          # A4 without its margins
    with open(directory + "/staircase-print.png", "wb") as out:
        out.write(b.screenshot())
    pages = pdf.count(b"/Type /Page\n")
    check(pages == 1, "it prints on %d pages" % pages)
    return "%d screenshots, and a page on paper" % made


def main(browser, scratch):
    size = os.path.getsize("docs/course/staircase.html")
    check(size <= MOST_BYTES, "the page has %d bytes, %d are allowed" % (size, MOST_BYTES))
    directory = sys.argv[3] if len(sys.argv) > 3 else scratch
    browser.window(1280)
    browser.open()
    for part in quantizers, moons, drags, uses_keys, plays, predicts, keeps_address, lambda b: pictures(b, directory):
        print("tests/staircase.py:", part(browser), flush=True)
        browser.check_quiet()


run(main, BROWSER, PAGE)
