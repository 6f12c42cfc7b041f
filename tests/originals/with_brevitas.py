"""Brevitas: the quantizers of its BNN-PYNQ models, and scaled integers where qgrad has their counterpart."""
import itertools

import brevitas
import numpy as np
import torch
from brevitas.nn import QuantIdentity, QuantLinear
from brevitas.quant import scaled_int
from brevitas_examples.bnn_pynq.models.common import CommonActQuant, CommonWeightQuant

import inputs
import qgrad
from compare import Declared

F = np.float32
NAME = f"Brevitas {brevitas.__version__}"
ULP = 2.0 ** -23
SUM = 1e-5


def value(q):
    return q.value if hasattr(q, "value") else q


def of_input(module, x, g):
    v = torch.tensor(x, requires_grad=True)
    y = value(module(v))
    y.backward(torch.tensor(g))
    return y.detach().numpy(), v.grad.numpy()


def of_weight(x, g, **kind):
    """x [out, in]."""
    layer = QuantLinear(x.shape[1], x.shape[0], bias=False, **kind)
    layer.weight.data = torch.tensor(x)
    y = value(layer.quant_weight())
    y.backward(torch.tensor(g))
    return y.detach().numpy(), layer.weight.grad.numpy()


def scheme(text, x, g, role):
    y, dx, _, _ = qgrad.scheme(text, x.reshape(x.shape[0], 1, 1, -1), g.reshape(x.shape[0], 1, 1, -1), role)
    return y.reshape(x.shape), dx.reshape(x.shape)


def unit_rules(x, n, v, nan=np.nan):
    """v: exact codes.  Codes are x / (1/n) there and x n here, and only for n = 1 the same to the last bit."""
    with np.errstate(all="ignore"):
        error = 0 if n == 1 else 4 * ULP * n
        return [Declared("tie-rounding", (np.abs(v) < n + 1) & inputs.near_tie(v, error) & (error > 0), 0),
                Declared("nan-gradient", np.isnan(x), 1, 0.0), Declared("zero-sign", k=0, zeros=True),
                Declared("zero-added", k=1, zeros=True)]


def bnn_pynq_inputs(t, rng, size):
    with t.row("schemes sign and unit:bits=1, inputs", f"{NAME}, bnn_pynq CommonActQuant, 1 bit") as row:
        for _ in range(20):
            x = inputs.numbers(rng, size(30000), -1, 1, 0.5, -1, (0, 4)).reshape(1, -1)
            g = inputs.gradients(rng, x.size).reshape(x.shape)
            theirs = of_input(QuantIdentity(act_quant=CommonActQuant, bit_width=1), x, g)
            for text in ("sign", "unit:bits=1"):
                row.compare(text, theirs, lambda: scheme(text, x, g, qgrad.INPUT), {"x": x, "g": g},
                            [Declared("nan-gradient", np.isnan(x), 1, 0.0), Declared("zero-added", k=1, zeros=True)]
                            + [Declared("nan-code", np.isnan(x), 0, np.nan)] * (text != "sign"))
    with t.row("scheme unit:zero=yes, inputs, y and dx", f"{NAME}, bnn_pynq CommonActQuant, 2 to 8 bits",
               "2 bits: bits; else 2^-22") as row, \
            t.row("scheme unit:zero=yes,surrogate=clip,surrogate-arg=1+1/2n, inputs, dx",
                  f"{NAME}, bnn_pynq CommonActQuant, 2 to 8 bits", "2^-22") as wide:
        for _, bits in itertools.product(range(8), range(2, 9)):
            n = 2 ** (bits - 1) - 1
            x = inputs.numbers(rng, size(19000), -1, 1, 1 / n, -1, (0, 2 * n),
                               (1 + 0.5 / n, -1 - 0.5 / n)).reshape(1, -1)
            g = inputs.gradients(rng, x.size).reshape(x.shape)
            theirs = of_input(QuantIdentity(act_quant=CommonActQuant, bit_width=bits), x, g)
            with np.errstate(all="ignore"):
                v = x.astype(np.float64) * n
                mask = (np.abs(v) > n) & (np.abs(v) <= (n + 0.5) * (1 + 4 * ULP))
            tolerance = None if bits == 2 else 2 * ULP
            row.compare(f"{bits} bits", theirs, lambda: scheme(f"unit:bits={bits},zero=yes", x, g, qgrad.INPUT),
                        {"x": x, "g": g}, [Declared("mask-rounded", mask, 1, 0.0), *unit_rules(x, n, v)], tolerance)
            end = np.abs(np.abs(v) - (n + 0.5)) <= 4 * ULP * (n + 0.5)
            wide.compare(
                f"{bits} bits", theirs[1], lambda: scheme(
                    f"unit:bits={bits},zero=yes,surrogate=clip,surrogate-arg={1 + 0.5 / n!r}", x, g, qgrad.INPUT)[1],
                {"x": x, "g": g}, [
                    Declared("mask-ends", end),
                    Declared("nan-gradient", np.isnan(x), 0, 0.0),
                    Declared("zero-added", k=0, zeros=True)
                ], tolerance)


def bnn_pynq_weights(t, rng, size):
    with t.row("scheme unit:as=paper, weights, y and dx", f"{NAME}, bnn_pynq CommonWeightQuant, 1 to 8 bits",
               "1, 2 bits: bits; else 2^-22") as row:
        for _, bits in itertools.product(range(8), range(1, 9)):
            n = 2 ** (bits - 1) - 1 if bits > 1 else 1
            x = inputs.numbers(rng, size(16800), -1, 1, 1 / n, -1, (0, 2 * n))
            x[~np.isfinite(x)] = 0
            x = x.reshape(8, -1)
            g = inputs.gradients(rng, x.size).reshape(x.shape)
            theirs = of_weight(x, g, weight_quant=CommonWeightQuant, weight_bit_width=bits)
            tolerance = None if bits < 3 else 2 * ULP
            row.compare(
                f"{bits} bits", theirs, lambda: scheme(f"unit:as=paper,bits={bits}", x, g, qgrad.WEIGHT), {"x": x, "g": g},
                [Declared("weights-beyond-1",
                          np.abs(x) > 1, 1, 0.0), *unit_rules(x, n,
                                                              x.astype(np.float64) * n)], tolerance)


def current(t, rng, size):
    kinds = {"": scaled_int.Int8WeightPerTensorFloat, ",per-channel=yes": scaled_int.Int8WeightPerChannelFloat}
    with t.row("scheme fake_quant:range=current, weights, y and dx",
               f"{NAME}, Int8WeightPerTensorFloat, Int8WeightPerChannelFloat", "2^-22 except at ties") as row:
        for _, bits, option in itertools.product(range(12), range(2, 9), kinds):
            n = 2 ** (bits - 1) - 1
            x = inputs.moderate(rng, size(7000) // 8 * 8, -1, 1, 1 / n, -1, (0, 2 * n)).reshape(8, -1)
            x = (x * np.exp(rng.uniform(-4, 2, (8, 1)))).astype(F)
            g = inputs.gradients(rng, x.size).reshape(x.shape)
            theirs = of_weight(x, g, weight_quant=kinds[option], weight_bit_width=bits)
            most = np.abs(x.astype(np.float64)).max(1, keepdims=True) if option else np.abs(x.astype(np.float64)).max()
            v = x / (most / n)
            rules = [
                Declared("tie-rounding", inputs.near_tie(v, 2 ** bits * 2 * ULP), 0),
                Declared("zero-sign", k=0, zeros=True),
                Declared("zero-added", k=1, zeros=True),
                Declared("max-differentiated", np.abs(x) == most, 1)
            ]
            row.compare(f"{bits} bits{option}", theirs,
                        lambda: scheme(f"fake_quant:range=current,bits={bits}{option}", x, g, qgrad.WEIGHT),
                        {"x": x, "g": g}, rules, 2 * ULP)


def learned(t, rng, size):
    """Brevitas learns the threshold, n times the step."""
    with t.row("scheme lsq, y, dx, ds", f"{NAME}, Int8ActPerTensorFloatMinMaxInit, Uint8ActPerTensorFloatMaxInit",
               "y, dx 2^-22 except at ties, ds 1e-5") as row:
        for k, (_, bits, signed) in enumerate(itertools.product(range(16), (2, 3, 4, 8), (True, False))):
            qn, qp = (2 ** (bits - 1), 2 ** (bits - 1) - 1) if signed else (0, 2 ** bits - 1)
            limit = float(F(2.0 ** rng.integers(-6, 4))) if k % 4 < 2 else float(F(np.exp(rng.uniform(-4, 3))))
            options = dict(act_quant=scaled_int.Int8ActPerTensorFloatMinMaxInit, min_val=-limit) if signed else \
                dict(act_quant=scaled_int.Uint8ActPerTensorFloatMaxInit)
            module = QuantIdentity(bit_width=bits, max_val=limit, **options)
            parameter = next(module.parameters())
            levels = qn if signed else qp
            step = F(limit) / F(levels)
            x = inputs.moderate(rng, size(12000), -limit, limit, step, 0, (-qn, qp))
            v = x.astype(np.float64) / step
            edge = ((v >= -qn - 0.51) & (v <= -qn + 1e-3)) | ((v >= qp - 1e-3) & (v <= qp + 0.51))
            x = x[~inputs.near_tie(v, 1e-3) & ~edge] if k % 2 else x
            v = x.astype(np.float64) / step
            edge = ((v >= -qn - 0.51) & (v <= -qn + 1e-3)) | ((v >= qp - 1e-3) & (v <= qp + 0.51))
            g = inputs.gradients(rng, x.size)
            y, dx = of_input(module, x, g)
            ds = np.array([parameter.grad.item() * levels], F)

            def ours():
                flat = (1, 1, 1, -1)
                y, dx, d, _ = qgrad.scheme(f"lsq:bits={bits}" + ",signed=yes" * signed, x.reshape(flat),
                                           g.reshape(flat), qgrad.INPUT, (step, 1))
                return y.ravel(), dx.ravel(), (d[:1] * np.sqrt(x.size * qp)).astype(F)

            rules = [
                Declared("tie-rounding", inputs.near_tie(v, 2 * ULP * np.maximum(np.abs(v), 1)), 0),
                Declared("mask-rounded", edge, 1),
                Declared("zero-sign", k=0, zeros=True),
                Declared("zero-added", k=1, zeros=True)
            ]
            rules += [] if k % 2 else [Declared("mask-rounded", k=2)]
            bound = np.abs(g.astype(np.float64)).sum() * max(qn, qp)
            row.compare(f"{bits} bits, {'signed' if signed else 'unsigned'}, threshold {limit}", (y, dx, ds), ours,
                        {"x": x, "g": g}, rules, (2 * ULP, 2 * ULP, SUM), (None, None, bound))


def compare(t, rng, size):
    torch.set_num_threads(2)
    parts = (bnn_pynq_inputs, bnn_pynq_weights, current, learned)
    for part, draws in zip(parts, rng.spawn(len(parts))):
        part(t, draws, size)
