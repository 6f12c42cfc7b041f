"""PyTorch's fake quantization, learnable too, its observers, its quantized tensors and convolution."""
import itertools
import warnings

import numpy as np
import torch
from torch.ao.quantization import observer

import inputs
import qgrad
from compare import Declared

F = np.float32
NAME = f"PyTorch {torch.__version__.split('+')[0]}"
ULP = 2.0 ** -23
SUM = 1e-5                          # of the sum of magnitudes: PyTorch adds in float32, in an order of its own


def asked(f, x, g, *learned):
    """y and the gradients of x and of what is learned."""
    leaves = [torch.tensor(v, requires_grad=True) for v in (x, *learned)]
    y = f(*leaves)
    y.backward(torch.tensor(g))
    return y.detach().numpy(), *[leaf.grad.numpy() for leaf in leaves]


def quotient(x, step):
    with np.errstate(all="ignore"):
        return x.astype(np.float64) / np.asarray(step, np.float64)


def far(v):
    """Beyond int64 the code is undefined there; NaN is code 0 or the lowest."""
    return ~(np.abs(v) < 2.0 ** 31 - 1000)


# --- fake quantization with a range -----------------------------------------------------------------


def range_of(rng, bits):
    """A range that is nudged already: zero point and step as PyTorch wants them."""
    zp, step = int(rng.integers(0, 2 ** bits)), F(np.exp(rng.uniform(-8, 3)))
    if rng.integers(0, 2):
        step = F(2.0 ** rng.integers(-10, 4))
    return zp, step, F(-zp * step), F((2 ** bits - 1 - zp) * step)


def rules_of_range(v, zp, top):
    """v: exact codes, counted from the lowest.  PyTorch: ties to even, mask on the rounded code."""
    return [Declared("torch-nan", ~np.isfinite(v)), Declared("torch-far", far(v)),
            Declared("tie-rounding", inputs.near_tie(v, 3 * ULP * np.maximum(np.abs(v - zp), top)), 0),
            Declared("mask-rounded", ((v > -0.51) & (v < 0)) | ((v > top) & (v < top + 0.51))
                     | near(v, 0, top) | near(v, top, top), 1),
            Declared("zero-sign", k=0, zeros=True), Declared("zero-added", k=1, zeros=True)]


def near(v, border, top):
    return np.abs(v - border) <= 3 * ULP * max(top, 1)


def fake_quant(t, rng, size):
    with t.row("fake_quant_with_min_max_vars, y and dx", f"{NAME}, fake_quantize_per_tensor_affine",
               "y 2^-22 except at ties") as row:
        for _, bits in itertools.product(range(30), (2, 3, 4, 5, 8, 12)):
            zp, step, lo, hi = range_of(rng, bits)
            top = 2 ** bits - 1
            x = inputs.numbers(rng, size(6000), lo, hi, step, lo, (0, top))
            g = inputs.gradients(rng, x.size)
            y, dx = asked(lambda v: torch.fake_quantize_per_tensor_affine(v, float(step), zp, 0, top), x, g)
            v = quotient(x, step) + zp
            row.compare(f"{bits} bits, step {step}, zero point {zp}", (y, dx),
                        lambda: (qgrad.fake_quant("vars", x, lo, hi, bits, False),
                                 qgrad.fake_quant_gradient("vars", g, x, lo, hi, bits, False)[0]),
                        {"x": x, "g": g}, rules_of_range(v, zp, top), (2 * ULP, None))
    with t.row("fake_quant_with_min_max_vars_per_channel, y and dx", f"{NAME}, fake_quantize_per_channel_affine",
               "y 2^-22 except at ties") as row:
        for _, bits in itertools.product(range(30), (2, 4, 8, 12)):
            top, d = 2 ** bits - 1, 19
            zp, step, lo, hi = (np.array(v) for v in zip(*[range_of(rng, bits) for _ in range(d)]))
            x = np.stack([inputs.numbers(rng, size(500), lo[i], hi[i], step[i], lo[i], (0, top)) for i in range(d)], -1)
            g = inputs.gradients(rng, x.size).reshape(x.shape)
            y, dx = asked(
                lambda v: torch.fake_quantize_per_channel_affine(v, torch.tensor(step),
                                                                 torch.tensor(zp, dtype=torch.int32), 1, 0, top), x, g)
            v = quotient(x, step) + zp
            row.compare(f"{bits} bits", (y, dx),
                        lambda: (qgrad.fake_quant("vars_per_channel", x, lo, hi, bits, False),
                                 qgrad.fake_quant_gradient("vars_per_channel", g, x, lo, hi, bits, False)[0]),
                        {"x": x, "g": g}, rules_of_range(v, zp, top), (2 * ULP, None))


# --- learned step -----------------------------------------------------------------------------------


def learned_step(t, rng, size):
    with t.row("lsq_quantizer, y, dx, ds", f"{NAME}, _fake_quantize_learnable_per_tensor_affine",
               "y, dx bits except at ties, ds 1e-5") as row, \
            t.row("scheme lsq, y, dx, ds", f"{NAME}, _fake_quantize_learnable_per_tensor_affine",
                  "y, dx bits except at ties, ds 1e-5") as tape:
        for k, (_, bits, signed) in enumerate(itertools.product(range(20), (2, 3, 4, 8, 12), (True, False))):
            qn, qp = (2 ** (bits - 1), 2 ** (bits - 1) - 1) if signed else (0, 2 ** bits - 1)
            step = F(2.0 ** rng.integers(-8, 3)) if k % 2 else F(np.exp(rng.uniform(-6, 2)))
            make = inputs.moderate if k % 4 < 2 else inputs.numbers
            x = make(rng, size(6000), -qn * step, qp * step, step, 0, (-qn, qp))
            v = quotient(x, step)
            rounded = 2 * ULP * np.maximum(qn, qp)          # of the quotient in float32
            edge = ((v >= -qn - 0.51) & (v <= -qn + rounded)) | ((v >= qp - rounded) & (v <= qp + 0.51))
            sums = k % 4 == 0
            if sums:                    # ds has the same terms where the masks agree and no tie decides
                x = x[~edge & ~inputs.near_tie(v, 1e-3)]
                v, edge = quotient(x, step), np.zeros(x.size, bool)
            g = inputs.gradients(rng, x.size)
            grad = 1 / np.sqrt(x.size * qp)
            theirs = asked(lambda a, s: torch._fake_quantize_learnable_per_tensor_affine(
                a, s, torch.zeros(1), -qn, qp, float(grad)), x, g, np.array([step]))
            what = f"{bits} bits, {'signed' if signed else 'unsigned'}, step {step}"
            rules = [
                Declared("torch-nan", ~np.isfinite(v)),
                Declared("torch-far", far(v)),
                Declared("tie-rounding", inputs.near_tie(v, 2 * ULP * np.abs(v)), 0),
                Declared("mask-rounded", edge, 1),
                Declared("zero-sign", k=0, zeros=True),
                Declared("zero-added", k=1, zeros=True)
            ]
            if not sums:
                rules.append(Declared("mask-rounded", k=2))
            attrs = qgrad.Lsq(step, qn, qp, grad, qgrad.surrogate())
            bound = np.abs(g.astype(np.float64)).sum() * max(qp, qn) * grad

            def plain():
                dx, ds = qgrad.like(x), qgrad.c.c_float()
                qgrad.call("lsq_quantizer_gradient", x, g, attrs, dx, qgrad.c.byref(ds))
                return qgrad.quantizer("lsq_quantizer", x, attrs), dx, np.array([ds.value], F)

            def on_tape():
                flat = (1, 1, 1, -1)
                y, dx, d, _ = qgrad.scheme(f"lsq:bits={bits}" + ",signed=yes" * signed, x.reshape(flat),
                                           g.reshape(flat), qgrad.INPUT, (step, 1))
                return y.ravel(), dx.ravel(), d[:1]
            tolerance, given = (None, None, SUM), (None, None, bound)
            row.compare(what, theirs, plain, {"x": x, "g": g}, rules, tolerance, given)
            tape.compare(what, theirs, on_tape, {"x": x, "g": g}, rules, tolerance, given)


# --- weights of papers, after the formulas of their authors' code ------------------------------------


class Signs(torch.autograd.Function):
    """IR-Net's: the sign with the slope k t (1 - tanh(t x)^2), k = max(1 / t, 1)."""

    @staticmethod
    def forward(ctx, x, t):
        ctx.save_for_backward(x)
        ctx.t = t
        return torch.sign(x)

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return max(1 / ctx.t, 1) * ctx.t * (1 - torch.tanh(x * ctx.t) ** 2) * g, None


def irnet(w, t):
    z = w - w.mean(1, keepdim=True)
    z = z / z.std(1, keepdim=True)
    scale = 2 ** torch.round(torch.log2(z.abs().mean(1, keepdim=True)))
    return Signs.apply(z, t) * scale.detach()


def adabin(w, t):
    centre = w.mean(1, keepdim=True)
    distance = torch.sqrt(((w - centre) ** 2).sum(1, keepdim=True) / w.shape[1])
    return Signs.apply((w - centre) / distance, t) * distance + centre


class ApproxSign(torch.autograd.Function):
    """Bi-Real Net's: the sign with the slope 2 - 2|x|, or 0."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sign(x)

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return (2 - 2 * x.abs()).clamp(min=0) * g


def recu(w, a, tau):
    """Q is that of each filter; in the authors' code, whose factor is 2 sqrt 2 in z, it is that of the layer."""
    z = w - w.mean(1, keepdim=True)
    z = z / torch.sqrt(z.var(1, keepdim=True) + 1e-5) * 8 ** 0.5
    q = (-z.abs().mean(1, keepdim=True) * np.log(2 - 2 * tau)).detach()
    z = torch.clamp(z, -q, q)
    return (z + (torch.sign(z) - z).detach()) * a


def dorefa_times_max(w, bits):
    t, n = torch.tanh(w), 2 ** bits - 1
    m = t.abs().max().detach()
    u = t / 2 / m + 0.5
    return m * (2 * (u + (torch.round(u * n) / n - u).detach()) - 1)


def weights_of_papers(t, rng, size):
    rows = ((irnet, "irnet", (0.1, 1, 5)), (adabin, "adabin", (0.1, 1, 5)), (dorefa_times_max, "dorefa", (2, 3, 4)))
    for f, name, constants in rows:
        with t.row(f"scheme {name}, y and dw", f"{NAME}, autograd of the authors' formula", "1e-5 of the largest") as row:
            for _, constant in itertools.product(range(5), constants):
                shape = (7, size(3000))
                x = (rng.standard_normal(shape) * 0.05 + 0.02 * rng.standard_normal((7, 1))).astype(F)
                g = rng.standard_normal(shape).astype(F)
                # Their sums are taken in float64, so that only our roundings remain.
                theirs = [v.astype(F) for v in asked(lambda w: f(w, constant), x.astype(np.float64), g.astype(np.float64))]
                text = f"{name}:bits={constant},scale=max" if name == "dorefa" else f"{name}:surrogate=tanh,surrogate-arg={constant}"
                centre, u = x.mean(1, keepdims=True, dtype=np.float64), np.tanh(x) / np.abs(np.tanh(x)).max()
                close = np.abs(x - centre) < 1e-8 if name != "dorefa" else inputs.near_tie((u + 1) / 2 * (2.0 ** constant - 1), 1e-5)

                def ours():
                    flat = (7, 1, 1, -1)
                    y, dx, _, _ = qgrad.scheme(text, x.reshape(flat), g.reshape(flat))
                    return y.reshape(shape), dx.reshape(shape)
                row.compare(text, theirs, ours, {"w": x}, [Declared("tie-rounding", close, 0)], 1e-5,
                            [np.abs(v).max() for v in theirs])
    with t.row("scheme recu, y, dw, da", f"{NAME}, autograd of the authors' formula", "1e-5 of the largest") as row:
        for _, tau in itertools.product(range(5), (0.6, 0.85, 0.99)):
            shape = (7, size(3000))
            x = (rng.standard_normal(shape) * 0.05 + 0.02 * rng.standard_normal((7, 1))).astype(F)
            a, g = rng.uniform(0.1, 1, 7).astype(F), rng.standard_normal(shape).astype(F)
            z = x - x.mean(1, keepdims=True, dtype=np.float64)
            most = -np.abs(z).mean(1, keepdims=True) * np.log(2 - 2 * tau)
            theirs = [v.astype(F) for v in asked(lambda w, s: recu(w, s, tau), x.astype(np.float64), g.astype(np.float64),
                                                 a.astype(np.float64)[:, None])]

            def ours():
                flat = (7, 1, 1, -1)
                y, dx, d, _ = qgrad.scheme(f"recu:tau={tau},scale=plain", x.reshape(flat), g.reshape(flat), qgrad.WEIGHT, a)
                return y.reshape(shape), dx.reshape(shape), d[:, None]
            row.compare(f"tau {tau}", theirs, ours, {"w": x},
                        [Declared("tie-rounding", np.abs(z) < 1e-8, 0),
                         Declared("mask-rounded", np.abs(np.abs(z) - most) < 1e-7, 1)], 1e-5,
                        [np.abs(v).max() for v in theirs])
    with t.row("scheme adabin of inputs, y, dx, da, db", f"{NAME}, autograd of the paper's formula", "1e-5 of the largest") as row:
        for _ in range(15):
            x, g = (rng.standard_normal(size(20000)).astype(F) for _ in range(2))
            a, b = F(rng.uniform(0.2, 2)), F(rng.uniform(-0.5, 0.5))
            double = [v.astype(np.float64) for v in (x, g, np.array([a]), np.array([b]))]
            theirs = [v.astype(F) for v in asked(lambda v, s, m: s * ApproxSign.apply((v - m) / s) + m, *double)]

            def ours():
                y, dx, d, _ = qgrad.scheme("adabin", x.reshape(1, 1, 1, -1), g.reshape(1, 1, 1, -1), qgrad.INPUT, (a, b))
                return y.ravel(), dx.ravel(), d[:1], d[1:]
            row.compare(f"a {a}, b {b}", theirs, ours, {"x": x}, [], 1e-5,
                        [*[np.abs(v).max() for v in theirs[:2]], *[np.abs(g).sum()] * 2])
    with t.row("scheme lsq:per-channel=yes, y, dx, ds", f"{NAME}, _fake_quantize_learnable_per_channel_affine",
               "y, dx bits except at ties, ds 1e-5") as row:
        for _, bits in itertools.product(range(5), (2, 3, 4, 8)):
            shape, qp = (7, size(3000)), 2 ** (bits - 1) - 1
            step = np.exp(rng.uniform(-5, -2, 7)).astype(F)
            x = (rng.uniform(-1, 1, shape) * (qp - 0.6) * step[:, None]).astype(F)     # masks agree within the ends
            v = quotient(x, step[:, None])
            x[inputs.near_tie(v, 1e-3)] = 0
            g, grad = rng.standard_normal(shape).astype(F), 1 / np.sqrt(shape[1] * qp)
            theirs = asked(lambda a, s: torch._fake_quantize_learnable_per_channel_affine(
                a, s, torch.zeros(7), 0, -qp - 1, qp, float(grad)), x, g, step)

            def ours():
                flat = (7, 1, 1, -1)
                y, dx, d, _ = qgrad.scheme(f"lsq:bits={bits},per-channel=yes", x.reshape(flat), g.reshape(flat),
                                           qgrad.WEIGHT, (*step, 1))
                return y.reshape(shape), dx.reshape(shape), d[:7]
            row.compare(f"{bits} bits", theirs, ours, {"x": x},
                        [Declared("zero-sign", k=0, zeros=True), Declared("zero-added", k=1, zeros=True)],
                        (None, None, SUM), (None, None, np.abs(g).sum() / 7 * qp * grad))


# --- observed ranges --------------------------------------------------------------------------------


def observers(t, rng, size):
    with t.row("scheme fake_quant:range=observed, min and max", f"{NAME}, MovingAverageMinMaxObserver", "1e-5") as row:
        for k in range(40):
            decay = (0.9, 0.99, 0.5)[k % 3]
            o, learned = observer.MovingAverageMinMaxObserver(averaging_constant=1 - decay), (0, 0, 0)
            for batch in range(12):
                x = (rng.standard_normal(size(2500)) * np.exp(rng.uniform(-2, 2)) + rng.uniform(-1, 1)).astype(F)
                x[:2] = -0.1, 0.1               # the scheme keeps 0 in its range
                o(torch.tensor(x))
                held = learned

                def ours():
                    return qgrad.scheme(f"fake_quant:range=observed,decay={decay}", x.reshape(1, 1, 1, -1),
                                        x.reshape(1, 1, 1, -1), qgrad.INPUT, held)[3][:2]
                theirs = np.array([o.min_val.item(), o.max_val.item()], F)
                row.compare(f"decay {decay}, batch {batch}", theirs, ours, tolerance=1e-5)     # 1 - decay is rounded
                learned = (*ours(), 1)
    with t.row("choose_quantization_params", f"{NAME}, _choose_qparams_per_tensor",
               "scale to float32, zero point") as row:
        for k in range(3000):
            x = (rng.standard_normal(4) * np.exp(rng.uniform(-6, 6))).astype(F)
            if k % 3 == 0:
                lo = int(rng.integers(0, 255))
                x = (np.array([-lo, 255 - lo]) * 2.0 ** rng.integers(-8, 8)).astype(F)
            lo, hi = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
            scale, zero = torch._choose_qparams_per_tensor(torch.tensor(x))
            z = min(-lo / ((hi - lo) / 255), 255)
            tie = np.full(1, bool(inputs.near_tie(np.float64(z), 1e-9)))
            small = np.full(1, (hi - lo) / 255 < 6.1e-5)

            def ours():
                s, z = qgrad.choose_quantization_params(0, 255, lo, hi)
                return F([s]), np.array([z], np.int64)
            row.compare(f"{lo} .. {hi}", (F([scale]), np.array([zero], np.int64)), ours, None,
                        [Declared("torch-small-scale", small), Declared("tie-rounding", tie, 1)])


# --- quantized tensors ------------------------------------------------------------------------------

TORCH = {np.int8: torch.qint8, np.uint8: torch.quint8, np.int32: torch.qint32}


def quantized(t, rng, size):
    with t.row("uniform_quantize", f"{NAME}, quantize_per_tensor, .._per_channel", "bits except at ties") as row, \
            t.row("uniform_dequantize", f"{NAME}, dequantize") as back:
        for k, (_, dtype, axis) in enumerate(itertools.product(range(40), TORCH, (-1, 0, 1))):
            i = np.iinfo(dtype)
            shape = (size(4000),) if axis < 0 else (6, size(700)) if axis == 0 else (size(700), 6)
            n = () if axis < 0 else 6
            s = np.asarray(np.exp(rng.uniform(-6, 3, n)), F) if k % 2 else np.asarray(2.0 ** rng.integers(-8, 4, n), F)
            z = np.asarray(rng.integers(max(i.min, -100), min(i.max, 100), n), np.int32)
            if dtype == np.int32:
                z = np.zeros_like(z)
            along = s if axis < 0 else np.reshape(s, (-1, 1) if axis == 0 else (1, -1))
            x = inputs.numbers(rng, int(np.prod(shape)), -140, 140, 1, 0, (-140, 140)).reshape(shape)
            with np.errstate(all="ignore"):
                x = (x * along).astype(F)
            v = quotient(x, along)
            if axis < 0:
                q = torch.quantize_per_tensor(torch.tensor(x), float(s), int(z), TORCH[dtype])
            else:
                q = torch.quantize_per_channel(torch.tensor(x), torch.tensor(s), torch.tensor(z), axis, TORCH[dtype])
            codes, y = q.int_repr().numpy(), q.dequantize().numpy()
            rules = [Declared("torch-nan", ~np.isfinite(v), 0), Declared("torch-far", far(v), 0),
                     Declared("tie-rounding", inputs.near_tie(v, 2 * ULP * np.maximum(np.abs(v), 1)), 0)]
            what = f"{np.dtype(dtype).name}, axis {axis}, scale {np.ravel(s)[0]}, zero {np.ravel(z)[0]}"
            row.compare(what, codes, lambda: qgrad.uniform_quantize(x, s, z, dtype, axis, int(i.min), int(i.max)),
                        {"x": x}, rules)
            back.compare(what, y, lambda: qgrad.uniform_dequantize(codes, s, z, axis), {"q": codes})


def convolution(t, rng, size):
    with t.row("conv2d_per_channel", f"{NAME}, quantized.conv2d ({torch.backends.quantized.engine})",
               "bits except at ties") as row:
        for k in range(60):
            c, o, h, w = int(rng.integers(1, 9)), int(rng.integers(2, 40)), int(rng.integers(5, 9)) * size(18), int(
                rng.integers(5, 15))
            kh, kw, strides = *(int(v) for v in rng.integers(1, 5, 2)), [int(v) for v in rng.integers(1, 3, 2)]
            x = rng.integers(0, 128, (2, c, h, w), dtype=np.uint8)          # without AVX-512 VNNI sums of 255 saturate
            f = rng.integers(-127, 128, (o, c, kh, kw), dtype=np.int8)
            s_x, z_x, z_y = F(np.exp(rng.uniform(-5, 0))), int(rng.integers(0, 128)), int(rng.integers(0, 256))
            s_w = np.exp(rng.uniform(-6, -2, o)).astype(F)
            s_y = F((s_x * s_w).mean() * 74 * 40 * np.sqrt(kh * kw * c) / rng.uniform(20, 120))
            a = torch._make_per_tensor_quantized_tensor(torch.tensor(x), float(s_x), z_x)
            b = torch._make_per_channel_quantized_tensor(torch.tensor(f), torch.tensor(s_w, dtype=torch.float64),
                                                         torch.zeros(o, dtype=torch.int64), 0)
            packed = torch.ops.quantized.conv2d_prepack(b, None, strides, [0, 0], [1, 1], 1)
            y = torch.ops.quantized.conv2d(a, packed, float(s_y), z_y).int_repr().numpy().transpose(0, 2, 3, 1)
            acc = torch.nn.functional.conv2d(torch.tensor(x.astype(np.float64) - z_x),
                                             torch.tensor(f.astype(np.float64)), None,
                                             strides).numpy().transpose(0, 2, 3, 1)
            factor = s_x.astype(np.float64) * s_w / s_y
            v = acc * factor
            nhwc, ohwi = np.ascontiguousarray(x.transpose(0, 2, 3, 1)), np.ascontiguousarray(f.transpose(0, 2, 3, 1))
            row.compare(
                f"{list(x.shape)} * {list(f.shape)}, strides {strides}", np.ascontiguousarray(y),
                lambda: qgrad.conv2d_per_channel(nhwc, ohwi, s_w, None, None, strides, "VALID", s_x, z_x, s_y, z_y, 0,
                                                 255, 0, y.shape), None,
                [Declared("requantized-in-float", inputs.near_tie(v, factor + 1e-4), 0)])


def compare(t, rng, size):
    warnings.simplefilter("ignore")         # the observers' farewell
    torch.set_num_threads(2)
    parts = (fake_quant, learned_step, observers, quantized, convolution, weights_of_papers)
    for part, draws in zip(parts, rng.spawn(len(parts))):
        part(t, draws, size)
