"""Nets of every scheme, model and kind of layer (nets.c) in the engine, in ONNX Runtime with its optimisations off
and on, and in onnxruntime-web (WASM), on the same images.  Writes the tables of docs/export.md.

    compare.py BUILD [IMAGES]       images of each net: 100

The rules: scores of a net that sums no floats are equal, bit for bit; codes that no float sum has reached are equal.
Others may differ by one level, in one of 10^6 with at most 4 codes and one of 10^5 with more, counted at the first
quantizer.  Of the labels of such a net, 2 in 10,000 may differ, and 1 of fewer: nets of random weights have scores that
almost tie.  Of those of all nets, 2 in 10,000."""
import os
import subprocess
import sys
from collections import defaultdict

import numpy as np

import engine

MAY_DIFFER = {"of at most 4 codes": 1e-6, "of up to 256 codes": 1e-5, "labels": 2e-4}
WEB_IMAGES = 20
MANY = [f"model-lenet5-{i}" for i in (1, 4, 6, 7)]      # have a hundred times the images, at most all
PAGE, BEGIN, END = "docs/export.md", "<!-- by make check-export -->\n", "<!-- end -->"


def noise():
    """Pictures of coloured squares with some noise."""
    draw = np.random.default_rng(1)
    squares = draw.integers(0, 128, (200, 8, 8, 3)).repeat(4, 1).repeat(4, 2)
    return (squares + draw.integers(0, 128, squares.shape)).astype(np.uint8)


class Tally:
    """What may differ: codes, by how many there are, and labels; and what failed."""

    def __init__(self):
        self.differ, self.compared, self.faults = defaultdict(int), defaultdict(int), []
        self.labels = defaultdict(list)         # of each net: whether they differ

    def add(self, group, how, differ, compared):
        self.differ[group, how] += differ
        self.compared[group, how] += compared

    def add_codes(self, name, how, count, exact, expected, got):
        differ = np.count_nonzero(expected != got)
        step = np.diff(np.unique(expected)).min(initial=2 if count == 2 else 1)
        if exact and differ:
            self.faults.append(f"{name}, {how}: {differ} of {got.size} codes differ")
        if not exact:
            self.add("of at most 4 codes" if count <= 4 else "of up to 256 codes", how, differ, got.size)
            if differ and np.abs(expected - got).max() > step:
                self.faults.append(f"{name}, {how}: a code differs by more than a level")

    def add_scores(self, name, how, exact, expected, got):
        if exact == 2 and not np.array_equal(expected, got):
            self.faults.append(f"{name}, {how}: {np.count_nonzero(expected != got)} of {got.size} scores differ")
        if exact != 2:
            labels = expected.argmax(1) != got.argmax(1)
            self.add("labels", how, np.count_nonzero(labels), len(got))
            self.labels[name, how].extend(labels)
            for scores in expected[labels]:
                second, first = np.sort(scores)[-2:]
                print(f"{name}, {how}: a label differs, of scores {first:.9g} and {second:.9g}")

    def add_rates(self):
        for (group, how), n in sorted(self.compared.items()):
            text = f"{group}, {how}: {self.differ[group, how]} of {n} differ"
            print(text)
            if self.differ[group, how] > n * MAY_DIFFER[group]:
                self.faults.append(text)
        for (name, how), labels in self.labels.items():
            if sum(labels) > max(1, len(labels) * MAY_DIFFER["labels"]):
                self.faults.append(f"{name}, {how}: {sum(labels)} of {len(labels)} labels differ")


def run_web(build, d, files):
    """Scores of the first images, by file."""
    with open(d + "/web.tsv", "w") as f:
        for file, x in files:
            f.write("\t".join([d + "/" + file, f"{d}/{'x'.join(map(str, x.shape[1:]))}.u8", str(WEB_IMAGES),
                               *map(str, x.shape[1:]), d + "/" + file + ".f32"]) + "\n")
    subprocess.run(["node", "tests/export/web.mjs", build + "/export/web", d + "/web.tsv"], check=True)


def compare(build, d, tally, name, exact, count, x):
    for end, images in (("", x), (".codes", x[:100])):
        if end and not count:
            continue
        e = engine.Engine(build, f"{d}/{name}{end}.qg")
        runs = {how: engine.session(f"{d}/{name}{end}.onnx", how) for how in engine.LEVELS}
        for at in range(0, len(images), 100):
            part = images[at:at + 100]
            expected = e.run(part)
            for how, session in runs.items():
                got = engine.run(session, part)
                if end:
                    tally.add_codes(name, how, count, exact, expected, got)
                else:
                    tally.add_scores(name, how, exact, expected, got)


def compare_web(build, d, tally, nets):
    files = [(name + end + ".onnx", x) for name, _, count, x in nets for end in ["", ".codes"][:2 if count else 1]]
    run_web(build, d, files)
    for name, exact, count, x in nets:
        for end in ["", ".codes"][:2 if count else 1]:
            expected = engine.Engine(build, f"{d}/{name}{end}.qg").run(x[:WEB_IMAGES])
            got = np.fromfile(f"{d}/{name}{end}.onnx.f32", np.float32).reshape(expected.shape)
            os.remove(f"{d}/{name}{end}.onnx.f32")
            if end:
                tally.add_codes(name, "web", count, exact, expected, got)
            else:
                tally.add_scores(name, "web", exact, expected, got)


VERDICTS = ["labels", "codes", "scores"]


def table(lines, title):
    """Rows and columns as they come; one row for all that have the same cells."""
    cells, columns, rows = {}, {}, {}
    for _, _, row, column, exact, *_ in lines:
        columns[column] = None
        verdict = "refused" if exact == "refused" else VERDICTS[int(exact)]
        cells.setdefault(row.split(":")[0] if title != "nets as text" else row, {}).setdefault(column, set()).add(verdict)
    for row, of in cells.items():
        rows.setdefault(" | ".join(", ".join(sorted(of.get(c, ""))) for c in columns), []).append(f"`{row}`")
    head = ["| " + " | ".join([title, *columns]) + " |", "|---" * (1 + len(columns)) + "|"]
    return head + [f"| {', '.join(names)} | {text} |" for text, names in rows.items()]


def write_tables(lines):
    """The page between its two marks."""
    tables = [table([f for f in lines if f[1] == t], t)
              for t in ("weights", "inputs", "models")]
    with open(PAGE) as f:
        head, rest = f.read().split(BEGIN)
    with open(PAGE, "w") as f:
        f.write(head + BEGIN + "\n\n".join("\n".join(t) for t in tables) + "\n" + END + rest.split(END)[1])


def main(build, most):
    d, tally, nets = build + "/export/nets", Tally(), []
    os.makedirs(d, exist_ok=True)
    images = {(28, 28, 1): engine.mnist(), (32, 32, 3): noise()}
    for shape, x in images.items():
        x[:200].tofile(f"{d}/{'x'.join(map(str, shape))}.u8")
    done = subprocess.run([build + "/tests/export/nets", d], check=True, capture_output=True, text=True)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    for f in lines:
        if f[4] == "refused":
            print(f"{f[0]}: refused: {f[5]}")
            continue
        shape = engine.session(f"{d}/{f[0]}.onnx", "disabled").get_inputs()[0].shape[1:]
        x = images[tuple(shape)][:most * (100 if f[0] in MANY else 1)]
        nets.append((f[0], int(f[4]), int(f[5]), x))
        compare(build, d, tally, *nets[-1])
    compare_web(build, d, tally, nets)
    tally.add_rates()
    print("\n".join(tally.faults))
    print(f"{len(nets)} nets exported, {len(lines) - len(nets)} refused, {len(tally.faults)} faults")
    write_tables(lines)
    return bool(tally.faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100))
