#!/usr/bin/env python3
"""make check-originals: qgrad's operators and the implementations that they are named after, on the same
arrays; a table, and what differs.

    check.py --library libqgrad_flat.so [--only NAME,..] [--size S] [--seed N] [--write results/exactness.md]

Each package is asked in a process of its own.  One that is missing is skipped, with a line that says so.
Exit status 1: a difference that no rule declares.  docs/exactness.md tells the rest.
"""
import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True                      # into the source tree
from declared import DECLARED                       # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
# Name, module with_NAME.py, what its process finds in the environment.
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "PYTHONWARNINGS": "ignore"}
PLAIN = {**QUIET, "TF_ENABLE_ONEDNN_OPTS": "0"}
PACKAGES = [("tensorflow", "tensorflow", PLAIN), ("onednn", "tensorflow", {**QUIET, "TF_ENABLE_ONEDNN_OPTS": "1"}),
            ("tflite", "tflite", PLAIN), ("larq", "larq", PLAIN), ("qkeras", "qkeras", PLAIN),
            ("brevitas", "brevitas", PLAIN), ("torch", "torch", PLAIN)]
BEGIN, END = "<!-- written by make check-originals -->", "<!-- up to here -->"


# --- in the process of one package ------------------------------------------------------------------


def ask(args):
    """The rows of one package, or why there are none."""
    try:
        import numpy
        package = importlib.import_module("with_" + args.worker)
    except Exception as e:                                          # an import may raise anything
        return {"skipped": f"{type(e).__name__}: {(str(e).splitlines() or [''])[0]}"}
    import compare
    import qgrad
    qgrad.load(args.library)
    compare.LEVELS[:] = qgrad.levels()
    table = compare.Table()
    package.compare(table, numpy.random.default_rng(args.seed), lambda n: max(int(n * args.size), 1))
    return {"levels": compare.LEVELS, "rows": [vars(r) for r in table.rows]}


# --- in the first one -------------------------------------------------------------------------------


def answers(args):
    """(name, answer, seconds) of each package asked for."""
    for name, module, environment in PACKAGES:
        if name not in args.only:
            continue
        began = time.time()
        with tempfile.TemporaryDirectory() as directory:
            out, log = os.path.join(directory, "rows"), os.path.join(directory, "log")
            python = [sys.executable, "-S"] if sys.flags.no_site else [sys.executable]      # tests/checks/check_originals.sh
            command = [*python, os.path.abspath(__file__), "--library", args.library, "--worker", module,
                       "--out", out, "--size", str(args.size), "--seed", str(args.seed)]
            with open(log, "w") as f:
                status = subprocess.call(command, env={**os.environ, **environment}, stdout=f, stderr=f)
            if status or not os.path.exists(out):
                with open(log) as f:
                    last = (f.read().strip().splitlines() or [""])[-1]
                yield name, {"failed": f"exit status {status}: {last}"}, time.time() - began
                continue
            with open(out) as f:
                yield name, json.load(f), time.time() - began


def declared_text(row):
    return ", ".join(f"{n:,} {id}" for id, n in row["declared"].items()) or "none"


def show(row):
    print(f"  {row['operator']}: {row['cases']:,} cases, {row['elements']:,} elements, "
          f"{row['bad']:,} undeclared; declared: {declared_text(row)}")
    for example in row["examples"] if row["bad"] else ():
        print(f"      {example}")


def table(*rows):
    """Markdown; the first row is the head."""
    lines = ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return [lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]


def page(rows, levels, args):
    seen = {id for r in rows for id in r["declared"]}
    return [f"Instruction sets {', '.join(levels)}; seed {args.seed}.", "",
            *table(("operator of qgrad", "original", "compared as", "cases", "elements", "undeclared", "declared"),
                   *((r["operator"], r["original"], r["how"], f"{r['cases']:,}", f"{r['elements']:,}", f"{r['bad']:,}",
                      declared_text(r)) for r in rows)), "",
            *table(("declared", "where", "why"), *((id, *DECLARED[id]) for id in DECLARED if id in seen))]


def write(path, lines):
    with open(path) as f:
        before, rest = f.read().split(BEGIN)
    with open(path + ".new", "w") as f:
        f.write(before + BEGIN + "\n\n" + "\n".join(lines) + "\n\n" + END + rest.split(END)[1])
    os.replace(path + ".new", path)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [name for name, _, _ in PACKAGES]
    p.add_argument("--library", required=True)
    p.add_argument("--only", default=names, type=lambda s: s.split(","), metavar=",".join(names))
    p.add_argument("--size", type=float, default=1.0, help="times as many elements")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--write", metavar="PAGE", help="put the table into this page")
    p.add_argument("--worker", help=argparse.SUPPRESS)
    p.add_argument("--out", help=argparse.SUPPRESS)
    args = p.parse_args()
    unknown = set(args.only) - set(names)
    if unknown:
        p.error(f"unknown: {', '.join(sorted(unknown))}; available: {', '.join(names)}")
    if args.worker:
        with open(args.out, "w") as f:
            json.dump(ask(args), f)
        return 0
    rows, levels, skipped, failed = [], [], 0, 0
    for name, answer, seconds in answers(args):
        if "skipped" in answer:
            print(f"{name}: skipped, {answer['skipped']}")
            skipped += 1
            continue
        if "failed" in answer:
            print(f"{name}: failed, {answer['failed']}")
            failed += 1
            continue
        print(f"{name}, {seconds:.0f} s")
        for row in answer["rows"]:
            show(row)
        rows, levels = rows + answer["rows"], answer["levels"]
    bad = sum(r["bad"] for r in rows)
    unnamed = sorted({id for r in rows for id in r["declared"]} - set(DECLARED))
    if unnamed:
        print(f"declared without a reason in declared.py: {', '.join(unnamed)}")
    print(
        f"{len(rows)} comparisons, {sum(r['elements'] for r in rows):,} elements, "
        f"at {', '.join(levels) or 'no level'}: "
        f"{bad:,} undeclared differences; {skipped} of {len(args.only)} packages skipped, {failed} failed")
    if args.write and not (skipped or failed or bad):
        write(args.write, page(rows, levels, args))
    elif args.write:
        print(f"{args.write}: not written, since something is missing or differs")
    return 1 if bad or failed or unnamed else 0


if __name__ == "__main__":
    sys.exit(main())
