"""What the comparisons of training share: images, safetensors files, qgrad's side, tables, and why two part.

A comparison is an object with
    name, peer  of the net, and of the program that trains it beside qgrad
    command     qgrad's program with its own arguments
    batches     {"images": floats as the net reads them [STEPS][n][h][w][c], "labels": bytes [STEPS][n]}
    train(seed, double)  the peer's losses of STEPS steps, each before its update, and what its net held then:
                a dict of arrays under qgrad's names and in its layouts; in float64 if double, from the same
                float32 start
    code(w)     the values that the quantizer of weights makes of an array
"""
import argparse
import json
import os
import subprocess
import tempfile

import numpy as np

STEPS = 10
TOLERANCE = 1e-4        # of a loss: hundreds of roundings; one sign that differs changes it by 1e-3 and more
ROUNDING = 2e-6         # of a loss: eight units in the last place of one between 2 and 4
CLOSE = 1e-5            # of two weights: a hundredth or less of Adam's step
UNMOVED = 1e-6          # of a weight in float64: its gradient was 0, which is 1e-16 there
SMALL = 0.1             # of the largest update of a tensor: that of a gradient as small as Adam's epsilon or a rounding


# --- files ----------------------------------------------------------------------------------------

def mnist(folder, batch):
    """The first batches in the order of the file: bytes [STEPS][batch][28][28][1], labels [STEPS][batch]."""
    images = np.fromfile(os.path.join(folder, "train-images-idx3-ubyte"), np.uint8)[16:]
    labels = np.fromfile(os.path.join(folder, "train-labels-idx1-ubyte"), np.uint8)[8:]
    return (images[:STEPS * batch * 784].reshape(STEPS, batch, 28, 28, 1),
            labels[:STEPS * batch].reshape(STEPS, batch))


def save(path, arrays):
    """A safetensors file of float32 and byte arrays; those of larger elements come first."""
    kinds = {"float32": "F32", "uint8": "U8"}
    arrays = sorted(arrays.items(), key=lambda item: -item[1].itemsize)
    header, at = {}, 0
    for name, a in arrays:
        header[name] = {"dtype": kinds[a.dtype.name], "shape": a.shape, "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for _, a in arrays:
            f.write(np.ascontiguousarray(a).tobytes())


def load(path):
    """The arrays of a safetensors file of float32."""
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data[slice(*entry["data_offsets"])], "<f4").reshape(entry["shape"])
            for name, entry in header.items()}


def qgrad(c, start, trace=False):
    """qgrad's losses from the arrays `start`, and with a trace what its net held before each step."""
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, name) for name in ("batches", "start")]
        for path, arrays in zip(files, (c.batches, start)):
            save(path, arrays)
        p = subprocess.run(c.command + files + [folder] * trace, text=True, stdout=subprocess.PIPE, check=True)
        held = [load(os.path.join(folder, f"{i}.values.safetensors")) for i in range(STEPS * trace)]
    return [float(line) for line in p.stdout.split()], held


# --- why two part -----------------------------------------------------------------------------------

def apart(a, b, by):
    """The first step whose losses are further apart, or None."""
    return next((i for i in range(STEPS) if not abs(a[i] - b[i]) <= by), None)


def moved(states, name, i):
    """How far each element went in the update before step i."""
    return np.abs(states[i][name] - states[i - 1][name])


def from_rounding(states, held, exact, name, at, last):
    """Whether a weight of the two, which are apart before step `last`, is so because of a rounding: it lies where the
    quantizer changes its value, or its gradient was 0 but for rounding when they came apart.  Adam divides a gradient
    by its own size, so a rounding that stands in for 0 moves the weight by a visible part of a whole step."""
    i = next((i for i in range(1, last + 1) if abs(states[i][name][at] - held[i][name][at]) > CLOSE), None)
    return (i is None or moved(exact, name, i)[at] <= UNMOVED
            or all(moved(s, name, i)[at] <= SMALL * moved(s, name, i).max() for s in (states, held)))


def explain(c, seed, theirs, ours, states):
    """(known, text): why the losses part.  Two reasons are known, and neither is a difference of definition:

    - The first quantized weights that differ do so because of a rounding.  What differs later follows from them.
    - No quantized weight differs, and float64 agrees with qgrad: some number in front of a quantizer is where its
      result changes, and the peer's rounding took the wrong side."""
    step = apart(theirs, ours, ROUNDING)
    held = qgrad(c, states[0], trace=True)[1]
    losses, exact = c.train(seed, True)
    side = [name for name, a in ((c.peer, theirs), ("qgrad", ours)) if abs(a[step] - losses[step]) <= ROUNDING]
    side = f"float64 agrees with {' and '.join(side) or 'neither'}"
    for i in range(step + 1):
        differ = [(name, tuple(at)) for name in states[0] if name.endswith(".weight")
                  for at in np.argwhere(c.code(states[i][name]) != c.code(held[i][name])).tolist()]
        if differ:
            name, at = differ[0]
            a, b, e = (s[i][name][at] for s in (states, held, exact))
            known = all(from_rounding(states, held, exact, *weight, i) for weight in differ)
            return known, (f"step {step}: before step {i}, {len(differ)} quantized weight{'s differ' if len(differ) > 1 else ' differs'}"
                           f"{', from roundings' if known else ''}, such as {name}{list(at)}: {a:+.6f} in {c.peer}, {b:+.6f} in "
                           f"qgrad, {e:+.6f} in float64; {side}")
    return side == "float64 agrees with qgrad", f"step {step}: a tie in front of a quantizer; {side}"


# --- tables ---------------------------------------------------------------------------------------

def compare(c, seeds):
    """Prints the table of seed 1 and a line for all; true if every difference has a known reason."""
    agree, largest, parted, fine = 0, 0.0, [], True
    for seed in range(1, seeds + 1):
        theirs, states = c.train(seed, False)
        ours, _ = qgrad(c, states[0])
        if len(ours) != STEPS:
            raise SystemExit(f"{c.command[0]}: {len(ours)} losses, not {STEPS}")
        if seed == 1:
            print(f"\n{c.name}, seed 1\n\n| step | {c.peer} | qgrad | difference |\n|---|---|---|---|")
            for i, (a, b) in enumerate(zip(theirs, ours)):
                print(f"| {i} | {a:.7f} | {b:.7f} | {b - a:+.1e} |")
            print(flush=True)
        if apart(theirs, ours, TOLERANCE) is None:
            agree, largest = agree + 1, max([largest] + [abs(a - b) for a, b in zip(theirs, ours)])
            continue
        known, text = explain(c, seed, theirs, ours, states)
        fine &= known
        parted.append(f"- seed {seed}, {'' if known else 'UNKNOWN, '}{text}")
    print(f"{c.name}: {agree} of {seeds} seeds agree to {TOLERANCE:g} in all {STEPS} losses; the largest difference of those "
          f"is {largest:.1e}.")
    print("\n".join(parted), flush=True)
    return fine


def options(about):
    ap = argparse.ArgumentParser(description=about)
    ap.add_argument("--programs", default="build/tests/originals/training", help="folder of qgrad's programs")
    ap.add_argument("--data-dir", default="datasets/mnist")
    ap.add_argument("--seeds", type=int, default=5)
    return ap
