"""Larq's quantizers and their gradients: the plain operators, and the schemes on the tape."""
import itertools

import larq
import numpy as np
import tensorflow as tf

import inputs
import qgrad
from compare import Declared

F = np.float32
NAME = f"Larq {larq.__version__}, TensorFlow {tf.__version__}"
q = larq.quantizers
MEAN = 1e-5                         # TensorFlow adds in float32, in an order of its own


def asked(quantizer, x, g):
    v = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(v)
        y = quantizer(v)
    return y.numpy(), tape.gradient(y, v, output_gradients=tf.constant(g)).numpy()


def flat_scheme(text, x, g, role=qgrad.INPUT):
    y, dx, _, _ = qgrad.scheme(text, x.reshape(1, 1, 1, -1), g.reshape(1, 1, 1, -1), role)
    return y.ravel(), dx.ravel()


def gradient_rules(x, g):
    """NaN has the sign -1 here; a gradient that passes is added to 0."""
    return [Declared("nan-sign", np.isnan(x), 0, -1.0), Declared("zero-added", k=1, zeros=True),
            Declared("denormals", inputs.denormal(x) | inputs.denormal(g))]


def sample(rng, n, clip=1.0):
    return inputs.numbers(rng, n, -clip, clip, clip / 4, -clip, (0, 8))


def signs(t, rng, size):
    clips = (0.25, 0.5, 1.0, 1.3, 7.0, None)
    with t.row("sign_quantizer, clip, y and dx", f"{NAME}, SteSign") as row, \
            t.row("schemes bnn:as=paper and sign, surrogate=clip", f"{NAME}, SteSign") as tape:
        for _, clip in itertools.product(range(10), clips):
            x = sample(rng, size(18000), clip or 1.0)
            g = inputs.gradients(rng, x.size, unusual=True)
            theirs = asked(q.SteSign(clip_value=clip), x, g)
            s = qgrad.surrogate("identity") if clip is None else qgrad.surrogate("clip", clip)
            rules = gradient_rules(x, g)
            row.compare(f"clip_value {clip}", theirs, lambda:
                        (qgrad.quantizer("sign_quantizer", x), qgrad.gradient("sign_quantizer", x, g, s)),
                        {"x": x, "g": g}, rules)
            surrogate = "surrogate=identity" if clip is None else f"surrogate=clip,surrogate-arg={clip}"
            tape.compare(f"sign, {surrogate}", theirs, lambda: flat_scheme(f"sign:{surrogate}", x, g), {"x": x, "g": g},
                         rules)
            tape.compare(f"bnn, {surrogate}", theirs,
                         lambda: flat_scheme(f"bnn:as=paper,{surrogate}", x, g, qgrad.WEIGHT),
                         {"x": x, "g": g}, rules)
    with t.row("sign_quantizer, approx_sign, y and dx", f"{NAME}, ApproxSign") as row, \
            t.row("scheme sign:surrogate=approx-sign", f"{NAME}, ApproxSign") as tape:
        for _ in range(20):
            x = sample(rng, size(55000))
            g = inputs.gradients(rng, x.size)
            theirs = asked(q.ApproxSign(), x, g)
            # (1 - |x|) * 2 * dy there, dy * (2 - 2 |x|) here: doubling is exact, so the products are the same.
            rules = gradient_rules(x, g)
            row.compare("", theirs, lambda: (qgrad.quantizer("sign_quantizer", x),
                                             qgrad.gradient("sign_quantizer", x, g, qgrad.surrogate("approx_sign"))),
                        {"x": x, "g": g}, rules)
            tape.compare("", theirs, lambda: flat_scheme("sign:surrogate=approx-sign", x, g), {"x": x, "g": g}, rules)


def swish(t, rng, size):
    with t.row("sign_quantizer, swish, dx", f"{NAME}, SwishSign", "1e-5") as row, \
            t.row("scheme sign:surrogate=swish, dx", f"{NAME}, SwishSign", "1e-5") as tape:
        for _, beta in itertools.product(range(8), (0.5, 1.0, 5.0, 10.0, 40.0)):
            x = np.concatenate([rng.uniform(-30 / beta, 30 / beta, size(21000)), sample(rng, size(6000))]).astype(F)
            g = inputs.gradients(rng, x.size)
            theirs = asked(q.SwishSign(beta=beta), x, g)[1]
            rules = swish_rules(x, beta)
            scale = np.abs(g.astype(np.float64)) * beta * 2
            row.compare(f"beta {beta}", theirs,
                        lambda: qgrad.gradient("sign_quantizer", x, g, qgrad.surrogate("swish", beta)),
                        {"x": x, "g": g}, rules, MEAN, scale)
            tape.compare(f"beta {beta}", theirs,
                         lambda: flat_scheme(f"sign:surrogate=swish,surrogate-arg={beta}", x, g)[1], {"x": x, "g": g},
                         rules, MEAN, scale)


def swish_rules(x, beta):
    """cosh overflows there, and its quotient is 0 or NaN; the limit, 0, is what is returned here."""
    with np.errstate(all="ignore"):
        return [Declared("swish-far", np.abs(F(beta) * x) > 88, 0, 0.0)]


def magnitude_aware(t, rng, size):
    with t.row("magnitude_aware_sign_quantizer, y and dx", f"{NAME}, MagnitudeAwareSign", "1e-5") as row, \
            t.row("scheme magnitude-aware:as=paper", f"{NAME}, MagnitudeAwareSign", "1e-5") as tape:
        for k in range(40):
            shape = [(size(25000),), (size(1100), 23), (3, 3, size(140), 40), (5, 5, 1, size(2000))][k % 4]
            clip = (1.0, 0.5, None)[k % 3]
            x = inputs.moderate(rng, int(np.prod(shape)), -1, 1, 0.25, -1, (0, 8)).reshape(shape)
            g = inputs.gradients(rng, x.size).reshape(shape)
            theirs = asked(q.MagnitudeAwareSign(clip_value=clip), x, g)
            s = qgrad.surrogate("identity") if clip is None else qgrad.surrogate("clip", clip)
            rules = [Declared("zero-added", k=1, zeros=True)]
            mean = np.abs(x.astype(np.float64)).mean(tuple(range(x.ndim - 1)))
            flushed = inputs.denormal(x) | (np.abs(g * mean) < inputs.TINY)
            rules.append(Declared("denormals", flushed))
            row.compare(
                f"{shape}, clip_value {clip}", theirs, lambda:
                (qgrad.quantizer("magnitude_aware_sign_quantizer", x, after=1),
                 qgrad.gradient("magnitude_aware_sign_quantizer", x, g, s)), {"x": x, "g": g}, rules, MEAN)
            if len(shape) == 4:             # output channels are outmost here
                text = "as=paper,surrogate=" + ("identity" if clip is None else f"clip,surrogate-arg={clip}")
                tape.compare(
                    f"{shape}, clip_value {clip}", [np.ascontiguousarray(np.moveaxis(v, 3, 0)) for v in theirs],
                    lambda: qgrad.scheme(f"magnitude-aware:{text}", np.moveaxis(x, 3, 0), np.moveaxis(g, 3, 0))[:2],
                    None, [r.moved(3) for r in rules], MEAN)


def ternary(t, rng, size):
    def gradient(x, g, s):
        return qgrad.gradient("ste_tern_quantizer", x, g, s)
    with t.row("ste_tern_quantizer, given threshold, y and dx", f"{NAME}, SteTern") as row, \
            t.row("scheme ste-tern:as=paper", f"{NAME}, SteTern") as tape:
        for _, threshold, clip in itertools.product(range(8), (0.05, 0.1, 0.3, 0.7, 1.5), (1.0, 0.5, None)):
            x = np.concatenate([sample(rng, size(9000)),
                                np.resize(inputs.around([threshold, -threshold], 8), 200)]).astype(F)
            g = inputs.gradients(rng, x.size)
            theirs = asked(q.SteTern(threshold_value=threshold, clip_value=clip), x, g)
            s = qgrad.surrogate("identity") if clip is None else qgrad.surrogate("clip", clip)
            rules = gradient_rules(x, g)
            rules[0] = Declared("nan-ternary", np.isnan(x), 0, 0.0)
            rules += ternary_rules(x, F(threshold))
            row.compare(
                f"threshold {threshold}, clip_value {clip}", theirs, lambda:
                (qgrad.quantizer("ste_tern_quantizer", x, qgrad.SteTern(threshold, False)), gradient(x, g, s)),
                {"x": x, "g": g}, rules)
            text = "surrogate=identity" if clip is None else f"surrogate=clip,surrogate-arg={clip}"
            tape.compare(f"threshold {threshold}, clip_value {clip}", theirs,
                         lambda: flat_scheme(f"ste-tern:as=paper,threshold={threshold},{text}", x, g, qgrad.WEIGHT),
                         {"x": x, "g": g}, rules)
    with t.row("ste_tern_quantizer, 0.7 mean|x|, y and dx", f"{NAME}, SteTern") as row, \
            t.row("scheme ste-tern:as=paper,relative=yes", f"{NAME}, SteTern") as tape:
        for k in range(40):
            x = inputs.moderate(rng, size(26000), -1, 1, 0.25, -1, (0, 8)) * F(np.exp(rng.uniform(-5, 5)))
            g = inputs.gradients(rng, x.size)
            for _ in range(5):                      # some of x decides where the threshold is, and is next to it
                d = 0.7 * np.abs(x.astype(np.float64)).mean()
                x[:34] = inputs.around([d, -d], 8)
            theirs = asked(q.SteTern(ternary_weight_networks=True), x, g)
            near = np.abs(np.abs(x.astype(np.float64)) - d) <= MEAN * d
            rules = [Declared("zero-added", k=1, zeros=True), Declared("threshold-mean", near, 0),
                     Declared("denormals", inputs.denormal(x), 1)]
            rules += ternary_rules(x, F(d))
            row.compare(f"D {d:.4g}", theirs,
                        lambda: (qgrad.quantizer("ste_tern_quantizer", x, qgrad.SteTern(0.0, True)),
                                 gradient(x, g, qgrad.surrogate("clip", 1.0))), {"x": x, "g": g}, rules)
            tape.compare(f"D {d:.4g}", theirs,
                         lambda: flat_scheme("ste-tern:as=paper,relative=yes", x, g, qgrad.WEIGHT),
                         {"x": x, "g": g}, rules)


def ternary_rules(x, d):
    """sign(sign(x + D) + sign(x - D)) is 1 or -1 at |x| = D, and rounds x + D."""
    with np.errstate(all="ignore"):
        return [Declared("threshold-equal", np.abs(x) == d, 0, 0.0)]


def dorefa(t, rng, size):
    with t.row("dorefa_activation_quantizer, y and dx", f"{NAME}, DoReFa(mode='activations')") as row, \
            t.row("scheme dorefa, inputs", f"{NAME}, DoReFa(mode='activations')") as tape:
        for _, k in itertools.product(range(8), range(1, 17)):
            x = inputs.numbers(rng, size(16000), 0, 1, 1 / (2 ** k - 1), 0, (0, 2 ** k - 1))
            g = inputs.gradients(rng, x.size)
            theirs = asked(q.DoReFa(k, mode="activations"), x, g)
            rules = [Declared("zero-added", k=1, zeros=True),
                     Declared("zero-sign", k=0, zeros=True), Declared("denormals", inputs.denormal(x))]
            row.compare(
                f"{k} bits", theirs, lambda:
                (qgrad.quantizer("dorefa_activation_quantizer", x, k, 0),
                 qgrad.gradient("dorefa_activation_quantizer", x, g, k, qgrad.surrogate())), {"x": x, "g": g}, rules)
            if k <= 8:
                tape.compare(f"{k} bits", theirs, lambda: flat_scheme(f"dorefa:bits={k}", x, g), {"x": x, "g": g},
                             rules)
    with t.row("dorefa_weight_quantizer, k > 1, y and dx", f"{NAME}, DoReFa(mode='weights')",
               "y bits, dx 1e-5") as row, \
            t.row("scheme dorefa, weights, k > 1", f"{NAME}, DoReFa(mode='weights')", "y bits, dx 1e-5") as tape:
        for i, k in itertools.product(range(8), range(2, 17)):
            x = inputs.moderate(rng, size(16000), -1, 1) * F(np.exp(rng.uniform(-4, 1)))
            x = np.concatenate([x, dorefa_ties(rng, np.abs(x).max(), k, size(800))])
            if i == 0:
                x = np.zeros_like(x)
            g = inputs.gradients(rng, x.size)
            theirs = asked(q.DoReFa(k, mode="weights"), x, g)
            m = np.tanh(np.abs(x.astype(np.float64)).max())
            rules = dorefa_rules(x, k, m)
            size_of = np.abs(g.astype(np.float64)) / (m or 1)
            row.compare(
                f"{k} bits, max|tanh| {m:.4g}", theirs, lambda:
                (qgrad.quantizer("dorefa_weight_quantizer", x, k),
                 qgrad.gradient("dorefa_weight_quantizer", x, g, qgrad.DorefaWeight(k, False, qgrad.surrogate()))),
                {"x": x, "g": g}, rules, (None, MEAN), (None, size_of))
            if k <= 8:
                tape.compare(f"{k} bits, max|tanh| {m:.4g}", theirs,
                             lambda: flat_scheme(f"dorefa:bits={k}", x, g, qgrad.WEIGHT), {"x": x, "g": g}, rules,
                             (None, MEAN), (None, size_of))


def dorefa_ties(rng, most, k, n):
    """Weights whose codes are near a tie."""
    m = np.tanh(float(most))
    u = (rng.integers(0, 2 ** k - 1, n) + 0.5) / (2 ** k - 1)
    return inputs.around(np.arctanh(np.clip((2 * u - 1) * m, -m, m)).astype(F), 1)


def dorefa_rules(x, k, m):
    """The two libraries' tanh differ by an ulp or two, which decides where the code is a tie to that."""
    steps = 2.0 ** k - 1
    v = steps * (np.tanh(x.astype(np.float64)) / (2 * m) + 0.5) if m else np.full(x.shape, steps / 2)
    tie = np.abs(v - np.floor(v) - 0.5) <= 3e-7 * steps
    return [Declared("dorefa-tanh", tie & (m > 0), 0)]


def bop(t, rng, size):
    with t.row("scheme bop and qg_bop, weights after 12 steps", f"{NAME}, optimizers.Bop") as row:
        for gamma, threshold in itertools.product((1e-4, 1e-3, 0.01, 0.1, 1.0), (1e-8, 1e-6, 1e-4, 0.01)):
            w = rng.choice([-1, 1], size(55000)).astype(F)
            g = np.stack([inputs.gradients(rng, w.size) for _ in range(12)])
            g[0, :34], g[1:, :34] = inputs.around([threshold / gamma, -threshold / gamma], 8), 0
            variable, optimizer = tf.Variable(w), larq.optimizers.Bop(threshold=threshold, gamma=gamma)
            m, close = np.zeros(w.size), np.zeros(w.size, bool)
            for step in g:
                optimizer.apply_gradients([(tf.constant(step), variable)])
                m = (1 - gamma) * m + gamma * step.astype(np.float64)
                close |= np.abs(np.abs(m) - threshold) <= MEAN * (gamma * np.abs(g).max(0) + threshold)
            row.compare(f"gamma {gamma}, threshold {threshold}", variable.numpy(), lambda: qgrad.bop(w, g, gamma, threshold),
                        {"w": w}, [Declared("bop-rounding", close, 0)])


def compare(t, rng, size):
    parts = (signs, swish, magnitude_aware, ternary, dorefa, bop)
    for part, draws in zip(parts, rng.spawn(len(parts))):
        part(t, draws, size)
