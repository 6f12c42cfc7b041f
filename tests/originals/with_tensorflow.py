"""TensorFlow's own kernels: fake_quant, quantize_and_dequantize, quantize_v2 and their kin."""
import itertools
import os

import numpy as np
import tensorflow as tf

import inputs
import qgrad
from compare import Declared

F = np.float32
raw = tf.raw_ops
NAME = f"TensorFlow {tf.__version__}"
QTYPES = {np.int8: tf.qint8, np.uint8: tf.quint8, np.int16: tf.qint16, np.uint16: tf.quint16, np.int32: tf.qint32}
NUMBERS = {tf.qint8: tf.int8, tf.quint8: tf.uint8, tf.qint16: tf.int16, tf.quint16: tf.uint16, tf.qint32: tf.int32}
SUM = 1e-5                      # of the sum of magnitudes: TensorFlow adds in float32, in an order of its own


def codes(t):
    """The integers of a quantized tensor."""
    return tf.bitcast(t, NUMBERS[t.dtype]).numpy()


def quantized(a):
    return tf.bitcast(tf.constant(a), QTYPES[a.dtype.type])


# --- fake_quant -------------------------------------------------------------------------------------

RANGES = [(-6, 6), (-1, 1), (0, 1), (2, 4), (-4, -2), (-0.1, 63.65), (-0.125, 63.625), (-10, 10), (-2, 0),
          (-1e-20, 3e-20), (-1e20, 2e20), (-0.7, 0.3)]


def nudge(lo, hi, bits, narrow):
    """nmin, nmax and the step, in float32 and in the order of the kernel."""
    lo, hi = np.asarray(lo, F), np.asarray(hi, F)
    qmin, qmax = F(1 if narrow else 0), F(2 ** bits - 1)
    with np.errstate(all="ignore"):
        scale = (hi - lo) / (qmax - qmin)
        z = qmin - lo / scale
        away = np.trunc(z + np.copysign(F(0.5), z)).astype(F)
        zp = np.where(z < qmin, qmin, np.where(z > qmax, qmax, away)).astype(F)
        return (qmin - zp) * scale, (qmax - zp) * scale, scale


def some_ranges(rng, n):
    made = [tuple(sorted((F(v * np.exp(rng.uniform(-8, 8))) for v in rng.standard_normal(2)))) for _ in range(n)]
    return [(F(a), F(b)) for a, b in RANGES] + made


def fake_quant_cases(rng, extra):
    for bits, narrow in itertools.product(range(2, 17), (False, True)):
        for lo, hi in some_ranges(rng, extra):
            yield lo, hi, bits, narrow


def outside(x, lo, hi, bits, narrow):
    nmin, nmax, _ = nudge(lo, hi, bits, narrow)
    return ~((nmin <= x) & (x <= nmax))


def fake_quant_input(rng, n, lo, hi, bits, narrow):
    nmin, nmax, step = nudge(lo, hi, bits, narrow)
    return inputs.numbers(rng, n, nmin, nmax, step, nmin, (0, 2 ** bits - 1), (lo, hi, 0.0))


def masked(x, *range, k=0):
    """A gradient that is dropped is 0 here and g * 0 there, which is -0 or NaN; one that passes is added to 0."""
    return [Declared("mask-multiplies", outside(x, *range), k, 0.0), Declared("zero-added", k=k, zeros=True),
            Declared("denormals", inputs.denormal(x), k)]


def sums_of_flushed(x, lo, hi, bits, narrow, k):
    """A channel with denormal numbers whose range ends at 0: TensorFlow takes them for 0, which is inside."""
    nmin, nmax, _ = nudge(lo, hi, bits, narrow)
    some = inputs.denormal(x).reshape(-1, np.size(lo)).any(0).reshape(np.shape(lo))
    return [Declared("denormals", some & (nmin == 0), k), Declared("denormals", some & (nmax == 0), k + 1)]


def narrow_of(lo, hi):
    """Ranges that the scheme does not take as they are."""
    return hi - lo < F(2.0 ** -30)


def scheme_of(text, role, x, g, learned):
    y, dx, d, _ = qgrad.scheme(text, x.reshape(1, 1, 1, -1), g.reshape(1, 1, 1, -1), role, learned)
    return (y.ravel(), dx.ravel(), *(F(v) for v in d[:2]))


def fake_quant_args(t, rng, size):
    with t.row("fake_quant_with_min_max_args", f"{NAME}, FakeQuantWithMinMaxArgs") as row, \
            t.row("fake_quant_with_min_max_args_gradient", f"{NAME}, FakeQuantWithMinMaxArgsGradient") as back, \
            t.row("scheme fake_quant:range=fixed, y and dx", f"{NAME}, FakeQuantWithMinMaxArgs, ..Gradient") as tape:
        for lo, hi, bits, narrow in fake_quant_cases(rng, 4):
            x = fake_quant_input(rng, size(3000), lo, hi, bits, narrow)
            g = inputs.gradients(rng, x.size, unusual=True)
            attrs = dict(min=float(lo), max=float(hi), num_bits=bits, narrow_range=narrow)
            what = f"[{lo}, {hi}], {bits} bits{', narrow' * narrow}"
            y = raw.FakeQuantWithMinMaxArgs(inputs=x, **attrs).numpy()
            dx = raw.FakeQuantWithMinMaxArgsGradient(gradients=g, inputs=x, **attrs).numpy()
            drop = masked(x, lo, hi, bits, narrow)
            row.compare(what, y, lambda: qgrad.fake_quant("args", x, lo, hi, bits, narrow), {"x": x})
            back.compare(what, dx, lambda: qgrad.fake_quant_gradient("args", g, x, lo, hi, bits, narrow),
                         {"x": x, "g": g}, drop)
            text = f"fake_quant:range=fixed,bits={bits},min={float(lo)!r},max={float(hi)!r}" + ",narrow-range=yes" * narrow
            on_tape = masked(x, lo, hi, bits, narrow, k=1)
            if lo > -1000 and hi < 1000:                # as far as the option goes
                tape.compare(what, (y, dx), lambda: scheme_of(text, qgrad.INPUT, x, g, (0, 0, 0))[:2],
                             {"x": x, "g": g}, on_tape)


def fake_quant_vars(t, rng, size):
    with t.row("fake_quant_with_min_max_vars", f"{NAME}, FakeQuantWithMinMaxVars") as row, \
            t.row("fake_quant_with_min_max_vars_gradient", f"{NAME}, FakeQuantWithMinMaxVarsGradient",
                  "dx bits, sums 1e-5") as back, \
            t.row("scheme fake_quant:range=learned, y, dx, dmin, dmax",
                  f"{NAME}, FakeQuantWithMinMaxVars, ..Gradient", "y, dx bits, sums 1e-5") as tape:
        for lo, hi, bits, narrow in fake_quant_cases(rng, 4):
            x = fake_quant_input(rng, size(3000), lo, hi, bits, narrow)
            unusual = bits % 3 == 0
            g = inputs.gradients(rng, x.size, unusual)
            attrs = dict(min=lo, max=hi, num_bits=bits, narrow_range=narrow)
            what = f"[{lo}, {hi}], {bits} bits{', narrow' * narrow}"
            y = raw.FakeQuantWithMinMaxVars(inputs=x, **attrs).numpy()
            d = [v.numpy() for v in raw.FakeQuantWithMinMaxVarsGradient(gradients=g, inputs=x, **attrs)]
            drop = masked(x, lo, hi, bits, narrow) + sums_of_flushed(x, lo, hi, bits, narrow, 1)
            if unusual:             # a sum with NaN * 0 is NaN
                drop += [Declared("mask-multiplies", np.isnan(d[1]), 1), Declared("mask-multiplies", np.isnan(d[2]), 2)]
            with np.errstate(all="ignore"):
                sums = [np.abs(g[~np.isnan(g)]).sum(dtype=np.float64)] * 2
            row.compare(what, y, lambda: qgrad.fake_quant("vars", x, lo, hi, bits, narrow), {"x": x})
            back.compare(what, d, lambda: qgrad.fake_quant_gradient("vars", g, x, lo, hi, bits, narrow),
                         {"x": x, "g": g}, drop, (None, SUM, SUM), (None, *sums))
            if lo > 0 or hi < 0:
                continue            # the scheme learns ranges with 0 inside
            text = f"fake_quant:range=learned,bits={bits}" + ",narrow-range=yes" * narrow
            on_tape = [r.moved(by=1) for r in drop]
            if narrow_of(lo, hi):
                on_tape = [Declared("range-opened")]
            tape.compare(what, (y, *d), lambda: scheme_of(text, qgrad.INPUT, x, g, (lo, hi, 1, 0)), {"x": x, "g": g},
                         on_tape, (None, None, SUM, SUM), (None, None, *sums))


def fake_quant_per_channel(t, rng, size):
    with t.row("fake_quant_with_min_max_vars_per_channel", f"{NAME}, FakeQuantWithMinMaxVarsPerChannel") as row, \
            t.row("fake_quant_with_min_max_vars_per_channel_gradient",
                  f"{NAME}, FakeQuantWithMinMaxVarsPerChannelGradient", "dx bits, sums 1e-5") as back, \
            t.row("scheme fake_quant:range=learned,per-channel=yes",
                  f"{NAME}, FakeQuantWithMinMaxVarsPerChannel, ..Gradient", "y, dx bits, sums 1e-5") as tape:
        for bits, narrow, rank, d in itertools.product(range(2, 17), (False, True), (1, 2, 4), (1, 5, 67)):
            chosen = some_ranges(rng, 60)
            chosen = [chosen[i] for i in rng.permutation(len(chosen))[:d]]
            lo, hi = (np.array(v, F) for v in zip(*chosen))
            rows = 1 if rank == 1 else max(size(6000) // d, 6)
            x = np.stack([fake_quant_input(rng, rows, a, b, bits, narrow) for a, b in chosen], -1)
            shape = {1: (d,), 2: (rows, d), 4: (2, 3, rows // 6, d)}[rank]
            x = np.ascontiguousarray(x[:np.prod(shape[:-1], dtype=int)]).reshape(shape)
            g = inputs.gradients(rng, x.size).reshape(shape)
            attrs = dict(min=lo, max=hi, num_bits=bits, narrow_range=narrow)
            what = f"{list(shape)}, {bits} bits{', narrow' * narrow}"
            y = raw.FakeQuantWithMinMaxVarsPerChannel(inputs=x, **attrs).numpy()
            got = [v.numpy() for v in raw.FakeQuantWithMinMaxVarsPerChannelGradient(gradients=g, inputs=x, **attrs)]
            drop = masked(x, lo, hi, bits, narrow) + sums_of_flushed(x, lo, hi, bits, narrow, 1)
            sums = np.abs(g.astype(np.float64)).reshape(-1, d).sum(0)
            row.compare(what, y, lambda: qgrad.fake_quant("vars_per_channel", x, lo, hi, bits, narrow), {"x": x})
            back.compare(what, got, lambda: qgrad.fake_quant_gradient("vars_per_channel", g, x, lo, hi, bits, narrow),
                         {"x": x, "g": g}, drop, (None, SUM, SUM), (None, sums, sums))
            if rank != 4 or (lo > 0).any() or (hi < 0).any():
                lo, hi = np.minimum(lo, 0), np.maximum(hi, 0)
            if rank != 4:
                continue
            attrs = dict(min=lo, max=hi, num_bits=bits, narrow_range=narrow)
            y = raw.FakeQuantWithMinMaxVarsPerChannel(inputs=x, **attrs).numpy()
            got = [v.numpy() for v in raw.FakeQuantWithMinMaxVarsPerChannelGradient(gradients=g, inputs=x, **attrs)]
            for role, text in ((qgrad.INPUT, "input"), (qgrad.WEIGHT, "weight")):
                tape.compare(f"{text} {what}", (y, *got), lambda: channels_on_tape(x, g, lo, hi, bits, narrow, role),
                             {"x": x, "g": g}, masked(x, lo, hi, bits, narrow, k=1)
                             + sums_of_flushed(x, lo, hi, bits, narrow, 2)
                             + [Declared("range-opened", narrow_of(lo, hi)),
                                Declared("range-opened", np.broadcast_to(narrow_of(lo, hi), x.shape))],
                             (None, None, SUM, SUM),
                             (None, None, sums, sums))


def channels_on_tape(x, g, lo, hi, bits, narrow, role):
    """TensorFlow's channels are inmost; those of a weight are outmost here."""
    there = (lambda a: np.ascontiguousarray(np.moveaxis(a, 3, 0))) if role == qgrad.WEIGHT else (lambda a: a)
    back = (lambda a: np.ascontiguousarray(np.moveaxis(a, 0, 3))) if role == qgrad.WEIGHT else (lambda a: a)
    text = f"fake_quant:range=learned,bits={bits},per-channel=yes" + ",narrow-range=yes" * narrow
    y, dx, d, _ = qgrad.scheme(text, there(x), there(g), role, [*lo, *hi, 1, *np.zeros_like(lo)])
    return back(y), back(dx), d[:lo.size], d[lo.size:2 * lo.size]


EXTREME = [(0, 0), (0.5, 0.5), (1, -1), (-1e-37, 1e-37), (-3e38, 3e38), (-1e38, 1e38), (0, 3.4028235e38),
           (-3.4028235e38, 0), (0, 1e-44), (-1e-36, 0), (-1e-30, 1e30), (1e38, 3e38), (0, 7e-37)]


def denormal_range(x, bits, lo, hi):
    """A range so narrow that its step, or so wide that the inverse of its step, is denormal."""
    step = 2 * max(abs(float(lo)), abs(float(hi))) / 2.0 ** bits
    return Declared("denormals", np.full(x.shape, step < 2.0 ** -124 or step > 2.0 ** 124))


def with_ends(x, *ends):
    return np.concatenate([np.array([*ends, inputs.LARGEST, -inputs.LARGEST], F), x])


def fake_quant_borders(t, rng, size):
    """Ranges that TensorFlow accepts without a check."""
    with t.row("fake_quant_with_min_max_vars, extreme ranges", f"{NAME}, FakeQuantWithMinMaxVars, ..Gradient") as row:
        for bits, narrow, (lo, hi) in itertools.product(range(2, 17), (False, True), EXTREME):
            x = with_ends(inputs.numbers(rng, size(250), min(lo, hi), max(lo, hi)), lo, hi)
            attrs = dict(min=F(lo), max=F(hi), num_bits=bits, narrow_range=narrow)
            y = raw.FakeQuantWithMinMaxVars(inputs=x, **attrs).numpy()
            what = f"[{lo}, {hi}], {bits} bits{', narrow' * narrow}"
            row.or_refused(what, y, lambda: qgrad.fake_quant("vars", x, lo, hi, bits, narrow), {"x": x},
                           [denormal_range(x, bits, lo, hi)])
            if lo == hi == 0:
                d = [v.numpy() for v in raw.FakeQuantWithMinMaxVarsGradient(gradients=x, inputs=x, **attrs)]
                row.compare(what, d, lambda: qgrad.fake_quant_gradient("vars", x, x, lo, hi, bits, narrow), {"x": x},
                            [Declared("zero-added", k=0, zeros=True), Declared("denormals", inputs.denormal(x), 0)])


# --- quantize_and_dequantize ------------------------------------------------------------------------

QDQ_BITS = (2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 20, 24, 25, 31, 32, 33, 48, 61)


def qdq_original(version, x, lo, hi, signed, bits, given, mode, narrow, axis):
    attrs = dict(input=x, input_min=lo, input_max=hi, signed_input=signed, range_given=given, narrow_range=narrow,
                 axis=axis)
    if version == "V3":
        return raw.QuantizeAndDequantizeV3(num_bits=bits, **attrs).numpy()
    op = raw.QuantizeAndDequantizeV2 if version == "V2" else raw.QuantizeAndDequantizeV4
    return op(num_bits=bits, round_mode=mode, **attrs).numpy()


def sign_of(signed):
    return "signed" if signed else "unsigned"


def first(lo, hi):
    """The first range of several."""
    return f"[{np.ravel(lo)[0]}, {np.ravel(hi)[0]}]"


def qdq_step(lo, hi, signed, bits):
    """The float of one code, for ticks."""
    m = max(abs(float(lo)), abs(float(hi))) if signed else max(float(hi), 0)
    return m / (2.0 ** (bits - 1) if signed else 2.0 ** bits - 1) or 1.0


def qdq_cases():
    for version, signed, bits, given, narrow in itertools.product(("V2", "V3", "V4"), (True, False), QDQ_BITS,
                                                                  (True, False), (False, True)):
        for mode in ("HALF_TO_EVEN",) if version == "V3" else ("HALF_TO_EVEN", "HALF_UP"):
            for axis in (-1, 0, 2) if version == "V3" or not given else (-1,):
                yield version, signed, bits, given, narrow, mode, axis


def qdq_ranges(rng, n):
    made = some_ranges(rng, n)
    return [made[i] for i in rng.integers(0, len(made), n)]


def quantize_and_dequantize(t, rng, size):
    shape = (3, 4, 5)
    with t.row("quantize_and_dequantize, range given", f"{NAME}, QuantizeAndDequantizeV2, V3, V4") as given_row, \
            t.row("quantize_and_dequantize, range measured",
                  f"{NAME}, QuantizeAndDequantizeV2, V3, V4") as measured_row:
        for version, signed, bits, given, narrow, mode, axis in qdq_cases():
            depth = 1 if axis < 0 else shape[axis]
            chosen = qdq_ranges(rng, depth)
            m = size(50)
            parts = []
            for lo, hi in chosen:
                step = qdq_step(lo, hi, signed, min(bits, 24))
                make = inputs.numbers if given else inputs.moderate
                parts.append(
                    make(rng, m * 60 // depth, lo, hi, step, 0.0, (-2**min(bits - 1, 24), 2**min(bits - 1, 24))))
            x = np.stack(parts)
            x = np.ascontiguousarray(np.moveaxis(x.reshape(depth, -1, 60 // depth), 0, 1)).reshape(-1)
            x = with_axis(x, shape, axis, depth, m)
            lo, hi = (np.array(v, F) for v in zip(*chosen))
            if axis < 0 or not given:
                lo, hi = (lo[0], hi[0]) if given else (F(0), F(0))
            y = qdq_original(version, x, lo, hi, signed, bits, given, mode, narrow, axis)
            attrs = qgrad.qdq_attrs(version, signed, bits, given, mode, narrow, axis)
            what = f"{version}, {sign_of(signed)} {bits} bits, {mode}{', narrow' * narrow}, axis {axis}"
            if given:
                what += f", [{np.ravel(lo)[0]}, {np.ravel(hi)[0]}]"
            declared = [Declared("denormals", inputs.denormal(x), 0)]
            declared += [] if signed else [unsigned_below_zero(x, hi, given, axis)]
            ends = F(0) if given else [np.zeros(depth, F) if axis >= 0 else F(0)] * 2
            (given_row if given else measured_row).compare(
                what, y, lambda: qgrad.quantize_and_dequantize(attrs, x, *((lo, hi) if given else ends)), {"x": x},
                declared)


def qdq_borders(t, rng, size):
    with t.row("quantize_and_dequantize, extreme ranges", f"{NAME}, QuantizeAndDequantizeV2") as row:
        for bits, signed, given, (lo, hi) in itertools.product(QDQ_BITS, (True, False), (True, False), EXTREME):
            if lo > hi:
                continue
            x = with_ends(inputs.numbers(rng, size(250), lo, hi, unusual=False), lo, hi)
            if not given:
                x = np.clip(x, F(lo), F(hi))
            y = qdq_original("V2", x, F(lo), F(hi), signed, bits, given, "HALF_TO_EVEN", False, -1)
            attrs = qgrad.qdq_attrs("V2", signed, bits, given, "HALF_TO_EVEN", False, -1)
            row.or_refused(
                f"[{lo}, {hi}], {sign_of(signed)} {bits} bits, range {'given' if given else 'measured'}",
                y, lambda: qgrad.quantize_and_dequantize(attrs, x, F(lo), F(hi)), {"x": x},
                [denormal_range(x, bits - signed, lo, hi),
                 Declared("denormals", inputs.denormal(x))] +
                ([] if signed else [unsigned_below_zero(x, np.asarray(F(hi)), given, -1)]))


def with_axis(x, shape, axis, depth, m):
    """x [.., depth ..] of shape [m * 3, 4, 5] with the channel at axis, or flat."""
    if axis < 0:
        return x
    inner = x.size // depth
    rows = np.ascontiguousarray(x[:depth * inner].reshape(-1, depth, 60 // depth).swapaxes(0, 1)).reshape(depth, inner)
    other = {0: (inner // 4, 4), 2: (inner // 4, 4)}[axis]
    rows = np.ascontiguousarray(rows[:, :other[0] * 4]).reshape(depth, *other)
    return np.ascontiguousarray(np.moveaxis(rows, 0, axis))


def unsigned_below_zero(x, hi, given, axis):
    """Unsigned codes of a range without positive numbers."""
    if not given:
        rest = tuple(i for i in range(x.ndim) if i != axis)
        hi = x.max(rest, keepdims=True) if axis >= 0 else x.max()
    elif axis >= 0:
        hi = hi.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    return Declared("unsigned-below-zero", np.broadcast_to(np.asarray(hi) <= 0, x.shape), 0, 0.0)


def qdq_gradient(t, rng, size):
    with t.row("quantize_and_dequantize_v4_gradient", f"{NAME}, QuantizeAndDequantizeV4Grad") as row:
        for lo, hi in some_ranges(rng, 200):
            x = inputs.numbers(rng, size(5000), lo, hi)
            g = inputs.gradients(rng, x.size, unusual=True)
            d = [v.numpy() for v in raw.QuantizeAndDequantizeV4Grad(gradients=g, input=x, input_min=lo, input_max=hi)]
            attrs = qgrad.qdq_attrs("V4", True, 8, True, "HALF_TO_EVEN", False, -1)
            row.compare(f"[{lo}, {hi}]", d, lambda: qgrad.quantize_and_dequantize_gradient(attrs, g, x, lo, hi),
                        {"x": x, "g": g}, [Declared("mask-multiplies", ~((lo <= x) & (x <= hi)), 0, 0.0)])
    with t.row("quantize_and_dequantize gradients, V2 and V3",
               f"{NAME}, gradients of QuantizeAndDequantizeV2, V3") as row:
        for version, given in itertools.product(("V2", "V3"), (True, False)):
            for lo, hi in some_ranges(rng, 60):
                x = tf.constant(inputs.moderate(rng, size(4000), lo, hi))
                g = inputs.gradients(rng, x.shape[0])
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    op = raw.QuantizeAndDequantizeV2 if version == "V2" else raw.QuantizeAndDequantizeV3
                    y = op(input=x, input_min=lo, input_max=hi, range_given=given, num_bits=8)
                d = tape.gradient(y, x, output_gradients=tf.constant(g)).numpy()
                attrs = qgrad.qdq_attrs(version, True, 8, given, "HALF_TO_EVEN", False, -1)
                row.compare(f"{version}, range {'given' if given else 'measured'}, [{lo}, {hi}]", d,
                            lambda: qgrad.quantize_and_dequantize_gradient(attrs, g, x.numpy(), lo, hi)[0],
                            {"x": x.numpy(), "g": g})


# --- quantize_v2, dequantize ------------------------------------------------------------------------


def quantize_v2_cases():
    for dtype, mode in itertools.product(QTYPES, qgrad.MODES):
        for rounding in ("HALF_AWAY_FROM_ZERO", "HALF_TO_EVEN") if mode == "SCALED" else ("HALF_AWAY_FROM_ZERO",):
            for narrow in (False, True) if mode == "SCALED" else (False,):
                for ensure, axis in itertools.product((0.01, 0.0, 0.5), (-1,) if mode == "MIN_FIRST" else (-1, 0, 1)):
                    yield dtype, mode, rounding, narrow, ensure, axis


def code_limits(dtype):
    i = np.iinfo(dtype)
    return i.min, i.max, i.max - i.min


def channels(rng, m, chosen, step, axis, make, codes):
    """[m], or m numbers for each range along axis 0 or 1."""
    rows = [make(rng, m // len(chosen), lo, hi, step(lo, hi), lo, codes) for lo, hi in chosen]
    if axis < 0:
        return rows[0]
    return np.ascontiguousarray(np.stack(rows, axis))


def quantize_v2(t, rng, size):
    for mode in qgrad.MODES:
        with t.row(f"quantize_v2, {mode}", f"{NAME}, QuantizeV2") as row:
            for case in quantize_v2_cases():
                if case[1] == mode:
                    one_quantize_v2(row, rng, size, *case)


def one_quantize_v2(row, rng, size, dtype, mode, rounding, narrow, ensure, axis):
    most = min(code_limits(dtype)[2], 2 ** 24)

    def step_of(lo, hi):
        return max((float(max(hi, 0)) - float(min(lo, 0))) / most, 1e-30)
    for _ in range(12):
        chosen = qdq_ranges(rng, 1 if axis < 0 else 7)
        x = channels(rng, size({"MIN_FIRST": 7000, "MIN_COMBINED": 2100, "SCALED": 700}[mode]), chosen, step_of, axis,
                     inputs.numbers, (0, most))
        lo, hi = (np.array(v, F) for v in zip(*chosen))
        if axis < 0:
            lo, hi = lo[0], hi[0]
        out, low, high = raw.QuantizeV2(input=x,
                                        min_range=lo,
                                        max_range=hi,
                                        T=QTYPES[dtype],
                                        mode=mode,
                                        round_mode=rounding,
                                        narrow_range=narrow,
                                        axis=axis,
                                        ensure_minimum_range=ensure)
        out = codes(out)
        what = (
            f"{np.dtype(dtype).name}, {first(lo, hi)}, {rounding}{', narrow' * narrow}, axis {axis}, "
            f"ensure_minimum_range {ensure}")
        declared = [Declared("nan-codes", np.isnan(x), 0), Declared("denormals", inputs.denormal(x), 0)]
        if dtype == np.int32:
            declared.append(Declared("int32-wraps", out == -2 ** 31, 0, 2 ** 31 - 1))
        if narrow and code_limits(dtype)[0] == 0:
            declared += empty_above_zero(x, lo, hi, ensure, axis)
        row.compare(what, (out, low.numpy(), high.numpy()),
                    lambda: qgrad.quantize_v2(x, lo, hi, dtype, mode, rounding, narrow, axis, ensure), {"x": x},
                    declared)


def quantize_v2_borders(t, rng, size):
    with t.row("quantize_v2, extreme ranges", f"{NAME}, QuantizeV2") as row:
        for dtype, mode, ensure, (lo, hi) in itertools.product(QTYPES, qgrad.MODES, (0.01, 0.0), EXTREME):
            if lo > hi:
                continue
            x = with_ends(inputs.numbers(rng, size(2000), lo, hi, unusual=False), lo, hi)
            out, low, high = raw.QuantizeV2(input=x, min_range=F(lo), max_range=F(hi), T=QTYPES[dtype], mode=mode,
                                            ensure_minimum_range=ensure)
            out = codes(out)
            row.or_refused(f"{np.dtype(dtype).name}, [{lo}, {hi}], {mode}, ensure_minimum_range {ensure}",
                           (out, low.numpy(), high.numpy()),
                           lambda: qgrad.quantize_v2(x, lo, hi, dtype, mode, ensure=ensure), {"x": x}, [
                               denormal_range(x,
                                              code_limits(dtype)[2].bit_length() - 1, lo, hi),
                               Declared("denormals", inputs.denormal(x), 0),
                               Declared("int32-wraps", out == -2**31, 0)
                           ])


def empty_above_zero(x, lo, hi, ensure, axis):
    """Unsigned codes from 1 on of a range that ends at 0: its lower end becomes 1 / FLT_MAX, which is denormal."""
    eps = np.maximum(F(1), np.maximum(np.abs(lo), np.abs(hi))) * F(ensure)
    empty = np.maximum(hi, np.minimum(lo, F(0)) + eps) <= 0
    return [Declared("denormals", np.asarray(empty), 1),
            Declared("denormals", np.broadcast_to(along(empty, axis, x.shape), x.shape), 0)]


def dequantize(t, rng, size):
    for mode in qgrad.MODES:
        with t.row(f"dequantize, {mode}", f"{NAME}, Dequantize") as row:
            for dtype, narrow, axis in itertools.product(QTYPES, (False, True) if mode == "SCALED" else (False,),
                                                         (-1,) if mode == "MIN_FIRST" else (-1, 0, 1)):
                lo_code, hi_code, _ = code_limits(dtype)
                for lo, hi in some_ranges(rng, 30):
                    q = rng.integers(lo_code, hi_code + 1, size(1200 if narrow or axis >= 0 else 5000),
                                     dtype=np.int64).astype(dtype)
                    q[:4] = lo_code, hi_code, 0, 1
                    low, high = F(lo), F(hi)
                    if axis >= 0:
                        q = np.ascontiguousarray(q[:q.size // 8 * 8].reshape((8, -1) if axis == 0 else (-1, 8)))
                        low, high = (np.array(v, F) for v in zip(*qdq_ranges(rng, 8)))
                    y = raw.Dequantize(input=quantized(q), min_range=low, max_range=high, mode=mode,
                                              narrow_range=narrow, axis=axis).numpy()
                    row.compare(
                        f"{np.dtype(dtype).name}, {first(low, high)}{', narrow' * narrow}, axis {axis}",
                        y, lambda: qgrad.dequantize(q, low, high, mode, narrow, axis), {"q": q},
                        [Declared("codes-through-float",
                                  q.astype(F) == 2.0**31, 0)])


def requantize(t, rng, size):
    with t.row("requantize", f"{NAME}, Requantize") as row:
        for k in range(300):
            scale = np.exp(rng.uniform(-10, 10))
            in_hi = F(scale * np.exp(rng.uniform(0, 20)))
            in_lo = F(-in_hi) if k % 2 else F(-in_hi * rng.uniform(0, 2))
            out_lo, out_hi = F(-scale * rng.uniform(0, 2)), F(scale * rng.uniform(0.01, 2))
            if k % 7 == 0:
                out_lo = F(0)
            span = min(255.0 * 2.0 ** 32 * float(out_hi - out_lo) / float(in_hi - in_lo) / 255.0, 2.0 ** 31)
            q = np.clip(rng.uniform(-span, span, size(3500)), -2 ** 31, 2 ** 31 - 1).astype(np.int64)
            q[:6] = 0, 1, -1, 2 ** 31 - 1, -2 ** 31, 2 ** 30
            q = q.astype(np.int32)
            y, lo, hi = raw.Requantize(input=quantized(q),
                                       input_min=in_lo,
                                       input_max=in_hi,
                                       requested_output_min=out_lo,
                                       requested_output_max=out_hi,
                                       out_type=tf.quint8)
            fixed = np.trunc(255.0 * 65536 * float(in_hi - in_lo) / float(out_hi - out_lo))
            wraps = np.abs(q.astype(np.float64) * fixed) >= 2.0 ** 63 * (1 - 2.0 ** -50)
            y = codes(y)
            row.compare(f"[{in_lo}, {in_hi}] to [{out_lo}, {out_hi}]", (y, lo.numpy(), hi.numpy()),
                        lambda: qgrad.requantize(q, in_lo, in_hi, out_lo, out_hi), {"q": q},
                        [Declared("int64-wraps", wraps, 0),
                         Declared("codes-through-float", rounded_first(q, y, in_lo, in_hi, out_lo, out_hi), 0)])


def rounded_first(q, y, *ranges):
    """Where the original is what qgrad makes of the code in float32."""
    through = np.clip(q.astype(F).astype(np.float64), -2 ** 31, 2 ** 31 - 1).astype(np.int32)
    return (np.abs(q.astype(np.int64)) > 2 ** 24) & (qgrad.requantize(through, *ranges)[0] == y)


# --- convolutions and uniform operators -------------------------------------------------------------


def quantized_conv2d(t, rng, size):
    with t.row("quantized_conv2d", f"{NAME}, QuantizedConv2D") as row:
        for k in range(60):
            n, h, w, c, o = 2, *rng.integers(5, 15, 2), rng.integers(1, 9), rng.integers(1, 40)
            kh, kw, stride, padding = *rng.integers(1, 5, 2), int(rng.integers(1, 3)), ("VALID", "SAME")[k % 2]
            x = rng.integers(0, 256, (n, h * size(13), w, c), dtype=np.uint8)
            f = rng.integers(0, 256, (kh, kw, c, o), dtype=np.uint8)
            a, b = some_ranges(rng, 20)[rng.integers(0, 32)], some_ranges(rng, 20)[rng.integers(0, 32)]
            if k % 10 == 3:
                a = F(-3), F(-1 - k / 60)
            elif k % 3:                 # with 0 inside, as quantize_v2 returns them
                a, b = ((min(v[0], F(0)), max(v[1], F(0))) for v in (a, b))
            y, lo, hi = raw.QuantizedConv2D(input=quantized(x), filter=quantized(f), min_input=a[0], max_input=a[1],
                                            min_filter=b[0], max_filter=b[1], strides=[1, stride, stride, 1],
                                            padding=padding)
            declared = []
            if padding == "SAME" and a[1] < 0:
                declared = [Declared("padding-wraps", touches_padding(x, f, stride, codes(y).shape), 0)]
            row.or_refused(f"{list(x.shape)} * {list(f.shape)}, stride {stride}, {padding}, {a}, {b}",
                           (codes(y), lo.numpy(), hi.numpy()),
                           lambda: qgrad.quantized_conv2d(x, f, (*a, *b), (stride, stride), padding, codes(y).shape),
                           None, declared)


def touches_padding(x, f, stride, shape):
    """Outputs of SAME whose window leaves the image."""
    def along(n, k, out):
        first = np.arange(out) * stride - max((out - 1) * stride + k - n, 0) // 2
        return (first < 0) | (first + k > n)
    rows, columns = along(x.shape[1], f.shape[0], shape[1]), along(x.shape[2], f.shape[1], shape[2])
    return np.broadcast_to((rows[:, None] | columns[None, :])[None, :, :, None], shape)


def scales_of(rng, n):
    return np.asarray(np.exp(rng.uniform(-9, 5, n or None)), F)


def limits(dtype, narrow):
    lo, hi, _ = code_limits(dtype)
    return (lo + 1, hi) if narrow else (lo, hi)


def uniform_case(rng, size, axis, zero_of):
    depth = 0 if axis < 0 else 6
    shape = (size(5000),) if axis < 0 else (6, size(1000)) if axis == 0 else (size(1000), 6)
    return shape, scales_of(rng, depth), zero_of(depth)


def along(v, axis, shape):
    return v if axis < 0 else np.reshape(v, (-1, 1) if axis == 0 else (1, -1))


def uniform_operators(t, rng, size):
    def zeros(n, lo=-100, hi=100):
        return np.asarray(rng.integers(lo, hi, n or None), np.int32)
    with t.row("uniform_quantize", f"{NAME}, UniformQuantize") as row, \
            t.row("uniform_dequantize", f"{NAME}, UniformDequantize") as back:
        for _, dtype, axis, narrow in itertools.product(range(16), (np.int8, np.int32), (-1, 0, 1), (False, True)):
            shape, s, z = uniform_case(rng, size, axis, zeros)
            lo, hi = limits(dtype, narrow)
            ticks = inputs.ticks(rng, np.prod(shape), 1.0, 0.0, -260, 260)
            x = (rng.permutation(ticks)[:np.prod(shape)].reshape(shape) * along(s, axis, shape)).astype(F)
            flat = x.reshape(-1)
            special = np.concatenate([inputs.SPECIAL, inputs.UNUSUAL])
            flat[:special.size] = special
            with np.errstate(all="ignore"):
                wraps = np.abs(x.astype(np.float64) / along(s, axis, shape)) >= 2.0 ** 31 - 200
            got = codes(
                raw.UniformQuantize(input=x,
                                    scales=s,
                                    zero_points=z,
                                    Tout=QTYPES[dtype],
                                    quantization_axis=axis,
                                    quantization_min_val=lo,
                                    quantization_max_val=hi))
            what = f"{np.dtype(dtype).name}, axis {axis}, {lo} .. {hi}, scale {np.ravel(s)[0]}"
            row.compare(
                what, got, lambda: qgrad.uniform_quantize(x, s, z, dtype, axis, lo, hi), {"x": x},
                [Declared("nan-codes", np.isnan(x), 0),
                 Declared("int32-wraps", wraps, 0, np.where(x > 0, hi, lo))])
            q = got.copy()
            far = np.abs(q.astype(np.int64)) > 2 ** 24
            y = raw.UniformDequantize(input=quantized(q), scales=s, zero_points=z, Tout=tf.float32,
                                      quantization_min_val=lo, quantization_max_val=hi, quantization_axis=axis).numpy()
            back.compare(what, y, lambda: qgrad.uniform_dequantize(q, s, z, axis), {"q": q},
                         [Declared("codes-through-float", far, 0)])
    with t.row("uniform_requantize", f"{NAME}, UniformRequantize") as row:
        kinds = ((np.int32, np.int8), (np.int8, np.int8))        # what its kernels are for
        for _, (src, dst), axes, narrow in itertools.product(range(10), kinds,
                                                             ((-1, -1), (0, 0), (1, 1), (-1, 0), (1, -1)),
                                                             (False, True)):
            axis = max(axes)
            shape, s, z = uniform_case(rng, size, axes[0] if axes[0] >= 0 else -1, zeros)
            shape = uniform_case(rng, size, axis, zeros)[0]
            out_s, out_z = scales_of(rng, 0 if axes[1] < 0 else 6), zeros(0 if axes[1] < 0 else 6)
            s_lo, s_hi, _ = code_limits(src)
            lo, hi = limits(dst, narrow)
            wide = 300 if src == np.int32 and _ % 2 else s_hi
            q = rng.integers(max(s_lo, -wide), min(s_hi, wide), shape, dtype=np.int64).astype(src)
            got = codes(raw.UniformRequantize(
                input=quantized(q), input_scales=s, input_zero_points=z, output_scales=out_s, output_zero_points=out_z,
                Tout=QTYPES[dst], input_quantization_min_val=s_lo, input_quantization_max_val=s_hi,
                output_quantization_min_val=lo, output_quantization_max_val=hi, input_quantization_axis=axes[0],
                output_quantization_axis=axes[1]))
            row.compare(
                f"{np.dtype(src).name} to {np.dtype(dst).name}, axes {axes}, {np.ravel(s)[0]} to {np.ravel(out_s)[0]}",
                got, lambda: qgrad.uniform_requantize(q, s, z, out_s, out_z, dst, *axes, lo, hi), {"q": q})


def uniform_convolution(t, rng, size):
    with t.row("uniform_quantized_convolution", f"{NAME}, UniformQuantizedConvolution") as row:
        for k in range(60):
            layout, padding, groups = k % 2, ("VALID", "SAME")[k // 2 % 2], (1, 2)[k // 4 % 2]
            rhs_axis, per_out = (-1, 0)[k // 8 % 2], k // 16 % 2 and k // 8 % 2
            c, o = 4, 6 * groups
            n, h, w, kh, kw = 2, size(80), 14, *rng.integers(1, 4, 2)
            x = rng.integers(-128, 128, (n, c, h, w), dtype=np.int8)
            f = rng.integers(-128, 128, (o, c // groups, kh, kw), dtype=np.int8)
            if layout == 1:
                x, f = np.ascontiguousarray(x.transpose(0, 2, 3, 1)), np.ascontiguousarray(f.transpose(2, 3, 1, 0))
            rhs_axis = rhs_axis if rhs_axis < 0 else (0, 3)[layout]
            out_axis = (1, 3)[layout] if per_out else -1
            s_x, z_x = F(np.exp(rng.uniform(-5, 0))), np.int32(rng.integers(-128, 128))
            s_w = scales_of(rng, o if rhs_axis >= 0 else 0)
            z_w = np.asarray(rng.integers(-5, 5, o) if rhs_axis >= 0 else rng.integers(-5, 5), np.int32)
            if rhs_axis >= 0:
                z_w = np.zeros_like(z_w) if k % 3 else z_w
            s_y = np.asarray(scales_of(rng, o if per_out else 0) * F(1 if k % 8 else 1e-5), F)
            z_y = np.asarray(rng.integers(-100, 100, o) if per_out else rng.integers(-100, 100), np.int32)
            lo, hi = -2 ** 31, 2 ** 31 - 1
            if k % 5 == 0:
                lo, hi = -30000, 30000
            y = codes(
                raw.UniformQuantizedConvolution(lhs=quantized(x),
                                                rhs=quantized(f),
                                                lhs_scales=s_x,
                                                lhs_zero_points=z_x,
                                                rhs_scales=s_w,
                                                rhs_zero_points=z_w,
                                                output_scales=s_y,
                                                output_zero_points=z_y,
                                                Tout=tf.qint32,
                                                padding=padding,
                                                lhs_quantization_min_val=-128,
                                                lhs_quantization_max_val=127,
                                                rhs_quantization_min_val=-128,
                                                rhs_quantization_max_val=127,
                                                output_quantization_min_val=lo,
                                                output_quantization_max_val=hi,
                                                feature_group_count=groups,
                                                rhs_quantization_axis=rhs_axis,
                                                output_quantization_axis=out_axis,
                                                dimension_numbers=dimension_numbers(layout)))
            operands = [np.asarray(v) for v in (s_x, z_x, s_w, z_w, s_y, z_y)]
            exact = exact_convolution(x, f, operands, layout, padding, groups)
            wrapped = Declared("int32-wraps", np.abs(exact) > 2.0 ** 31 - 200, 0, np.where(exact > 0, hi, lo))
            row.compare(f"{list(x.shape)} * {list(f.shape)}, {padding}, groups {groups}, axes {rhs_axis} {out_axis}",
                        y,
                        lambda: qgrad.uniform_convolution(x, f, operands, layout, padding, rhs_axis, out_axis, groups,
                                                          lo, hi, y.shape),
                        declared=[wrapped])


def exact_convolution(x, f, operands, layout, padding, groups):
    """The result before it is rounded and clamped, in double."""
    s_x, z_x, s_w, z_w, s_y, z_y = (v.astype(np.float64) for v in operands)
    if layout == 0:
        x, f = x.transpose(0, 2, 3, 1), f.transpose(2, 3, 1, 0)
    x, f = x - z_x, f - z_w
    m, c = f.shape[3] // groups, f.shape[2]
    y = np.concatenate([tf.nn.conv2d(x[..., i * c:(i + 1) * c], f[..., i * m:(i + 1) * m], 1, padding).numpy()
                        for i in range(groups)], -1) * (s_x * s_w / s_y) + z_y
    return y.transpose(0, 3, 1, 2) if layout == 0 else y


def dimension_numbers(layout):
    """A UniformQuantizedConvolutionDimensionNumbersAttr, whose class Python does not see: field number and kind,
    then the number or the packed list; batch, feature and spatial dimensions of input, kernel and output."""
    c, s, k_in, k_out, k_s = ((1, (2, 3), 1, 0, (2, 3)), (3, (1, 2), 2, 3, (0, 1)))[layout]
    fields = [(1, 0), (2, c), (3, s), (4, k_in), (5, k_out), (6, k_s), (7, 0), (8, c), (9, s)]
    out = b""
    for number, value in fields:
        if isinstance(value, tuple):
            out += bytes([number << 3 | 2, len(value), *value])
        else:
            out += bytes([number << 3, value])
    return out


def onednn(t, rng, size):
    """The kernels that TensorFlow takes by default on x86-64 for 8 bits and one range."""
    for mode in qgrad.MODES:
        scaled = mode == "SCALED"
        rounding, variant = ("HALF_TO_EVEN", ", R14") if scaled else ("HALF_AWAY_FROM_ZERO", "")
        with t.row(f"quantize_v2, {mode}{variant}", f"{NAME}, QuantizeV2 with oneDNN") as row, \
                t.row(f"dequantize, {mode}", f"{NAME}, Dequantize with oneDNN") as back:
            for dtype, (lo, hi) in itertools.product((np.int8, np.uint8), some_ranges(rng, 80)):
                x = inputs.moderate(rng, size(6000), lo, hi, max(float(hi) - float(lo), 1e-30) / 255, lo)
                try:
                    out, low, high = raw.QuantizeV2(input=x, min_range=lo, max_range=hi, T=QTYPES[dtype], mode=mode,
                                                    round_mode=rounding)
                    y = raw.Dequantize(input=out, min_range=low, max_range=high, mode=mode).numpy()
                except tf.errors.NotFoundError:         # oneDNN has no kernel for this, and claims it all the same
                    continue
                q, low, high = codes(out), low.numpy(), high.numpy()
                other = {"MIN_COMBINED": None, "MIN_FIRST": np.uint8, "SCALED": np.int8}[mode] == dtype
                row.compare(f"{np.dtype(dtype).name}, [{lo}, {hi}]", (q, low, high),
                            lambda: qgrad.quantize_v2(x, lo, hi, dtype, mode, rounding, r14=scaled), {"x": x},
                            [Declared("denormals", inputs.denormal(x), 0)] + [Declared("onednn", k=0)] * other)
                back.compare(f"{np.dtype(dtype).name}, [{lo}, {hi}]", y, lambda: qgrad.dequantize(q, low, high, mode),
                             {"q": q})


def compare(t, rng, size):
    if os.environ.get("TF_ENABLE_ONEDNN_OPTS") != "0":
        onednn(t, rng, size)
        return
    parts = (fake_quant_args, fake_quant_vars, fake_quant_per_channel, fake_quant_borders, quantize_and_dequantize,
             qdq_borders, qdq_gradient, quantize_v2, quantize_v2_borders, dequantize, requantize, quantized_conv2d,
             uniform_operators, uniform_convolution)
    for part, draws in zip(parts, rng.spawn(len(parts))):
        part(t, draws, size)
