"""The Python package against NumPy's formulas and the command line: test_package.py PROGRAM, with $QGRAD_LIB.  Ends with
"N passed, M failed"."""
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
from support import refuses, root, run_tests

import qgrad

PROGRAM = os.path.abspath(sys.argv[1])
rng = np.random.default_rng(7)
w = rng.normal(0, 0.1, (8, 3, 3, 16)).astype("f4")
x = rng.normal(0, 1, (4, 6, 6, 8)).astype("f4")
dw, dx = rng.normal(0, 1, w.shape).astype("f4"), rng.normal(0, 1, x.shape).astype("f4")

# Formulas and the library differ in the order of sums over 1,152 floats: a few units of the seventh digit.
SUMS = dict(rtol=2e-6, atol=1e-7)


def both(scheme, role, array, gradient):
    z = qgrad.Quantizer(scheme, array.shape, role)
    return z, z.forward(array), z.backward(gradient)


def test_twn():
    _, q, d = both("twn", "weight", w, dw)
    delta = 0.7 * np.mean(np.abs(w), dtype="f8")
    kept = np.abs(w) > delta
    np.testing.assert_allclose(q, np.where(kept, np.sign(w) * np.abs(w[kept]).mean(dtype="f8"), 0), **SUMS)
    np.testing.assert_array_equal(d, dw)


def test_ttq():
    """The paper's rule, and the default: straight-through weights, gradients of the scales divided by sqrt(n)."""
    delta = np.float32(0.05) * np.abs(w).max()
    above, below = w > delta, w < -delta
    for scheme, slope, root in (("ttq:as=paper,threshold=0.05", np.where(above, 0.3, np.where(below, 0.2, 1)), 1),
                                ("ttq:threshold=0.05", 1, np.sqrt(w.size))):
        z = qgrad.Quantizer(scheme, w.shape)
        z.forward(w)                                    # the default's scales start from the first weights
        z.learned["wp"][:], z.learned["wn"][:] = 0.3, 0.2
        q, d = z.forward(w), z.backward(dw)
        np.testing.assert_array_equal(q, np.where(above, np.float32(0.3), np.where(below, np.float32(-0.2), np.float32(0))))
        np.testing.assert_allclose(d, dw * slope, **SUMS)
        np.testing.assert_allclose(z.gradients["wp"], dw[above].sum(dtype="f8") / root, rtol=1e-5)
        np.testing.assert_allclose(z.gradients["wn"], -dw[below].sum(dtype="f8") / root, rtol=1e-5)


def test_binary_per_channel():
    _, q, d = both("binary-channel", "weight", w, dw)
    a = np.abs(w).mean(axis=(1, 2, 3), keepdims=True, dtype="f8")
    np.testing.assert_allclose(q, np.where(w >= 0, a, -a), **SUMS)
    np.testing.assert_array_equal(d, dw)


def test_sign():
    _, q, d = both("sign", "input", x, dx)
    np.testing.assert_array_equal(q, np.where(x >= 0, 1, -1))
    np.testing.assert_array_equal(d, np.where(np.abs(x) <= 1, dx, 0))


def test_dorefa():
    _, q, d = both("dorefa:bits=3", "input", x, dx)
    np.testing.assert_allclose(q, np.rint(np.clip(x, 0, 1) * np.float32(7)) / np.float32(7), rtol=1.2e-7)  # one rounding
    np.testing.assert_array_equal(d, np.where((x >= 0) & (x <= 1), dx, 0))
    _, q, _ = both("dorefa:bits=2", "weight", w, dw)
    t = np.tanh(w.astype("f8"))
    t = t / (2 * np.abs(t).max()) + 0.5
    tie = np.abs(3 * t - np.floor(3 * t) - 0.5) < 1e-5          # the last digit of tanh decides
    np.testing.assert_allclose(q[~tie], (2 * np.rint(3 * t) / 3 - 1)[~tie], **SUMS)
    assert tie.mean() < 0.01


def test_lsq():
    z, q, d = both("lsq:bits=4", "weight", w, dw)
    s = z.learned["step"][0]
    np.testing.assert_allclose(s, 2 * np.abs(w).mean(dtype="f8") / np.sqrt(7), rtol=1e-6)
    v = w / s
    code = np.rint(np.clip(v, -8, 7))
    inside = (v > -8) & (v < 7)
    np.testing.assert_allclose(q, s * code, **SUMS)
    np.testing.assert_array_equal(d, np.where(inside, dw, 0))
    ds = (dw * np.where(inside, code - v, code)).sum(dtype="f8") / np.sqrt(w.size * 7)
    np.testing.assert_allclose(z.gradients["step"], ds, rtol=1e-4)


def test_observed_range():
    z = qgrad.Quantizer("fake_quant:range=observed", x.shape, "input")
    np.testing.assert_array_equal(z.forward(x, train=False), x)     # nothing observed yet
    q = z.forward(x)
    scale = (np.float64(x.max()) - x.min()) / 255
    assert np.abs(q - np.clip(x, q.min(), q.max())).max() <= scale / 2 * (1 + 1e-5)     # half a step
    assert len(np.unique(q)) <= 256
    assert "min" in z.learned and "min" not in z.gradients


def test_types():
    z = qgrad.Quantizer("sign", (2, 3), "input")
    for dtype in ("f2", "f8", "i8", "u1"):
        np.testing.assert_array_equal(z.forward(np.ones((2, 3), dtype)), np.ones((2, 3)))
    for dtype in ("?", "c8", "O", "U3"):
        refuses(TypeError, "x has the type", z.forward, np.ones((2, 3), dtype))
    refuses(TypeError, "dy has the type", z.backward, np.ones((2, 3), "c8"))


def test_other_axes_and_errors():
    z = qgrad.Quantizer("twn:per-channel=yes", (3, 50))
    rows = rng.normal(0, 1, (3, 50)).astype("f4") * np.array([[1], [10], [100]], "f4")
    q = z.forward(rows)
    assert [len(np.unique(np.abs(r[r != 0]))) for r in q] == [1, 1, 1]
    for scheme, role, part in (("tnw", "weight", "unknown scheme"), ("twn", "input", "not for inputs"),
                               ("twn:threshold=99", "weight", "threshold")):
        refuses(ValueError, part, qgrad.Quantizer, scheme, (4, 4), role)
    z.backward(rows)
    refuses(RuntimeError, "once after each forward", z.backward, rows)
    refuses(ValueError, "x has the shape (50, 3), not (3, 50)", z.forward, rows.T)


def tensors(path):
    with open(path, "rb") as f:
        n, = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(n))
        data = f.read()
    return {k: np.frombuffer(data[slice(*t["data_offsets"])], "f4").reshape(t["shape"])
            for k, t in header.items() if k != "__metadata__" and t["dtype"] == "F32"}


def test_packed_net():
    """One dense layer with ternary weights: scores = a (codes . image) + b."""
    with tempfile.TemporaryDirectory() as directory:
        run, packed = os.path.join(directory, "run"), os.path.join(directory, "net.qgrad")
        subprocess.run([PROGRAM, "train", "--model", "10", "--data", "sample", "--weight", "twn", "--epochs", "1", "--out", run],
                       check=True, capture_output=True, cwd=root)
        subprocess.run([PROGRAM, "export", "--run", run, "-o", packed], check=True, capture_output=True)
        net = qgrad.Net(packed)
        all_ = tensors(os.path.join(run, "last.safetensors"))
        with open(packed, "rb") as f:
            damaged = bytearray(f.read())
    weight = all_["fc1.weight"].reshape(10, -1)
    kept = np.abs(weight) > 0.7 * np.abs(weight).mean(dtype="f8")
    ternary = np.where(kept, np.sign(weight), 0) * np.abs(weight[kept]).mean(dtype="f8")
    images = rng.integers(0, 256, (5, 28, 28, 1), "u1")
    want = (images.reshape(5, -1) / 255.0) @ ternary.T + all_["fc1.bias"]
    assert net.shape == (28, 28, 1) and net.classes == 10
    np.testing.assert_allclose(net.predict(images), want, rtol=1e-4, atol=1e-4)          # sums of 784 floats
    floats = images / 255.0
    for dtype in ("f8", "f4", "f2", ">f4", "longdouble"):
        np.testing.assert_array_equal(net.predict(floats.astype(dtype)), net.predict(images))
        loose = 1e-2 if dtype == "f2" else 1e-4
        np.testing.assert_allclose(net.predict(floats.astype(dtype), normalised=True), want, rtol=loose, atol=loose)
    np.testing.assert_array_equal(net.predict(images[..., 0]), net.predict(images))
    assert net.predict(images[:0]).shape == (0, 10)
    # Bytes in another type may be anything.
    for wrong in [images.astype(t) for t in ("i8", "i4", "i2", "u2", "u4", "u8", "i1", "?", "c8", "O", "U3")] + [images.tolist()]:
        refuses(TypeError, "pass images as uint8", net.predict, wrong)
    for value in (np.nan, np.inf, -np.inf):
        floats[4, 27, 27, 0] = value
        refuses(FloatingPointError, "not finite", net.predict, floats, True)
        refuses(ValueError, "x has 1 value that is not finite", net.predict, floats)
    damaged[len(damaged) // 2] ^= 1
    for bad in (b"", bytes(damaged), bytes(damaged[:100])):
        refuses(ValueError, "", qgrad.Net, bad)


def test_torch():
    """Modules have the values, the gradients and the learned values of quantizers on arrays, channels last."""
    try:
        import torch
    except ImportError:
        print("no PyTorch: its modules are not tested")
        return
    import qgrad.torch
    last = (0, 2, 3, 1)
    for scheme, role in (("ttq", "weight"), ("lsq:bits=4", "weight"), ("xnor", "weight"), ("dorefa:bits=2", "weight"),
                         ("fake_quant:range=learned,per-channel=yes", "weight"), ("lsq:bits=2", "input"), ("pact:bits=3", "input"),
                         ("fake_quant:range=observed", "input"), ("sign", "input"), ("stochastic", "gradient"),
                         ("dorefa:bits=6", "gradient")):
        shape = (8, 4, 3, 3)
        module, z = qgrad.torch.Quantizer(scheme, shape, role, seed=9), qgrad.Quantizer(scheme, (8, 3, 3, 4), role, seed=9)
        for _ in range(3):                              # learned values begin in the first step, ranges move in the others
            x, dy = (rng.normal(0, 1, shape).astype("f4") for _ in range(2))
            t = torch.tensor(x, requires_grad=True)
            y = module(t)
            y.backward(torch.from_numpy(dy))
            np.testing.assert_array_equal(y.detach().numpy().transpose(last), z.forward(x.transpose(last)))
            np.testing.assert_array_equal(t.grad.numpy().transpose(last), z.backward(dy.transpose(last)))
            for name, parameter in module.named_parameters():
                np.testing.assert_array_equal(parameter.grad.numpy(), z.gradients[name])
                with torch.no_grad():
                    parameter -= 0.01 * parameter.grad
                    parameter.grad = None
                z.learned[name][:] = parameter.detach().numpy()
            values = module.state_dict()
            del values["forwards"]
            assert values.keys() == z.learned.keys()
            for name, value in values.items():
                np.testing.assert_array_equal(value.numpy(), z.learned[name])


def test_layouts():
    """The structs of the package are those of the headers."""
    from qgrad import _c
    lines = ['#include <stddef.h>', '#include <stdio.h>', '#include "qgrad.h"', '#include "infer/infer.h"', "int main(void) {"]
    want = []
    for name, struct_ in _c.STRUCTS.items():
        lines.append('printf("%%zu\\n", sizeof(%s));' % name)
        want.append(("sizeof " + name, _c.ctypes.sizeof(struct_)))
        for field, *_ in struct_._fields_:
            lines.append('printf("%%zu\\n", offsetof(%s, %s));' % (name, field))
            want.append((name + "." + field, getattr(struct_, field).offset))
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "layouts.c"), "w") as f:
            f.write("\n".join(lines + ["return 0; }"]))
        subprocess.run(["cc", "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-I", root, f.name, "-o", f.name[:-2]], check=True)
        found = subprocess.run([f.name[:-2]], check=True, capture_output=True, text=True).stdout.split()
    for (what, here), there in zip(want, found):
        assert here == int(there), "%s is %d, not %s" % (what, here, there)
    assert len(want) == len(found) > 100


run_tests(globals())
