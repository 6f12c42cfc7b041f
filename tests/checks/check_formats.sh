#!/bin/sh
# docs/formats.md has every file, array, note, key, column and member that some runs write, with type and file, and no other ones.
python=${PYTHON:-/usr/bin/python3}
[ -x "$python" ] || { echo "no $python: not checked"; exit 0; }
. ./tests/support/paths.sh
own_net=$build/tests/own_net
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
ln -s "$here/datasets" "$dir/datasets"
for split in train test; do
    mkdir -p "$dir/images/$split/low" "$dir/images/$split/high"
    cp "$here"/examples/digits/[0-4].png "$dir/images/$split/low" && cp "$here"/examples/digits/[5-9].png "$dir/images/$split/high" || exit 1
done
cd "$dir" || exit 1
net='--model 4C3s2-BN-R-8C3s2-BN-R-GAP-10 --data sample --batch 250 --epochs 1'
folder="--data folder:16x16x1 --data-dir images --epochs 1 --batch 2 --model 4C3s2-BN-R-GAP-2"
run() { "$qgrad" "$@" >log 2>&1 || { cat log; exit 1; }; }
run train $net --weight twn --input lsq:bits=2 --out runs/plain
run train $net --weight ttq:per-channel=yes --optimizer adam --ema 0.9 --validation 10% --normalise channel --init runs/plain --out runs/adam
run train $net --weight fake_quant --normalise whiten --out runs/white
run train $net --weight twn --teacher runs/plain --out runs/taught
run train $folder --weight dorefa:bits=1 --input pact --first-last float --out runs/folder
"$own_net" runs/own 1 >log 2>&1 || { cat log; exit 1; }
"$python" - "$here" "$qgrad" <<'END'
import glob, json, os, re, subprocess, sys

here = sys.argv[1]
with open(here + "/docs/formats.md") as f:
    page = f.read()
wrong = []


def table(heading, column):
    """[(names in the first cell, other cells)] of the table with this first column below a heading."""
    section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = section[section.index(f"\n| {column} |"):].strip().split("\n\n")[0].splitlines()[2:]
    rows = [[c.strip() for c in line.strip("|").split(" | ")] for line in lines]
    return [(re.findall(r"`([^`]+)`", r[0]), r[1:]) for r in rows]


def regex(name):
    means = {"LAYER": "[a-z0-9]+", "PARAMETER": r"[a-z0-9]+\.[a-z_.]+", "NAME": "[a-z]+", "K": "[0-9]"}
    return re.compile("".join(means.get(w, re.escape(w)) for w in re.split(r"(\b(?:LAYER|PARAMETER|NAME|K)\b)", name)))


def compare(what, found, rows, fits=lambda name, cells: True):
    """Each name that was found is in one row, which fits, and each name of a row was found."""
    used = set()
    for name in sorted(found):
        hits = [(n, cells) for names, cells in rows for n in names if regex(n).fullmatch(name)]
        if not hits:
            wrong.append(f"the {what} {name} is missing")
        elif not any(fits(name, cells) for _, cells in hits):
            wrong.append(f"the {what} {name} is {found[name]}")
        used.update(n for n, _ in hits)
    wrong.extend(f"no run has the {what} {n}" for names, _ in rows for n in names if n not in used)


arrays, notes, columns, members, keys, files = {}, {}, {}, {}, {}, {}
for run in sorted(glob.glob("runs/*")):
    for path in glob.glob(run + "/*"):
        files[os.path.basename(path)] = ""
    for kind in ("last", "best"):
        with open(f"{run}/{kind}.safetensors", "rb") as f:
            header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        for key in header.pop("__metadata__"):
            notes.setdefault(key, set()).add(kind)
        for name, a in header.items():
            arrays.setdefault(name, (a["dtype"], set()))[1].add(kind)
    with open(run + "/result.json") as f:
        got = json.load(f)
    members.update({k: "" for k in got})
    with open(run + "/metrics.csv") as f:
        names = f.readline().strip().split(",")
    columns.update({n: "" for n in names})
    order = table("metrics.csv", "column")[0][0]
    if [n.replace("validation_", "test_") for n in names[:len(order)]] != order:
        wrong.append(f"{run}/metrics.csv begins with {names[:len(order)]}")
    with open(run + "/config.toml") as f:
        keys.update({line.split(" = ")[0]: "" for line in f})


def where(cells, kinds):
    return kinds == {"both": {"last", "best"}}.get(cells[0], {cells[0]})


compare("file", files, table("Run directory", "file"))
compare("array", arrays, table("Checkpoints", "array"), lambda name, cells: arrays[name][0] in cells[0].split(", ") and where(cells[1:], arrays[name][1]))
rows = [r for r in table("Checkpoints", "note in `__metadata__`") if r[0] != ["net"]]      # only a net of built-in layers has a text
compare("note", notes, rows, lambda name, cells: where(cells, notes[name]))
compare("column", columns, table("metrics.csv", "column"))
compare("member", members, table("result.json", "member"))
options = set(re.findall(r"--([a-z0-9-]+)", subprocess.run([sys.argv[2], "train", "--help", "all"], capture_output=True, text=True).stdout))
known = {n for names, _ in table("config.toml", "key") for n in names} | options | {"net-digest", "validation-digest", "teacher-net-digest", "teacher-steps"}
wrong.extend(f"the key {k} of config.toml is missing" for k in keys if k not in known)
wrong.extend(f"the option {k} is no addition" for names, _ in table("config.toml", "key") for k in names if k in options)
for text, file, number in ((r"\| packed file \| (\d+)", "infer/format.h", r"QG__FORMAT_VERSION\s*=?\s*(\d+)"),
                           (r"\| arithmetic \| (\d+)", "train/fit.h", r"QG_ARITHMETIC\s*=?\s*(\d+)")):
    said = re.search(text, page).group(1)
    with open(f"{here}/{file}") as f:
        has = re.search(number, f.read())
    if not has or has.group(1) != said:
        wrong.append(f"{file} has another version than {said}")
for line in wrong:
    print("docs/formats.md: error:", line)
sys.exit(bool(wrong))
END
