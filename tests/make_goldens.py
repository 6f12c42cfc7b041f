#!/usr/bin/env python3
"""Writes tests/golden/tiny_net.h: gradients and loss curves of a tiny net, from PyTorch.

    python3 tests/make_goldens.py           needs PyTorch; Debian: python3-torch

The net is conv 3x3 1->4, batch norm, relu, max pool 2, conv 3x3 4->6 pad 1, batch norm, relu, dense
->5, in float64, trained for ten steps of SGD with momentum, once with float and once with ternary
weights.  Float32 and float64 agree on its gradients only as long as they agree on every choice: which
element of a pool is the largest, which side of 0 a relu is on, which weight is beyond the ternary
threshold.  Keys are tried in order until no choice of any step is closer than MARGIN.
"""
import os

import torch
import torch.nn.functional as F

STEPS, LR, MOMENTUM, DECAY = 10, 0.05, 0.9, 1e-4
BATCH, SIZE, CLASSES = 6, 10, 5
MARGIN = 3e-5           # float32 values near 1 differ from float64 by 1e-6 after ten steps
FIRST_GAP = 1e-4        # between the two largest of a pool in the step whose gradients are kept

# name, shape as the library stores it ([out][kh][kw][in]), range of the first values, decays
PARAMETERS = [
    ("conv1.weight", (4, 3, 3, 1), (-0.5, 0.5), True),
    ("bn1.gamma", (1, 1, 1, 4), (0.5, 1.5), False),
    ("bn1.beta", (1, 1, 1, 4), (-0.25, 0.25), False),
    ("conv2.weight", (6, 3, 3, 4), (-0.3, 0.3), True),
    ("bn2.gamma", (1, 1, 1, 6), (0.5, 1.5), False),
    ("bn2.beta", (1, 1, 1, 6), (-0.25, 0.25), False),
    ("dense.weight", (5, 4, 4, 6), (-0.2, 0.2), True),
    ("dense.bias", (1, 1, 1, 5), (-0.1, 0.1), False),
]


def uniform(key, n, low, high):
    """n float32 numbers of the library's generator, so that no version of PyTorch matters."""
    mask = (1 << 64) - 1
    values = []
    for i in range(n):
        z = (key + (i + 1) * 0x9E3779B97F4A7C15) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        values.append(low + (high - low) * ((z ^ (z >> 31)) >> 40) / (1 << 24))
    return torch.tensor(values, dtype=torch.float32).double()


class Ternary(torch.autograd.Function):
    """TWN: D = 0.7 mean|w|, a = mean of |w| beyond D, q = a sign(w) beyond D; the identity backward."""

    @staticmethod
    def forward(ctx, w):
        beyond = w.abs() > 0.7 * w.abs().mean()
        return w.abs()[beyond].mean() * w.sign() * beyond

    @staticmethod
    def backward(ctx, dq):
        return dq


class Margins:
    """The closest call of each kind of choice in one step."""

    def __init__(self):
        self.pool, self.relu, self.threshold = 1.0, 1.0, 1.0

    def see_pool(self, x):
        windows = F.unfold(x.reshape(-1, 1, *x.shape[2:]), 2, stride=2)
        top = windows.topk(2, dim=1).values
        gap = (top[:, 0] - top[:, 1])[top[:, 0] > 0]      # ties of zeros have no gradient anyway
        self.pool = min(self.pool, gap.min().item())

    def see_relu(self, x):
        self.relu = min(self.relu, x.abs().min().item())

    def see_weight(self, w):
        gap = (w.abs() - 0.7 * w.abs().mean()).abs().min().item()
        self.threshold = min(self.threshold, gap)

    def least(self):
        return min(self.pool, self.relu, self.threshold)


def forward(p, x, ternary, running, margins):
    def weight(name):
        w = p[name]
        if ternary:
            margins.see_weight(w)
            w = Ternary.apply(w)
        return w.permute(0, 3, 1, 2)                      # [out][kh][kw][in] -> [out][in][kh][kw]

    def norm(y, name):
        mean, var = running[name]
        y = F.batch_norm(y, mean, var, p[name + ".gamma"].flatten(), p[name + ".beta"].flatten(),
                         training=True, momentum=0.1, eps=1e-5)
        margins.see_relu(y)
        return F.relu(y)

    y = norm(F.conv2d(x, weight("conv1.weight")), "bn1")
    margins.see_pool(y)
    y = norm(F.conv2d(F.max_pool2d(y, 2), weight("conv2.weight"), padding=1), "bn2")
    w = weight("dense.weight")
    return y.flatten(1) @ w.flatten(1).t() + p["dense.bias"].flatten()


def train(key, ternary):
    """(first values, gradients of step 0, losses, running statistics), or None if a call is close."""
    start = {}
    for i, (name, shape, (low, high), _) in enumerate(PARAMETERS):
        n = torch.Size(shape).numel()
        start[name] = uniform(1000 * key + i, n, low, high).reshape(shape)
    p = {name: value.clone().requires_grad_() for name, value in start.items()}
    x = uniform(1000 * key + 999, BATCH * SIZE * SIZE, -1, 1).reshape(BATCH, 1, SIZE, SIZE)
    labels = torch.arange(BATCH) * 2 % CLASSES
    running = {name: (torch.zeros(c).double(), torch.ones(c).double()) for name, c in (("bn1", 4), ("bn2", 6))}
    optimizer = torch.optim.SGD(
        [{"params": [p[name] for name, _, _, decays in PARAMETERS if decays], "weight_decay": DECAY},
         {"params": [p[name] for name, _, _, decays in PARAMETERS if not decays]}],
        lr=LR, momentum=MOMENTUM)
    gradients, losses = None, []
    for step in range(STEPS):
        margins = Margins()
        loss = F.cross_entropy(forward(p, x, ternary, running, margins), labels)
        if margins.least() < MARGIN or (step == 0 and margins.pool < FIRST_GAP):
            return None
        optimizer.zero_grad()
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            gradients = {name: p[name].grad.clone() for name in p}
        optimizer.step()
    return start, x, labels, gradients, losses, running


def array(values):
    words = ["%.9gf" % v if any(c in "%.9g" % v for c in ".e") else "%.9g" % v for v in values]
    lines, line = [], "   "
    for word in words:
        if len(line) + len(word) + 2 > 98:
            lines.append(line)
            line = "   "
        line += " " + word + ","
    return "{\n" + "\n".join(lines + [line]) + "\n}"


def emit(key, runs, out):
    start, x, labels = runs[0][:3]
    flat = lambda t: t.flatten().tolist()
    put = lambda name, t: out.write("static const float %s[] = %s;\n\n" % (name, array(flat(t))))
    out.write("/* Written by tests/make_goldens.py (key %d); do not edit.  [0] is the float net, [1] the\n"
              " * ternary one. */\n#ifndef GOLDEN_TINY_NET_H\n#define GOLDEN_TINY_NET_H\n\n"
              "#include <stdint.h>\n\n#include \"core/tensor.h\"\n\n" % key)
    out.write("enum { GOLDEN_STEPS = %d, GOLDEN_BATCH = %d, GOLDEN_SIZE = %d };\n" % (STEPS, BATCH, SIZE))
    out.write("static const float GOLDEN_LR = %gf, GOLDEN_MOMENTUM = %gf, GOLDEN_DECAY = %gf;\n\n"
              % (LR, MOMENTUM, DECAY))
    out.write("typedef struct golden_param {\n    const char  *name;\n    qg_shape     shape;\n"
              "    bool         decays;\n    const float *start, *grad[2];     /* of step 0 */\n"
              "} golden_param;\n\n")
    put("golden_x", x)
    out.write("static const uint16_t golden_labels[] = { %s };\n\n" % ", ".join(map(str, labels.tolist())))
    rows = []
    for name, shape, _, decays in PARAMETERS:
        c = name.replace(".", "_")
        put(c + "_start", start[name])
        for k, kind in enumerate(("float", "ternary")):
            put("%s_grad_%s" % (c, kind), runs[k][3][name])
        rows.append('    { "%s", { %d, %d, %d, %d }, %s, %s_start,\n      { %s_grad_float, %s_grad_ternary } },\n'
                    % ((name,) + shape + (str(decays).lower(), c, c, c)))
    out.write("static const golden_param golden_params[] = {\n%s};\n\n" % "".join(rows))
    out.write("/* Before each update. */\n")
    out.write("static const float golden_loss[2][GOLDEN_STEPS] = {\n%s};\n\n"
              % "".join("%s,\n" % array(r[4]) for r in runs))
    for i, what in enumerate(("mean", "var")):
        for bn in ("bn1", "bn2"):
            out.write("/* Running, after the last step. */\nstatic const float golden_%s_%s[2][%d] = {\n%s};\n\n"
                      % (bn, what, len(runs[0][5][bn][i]),
                         "".join("%s,\n" % array(flat(r[5][bn][i])) for r in runs)))
    out.write("#endif\n")


def main():
    for key in range(1, 10000):
        runs = [train(key, ternary) for ternary in (False, True)]
        if all(runs):
            break
    else:
        raise SystemExit("no key keeps every choice of every step apart by %g" % MARGIN)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden", "tiny_net.h")
    with open(path, "w") as out:
        emit(key, runs, out)
    print("%s: key %d, losses %.4f -> %.4f and %.4f -> %.4f"
          % (path, key, runs[0][4][0], runs[0][4][-1], runs[1][4][0], runs[1][4][-1]))


main()
