"""QKeras' quantizers where qgrad has their counterpart: levels on powers of two, signs, three values."""
import itertools

import numpy as np
import qkeras
import tensorflow as tf

import inputs
import qgrad
from compare import Declared

F = np.float32
NAME = f"QKeras {qkeras.__version__}, TensorFlow {tf.__version__}"
ULP = 2.0 ** -23
# x + stop_gradient(y - x), as QKeras returns y, rounds twice.
SUM_OF = "y 2^-22 of |x| + |y|"


def gradient_of(quantizer, x, g):
    v = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(v)
        y = quantizer(v)
    return y.numpy(), tape.gradient(y, v, output_gradients=tf.constant(g)).numpy()


def unusual(x):
    """Infinities turn into NaN there, and so may what overflows on the way."""
    with np.errstate(all="ignore"):
        return [Declared("qkeras-infinite", ~(np.abs(x) < 1e30), 0), Declared("denormals", inputs.denormal(x))]


def lsq(x, step, qn, qp):
    return qgrad.quantizer("lsq_quantizer", x, qgrad.Lsq(step, qn, qp, 1.0, qgrad.surrogate()))


def bits(t, rng, size):
    with t.row("lsq_quantizer, signed, y", f"{NAME}, quantized_bits") as row:
        for _, n, integer, symmetric in itertools.product(range(3), range(2, 17), (0, 1, 4), (0, 1)):
            step, m = 2.0 ** (integer - n + 1), 2 ** (n - 1)
            x = inputs.numbers(rng, size(4500), -m * step, m * step, step, 0, (-m, m))
            # Without straight-through y is returned as it is.
            y = qkeras.quantized_bits(n, integer, symmetric, alpha=1.0, use_ste=False)(tf.constant(x)).numpy()
            zero = Declared("zero-sign", k=0, zeros=True)
            row.compare(f"{n} bits, {integer} integer, symmetric {symmetric}", y,
                        lambda: lsq(x, step, m - symmetric, m - 1), {"x": x}, [zero, *unusual(x)])


def relu(t, rng, size):
    with t.row("lsq_quantizer, unsigned, y and dx", f"{NAME}, quantized_relu") as row, \
            t.row("pact_quantizer, y and dx", f"{NAME}, quantized_relu", "y 2^-22 except at ties") as pact, \
            t.row("scheme linear, y and dx", f"{NAME}, quantized_relu", "y 2^-22 except at ties") as tape:
        for _, n, integer in itertools.product(range(4), range(1, 17), (0, 1, 3)):
            step, m = 2.0 ** (integer - n), 2 ** n - 1
            top = m * step
            x = inputs.numbers(rng, size(6000), 0, top, step, 0, (0, m))
            g = inputs.gradients(rng, x.size)
            y = qkeras.quantized_relu(n, integer, use_ste=False)(tf.constant(x)).numpy()
            dx = gradient_of(qkeras.quantized_relu(n, integer), x, g)[1]
            with np.errstate(all="ignore"):
                v = x.astype(np.float64) / step
            rules = [Declared("mask-ends", (x == top) | (x == 0), 1), Declared("zero-added", k=1, zeros=True),
                     Declared("zero-sign", k=0, zeros=True), *unusual(x)]
            step_attrs = qgrad.Lsq(step, 0, m, 1.0, qgrad.surrogate())
            row.compare(f"{n} bits, {integer} integer", (y, dx),
                        lambda: (lsq(x, step, 0, m), qgrad.gradient("lsq_quantizer", x, g, step_attrs, after=1)),
                        {"x": x, "g": g}, rules)
            ties = [Declared("tie-rounding", inputs.near_tie(v, 4 * ULP * np.maximum(np.abs(v), 1)), 0)]
            pact.compare(
                f"{n} bits, {integer} integer", (y, dx), lambda:
                (qgrad.quantizer("pact_quantizer", x, n, qgrad.c.c_float(top)),
                 qgrad.gradient("pact_quantizer", x, g, n, qgrad.c.c_float(top), qgrad.surrogate(), after=1)),
                {"x": x, "g": g}, ties + rules, (2 * ULP, None))
            if top >= 0.01:
                tape.compare(f"{n} bits, {integer} integer", (y, dx),
                             lambda: linear(x, g, n, top), {"x": x, "g": g}, ties + rules, (2 * ULP, None))


def linear(x, g, n, top):
    y, dx, _, _ = qgrad.scheme(f"linear:bits={n},max={top!r}", x.reshape(1, 1, 1, -1), g.reshape(1, 1, 1, -1),
                               qgrad.INPUT)
    return y.ravel(), dx.ravel()


def signs(t, rng, size):
    with t.row("sign_quantizer, identity, y and dx", f"{NAME}, binary(alpha=1)", SUM_OF) as row:
        for _ in range(30):
            x = inputs.numbers(rng, size(36000), -1, 1, 0.25, -1, (0, 8))
            g = inputs.gradients(rng, x.size)
            theirs = gradient_of(qkeras.binary(alpha=1.0), x, g)
            s = qgrad.surrogate("identity")
            rules = [Declared("zero-added", k=1, zeros=True), *unusual(x)]
            row.compare("", theirs, lambda:
                        (qgrad.quantizer("sign_quantizer", x), qgrad.gradient("sign_quantizer", x, g, s)),
                        {"x": x, "g": g}, rules, (2 * ULP, None), (np.abs(x.astype(np.float64)) + 1, None))
    with t.row("binary_channel_wise_mean_scaling_quantizer, y and dx", f"{NAME}, binary(alpha='auto')",
               "y 1e-5") as row, \
            t.row("scheme binary-channel", f"{NAME}, binary(alpha='auto')", "y 1e-5") as tape:
        for k in range(30):
            shape = [(3, 3, size(100), 40), (5, 5, 1, size(1400)), (1, 1, size(3600), 10)][k % 3]
            x = inputs.moderate(rng, int(np.prod(shape)), -1, 1).reshape(shape)
            g = inputs.gradients(rng, x.size).reshape(shape)
            theirs = gradient_of(qkeras.binary(alpha="auto"), x, g)
            s = qgrad.surrogate("identity")
            rules = [Declared("zero-added", k=1, zeros=True), Declared("denormals", inputs.denormal(x))]
            bound = (np.abs(x.astype(np.float64)) + 1, None)
            row.compare(f"{shape}", theirs,
                        lambda: (qgrad.quantizer("binary_channel_wise_mean_scaling_quantizer", x, after=1),
                                 qgrad.gradient("binary_channel_wise_mean_scaling_quantizer", x, g, s)),
                        {"x": x, "g": g}, rules, (1e-5, None), bound)
            out = [np.ascontiguousarray(np.moveaxis(v, 3, 0)) for v in (*theirs, bound[0])]
            tape.compare(f"{shape}", out[:2],
                         lambda: qgrad.scheme("binary-channel", np.moveaxis(x, 3, 0), np.moveaxis(g, 3, 0))[:2], None,
                         [r.moved(3) for r in rules], (1e-5, None), (out[2], None))


def ternary(t, rng, size):
    with t.row("ste_tern_quantizer, identity, y and dx", f"{NAME}, ternary(alpha=1)", SUM_OF) as row:
        for _, threshold in itertools.product(range(6), (0.05, 0.33, 0.5, 0.7, 1.5)):
            x = inputs.numbers(rng, size(36000), -1, 1, 0.25, -1, (0, 8), (threshold, -threshold))
            g = inputs.gradients(rng, x.size)
            theirs = gradient_of(qkeras.ternary(alpha=1.0, threshold=threshold), x, g)
            rules = [
                Declared("zero-added", k=1, zeros=True),
                Declared("threshold-equal",
                         np.abs(x) == F(threshold), 0, 0.0),
                Declared("nan-ternary", np.isnan(x), 0, 0.0), *unusual(x)
            ]
            row.compare(f"threshold {threshold}", theirs,
                        lambda: (qgrad.quantizer("ste_tern_quantizer", x, qgrad.SteTern(threshold, False)),
                                 qgrad.gradient("ste_tern_quantizer", x, g, qgrad.surrogate("identity"))),
                        {"x": x, "g": g}, rules, (2 * ULP, None), (np.abs(x.astype(np.float64)) + 1, None))


def current(t, rng, size):
    with t.row("scheme fake_quant:range=current,per-channel=yes, y", f"{NAME}, quantized_bits(alpha='auto')",
               "bits except at ties") as row:
        for k, n in itertools.product(range(12), range(2, 9)):
            shape = [(3, 3, size(60), 24), (1, 1, size(800), 16)][k % 2]
            x = inputs.moderate(rng, int(np.prod(shape)), -1, 1, 2 / (2 ** n - 2), -1, (0, 2 ** n - 2)).reshape(shape)
            x = (x * np.exp(rng.uniform(-6, 3, shape[-1]))).astype(F)
            y = qkeras.quantized_bits(n, 0, 1, alpha="auto", use_ste=False)(tf.constant(x)).numpy()
            step = np.abs(x.astype(np.float64)).max((0, 1, 2)) / (2 ** (n - 1) - 1)
            v = np.abs(x) / step
            rules = [Declared("tie-rounding", inputs.near_tie(v, 2 ** n * 2 * ULP), 0),
                     Declared("zero-sign", k=0, zeros=True), Declared("denormals", inputs.denormal(x))]
            row.compare(f"{shape}, {n} bits", np.ascontiguousarray(np.moveaxis(y, 3, 0)),
                        lambda: qgrad.scheme(f"fake_quant:range=current,per-channel=yes,bits={n}", np.moveaxis(x, 3, 0),
                                             np.moveaxis(x, 3, 0))[0],
                        {"x": np.moveaxis(x, 3, 0)}, [r.moved(3) for r in rules])


def compare(t, rng, size):
    parts = (bits, relu, signs, ternary, current)
    for part, draws in zip(parts, rng.spawn(len(parts))):
        part(t, draws, size)
