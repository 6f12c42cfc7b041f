"""qgrad's operators on NumPy arrays: ctypes on the views of core/io/array.h, attributes as in the headers.

Functions take arrays and return new ones.  QgradError carries the library's message.
"""
import ctypes as c
import os

import numpy as np

DTYPES = {np.dtype(t): i for i, t in enumerate(
    [np.float32, np.float64, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])}


class QgradError(Exception):
    pass


class Array(c.Structure):
    _fields_ = [("dtype", c.c_int), ("rank", c.c_int), ("dims", c.c_size_t * 8), ("data", c.c_void_p)]


def struct(*fields):
    return type("Attrs", (c.Structure,), {"_fields_": list(fields)})


def ints(*names):
    return [(n, c.c_int) for n in names]


Surrogate = struct(("slope", c.c_void_p), ("value", c.c_void_p), ("arg", c.c_float), ("to", c.c_float), ("steps", c.c_uint64),
                   ("whole", c.c_void_p))
FakeQuant = struct(("num_bits", c.c_int), ("narrow_range", c.c_bool))
FakeQuantArgs = struct(("min", c.c_float), ("max", c.c_float), ("num_bits", c.c_int), ("narrow_range", c.c_bool))
QuantizeV2 = struct(("mode", c.c_int), ("round_mode", c.c_int), ("narrow_range", c.c_bool), ("axis", c.c_int),
                    ("ensure_minimum_range", c.c_float), ("scaled_variant", c.c_int))
Dequantize = struct(("mode", c.c_int), ("narrow_range", c.c_bool), ("axis", c.c_int), ("drift_free", c.c_bool))
Qdq = struct(("version", c.c_int), ("signed_input", c.c_bool), ("num_bits", c.c_int), ("range_given", c.c_bool),
             ("round_mode", c.c_int), ("narrow_range", c.c_bool), ("axis", c.c_int))
UniformQuantize = struct(*ints("quantization_axis", "quantization_min_val", "quantization_max_val"))
UniformRequantize = struct(*ints("input_quantization_axis", "output_quantization_axis",
                                 "output_quantization_min_val", "output_quantization_max_val"))
QuantizedConv2d = struct(("strides", c.c_int * 4), ("padding", c.c_int))
UniformConvolution = struct(*ints("layout", "padding", "rhs_quantization_axis", "output_quantization_axis",
                                  "feature_group_count", "output_quantization_min_val",
                                  "output_quantization_max_val"))
Conv2dPerChannel = struct(("strides", c.c_int * 2), ("padding", c.c_int), ("input_scale", c.c_float),
                          ("output_scale", c.c_float), ("input_zero_point", c.c_int32),
                          ("output_zero_point", c.c_int32), ("output_min", c.c_int32), ("output_max", c.c_int32),
                          ("rounding", c.c_int))
Multiplier = struct(("fraction", c.c_int32), ("shift", c.c_int))
SteTern = struct(("threshold_value", c.c_float), ("ternary_weight_networks", c.c_bool))
DorefaWeight = struct(("k", c.c_int), ("through_max", c.c_bool), ("surrogate", Surrogate))
Lsq = struct(("step", c.c_float), ("qn", c.c_int), ("qp", c.c_int), ("grad_scale", c.c_double),
             ("surrogate", Surrogate))

# Values of the enumerations in quant/reference/qdq.h, quant/reference/quantize.h and quant/reference/integer*.h.
MODES = {"MIN_COMBINED": 0, "MIN_FIRST": 1, "SCALED": 2}
ROUNDS = {"HALF_AWAY_FROM_ZERO": 0, "HALF_TO_EVEN": 1, "HALF_UP": 2}
PADDING = {"VALID": 0, "SAME": 1}
WEIGHT, INPUT = 1, 2
# Names in full, so that a test can look them up.
SURROGATES = {"identity": ("qg_surrogate_identity", []), "approx_sign": ("qg_surrogate_approx_sign", []),
              "clip": ("qg_surrogate_clip", [c.c_float]), "swish": ("qg_surrogate_swish", [c.c_float]),
              "tanh": ("qg_surrogate_tanh", [c.c_float])}

lib = None


def load(path):
    global lib
    lib = c.CDLL(path)
    lib.qg_errmsg.restype = c.c_char_p
    lib.qg_cpu_path.restype = c.c_char_p
    lib.qgo_surrogate_bytes.restype = c.c_size_t
    assert c.sizeof(Surrogate) == lib.qgo_surrogate_bytes(), "Surrogate is not the struct of quant/surrogate.h"
    for symbol, arguments in SURROGATES.values():
        f = getattr(lib, symbol)
        f.restype, f.argtypes = Surrogate, arguments
    lib.qg_quantize_multiplier.argtypes = [c.c_double, c.POINTER(Multiplier)]
    lib.qg_choose_quantization_params.argtypes = [c.c_int32, c.c_int32, c.c_double, c.c_double,
                                                  c.POINTER(c.c_double), c.POINTER(c.c_int32)]


def use_cpu(level):
    """What QGRAD_CPU says is asked for at every call.  Returns what the machine makes of it."""
    os.environ["QGRAD_CPU"] = level
    return lib.qg_cpu_path().decode()


def levels():
    """The instruction sets of this machine, the highest first."""
    found = [use_cpu(level) for level in ("avx512", "avx2", "baseline")]
    return list(dict.fromkeys(found))


def check(status):
    if status:
        raise QgradError(lib.qg_errmsg().decode())


def view(a):
    v = Array(DTYPES[a.dtype], a.ndim)
    v.dims[:a.ndim] = a.shape
    v.data = a.ctypes.data
    return c.byref(v)


def floats(a):
    return np.asarray(a, dtype=np.float32, order="C")


def call(name, *args):
    """An operator of quant/: arrays become views, everything else is passed as it is."""
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    for a in arrays:
        assert a.flags.c_contiguous
    check(getattr(lib, "qg_" + name)(*[view(a) if isinstance(a, np.ndarray) else a for a in args]))


def like(x, dtype=np.float32):
    return np.empty(x.shape, dtype)


def scalar(v=0.0):
    return np.array(v, np.float32)


def surrogate(name=None, arg=None):
    if name is None:
        return Surrogate()
    f = getattr(lib, SURROGATES[name][0])
    return f() if arg is None else f(arg)


# --- quantizers of one tensor -----------------------------------------------------------------------


def quantizer(name, x, *constants, after=0):
    """y of qg_NAME(x, constants.., y, NULL..): `after` optional outputs."""
    y = like(x)
    call(name, x, *constants, y, *[None] * after)
    return y


def gradient(name, x, dy, *constants, after=0):
    dx = like(x)
    call(name + "_gradient", x, dy, *constants, dx, *[None] * after)
    return dx


# --- schemes on the tape ----------------------------------------------------------------------------


def scheme(text, x, dy, role=WEIGHT, learned=()):
    """y, dx, gradients of what is learned, and what is learned or tracked after the step."""
    x, dy = floats(x), floats(dy)
    shape = (c.c_int * 4)(*x.shape)
    learned = np.array(learned, np.float32)
    y, dx, dlearned = like(x), like(x), np.zeros_like(learned)
    p = [a.ctypes.data_as(c.c_void_p) for a in (x, dy, learned, y, dx, dlearned)]
    check(lib.qgo_scheme(text.encode(), role, shape, *p))
    return y, dx, dlearned, learned


def bop(w, g, gamma, threshold):
    """Binary weights after a step for each row of g."""
    w = w.copy()
    check(lib.qgo_bop(c.c_float(gamma), c.c_float(threshold), w.size, len(g), g.ctypes.data_as(c.c_void_p),
                      w.ctypes.data_as(c.c_void_p)))
    return w


# --- fake_quant -------------------------------------------------------------------------------------


def fake_quant(kind, x, lo, hi, bits, narrow):
    y = like(x)
    if kind == "args":
        call("fake_quant_with_min_max_args", FakeQuantArgs(lo, hi, bits, narrow), x, y)
    else:
        call("fake_quant_with_min_max_" + kind, FakeQuant(bits, narrow), x, floats(lo), floats(hi), y)
    return y


def fake_quant_gradient(kind, g, x, lo, hi, bits, narrow):
    dx = like(x)
    if kind == "args":
        call("fake_quant_with_min_max_args_gradient", FakeQuantArgs(lo, hi, bits, narrow), g, x, dx)
        return dx
    lo, hi = floats(lo), floats(hi)
    dlo, dhi = like(lo), like(hi)
    call("fake_quant_with_min_max_" + kind + "_gradient", FakeQuant(bits, narrow), g, x, lo, hi, dx, dlo, dhi)
    return dx, dlo, dhi


# --- quantize_v2 and its kin ------------------------------------------------------------------------


def quantize_v2(x, lo, hi, dtype, mode="MIN_COMBINED", round_mode="HALF_AWAY_FROM_ZERO", narrow=False, axis=-1,
                ensure=0.01, r14=False):
    lo, hi = floats(lo), floats(hi)
    q, single = like(x, dtype), axis < 0 or lo.size == 1
    out = [np.empty(() if single else lo.shape, np.float32) for _ in range(2)]
    call("quantize_v2", QuantizeV2(MODES[mode], ROUNDS[round_mode], narrow, axis, ensure, r14), x, lo, hi, q, *out)
    return q, *out


def dequantize(q, lo, hi, mode="MIN_COMBINED", narrow=False, axis=-1):
    y = like(q)
    call("dequantize", Dequantize(MODES[mode], narrow, axis, False), q, floats(lo), floats(hi), y)
    return y


def qdq_attrs(version, signed, bits, given, round_mode, narrow, axis):
    return Qdq(("V2", "V3", "V4").index(version), signed, bits, given, ROUNDS[round_mode], narrow, axis)


def quantize_and_dequantize(attrs, x, lo, hi):
    y = like(x)
    call("quantize_and_dequantize", attrs, x, floats(lo), floats(hi), y)
    return y


def quantize_and_dequantize_gradient(attrs, g, x, lo, hi):
    lo, hi = floats(lo), floats(hi)
    dx, dlo, dhi = like(x), like(lo), like(hi)
    call("quantize_and_dequantize_v4_gradient", attrs, g, x, lo, hi, dx, dlo, dhi)
    return dx, dlo, dhi


def requantize(q, in_lo, in_hi, out_lo, out_hi):
    y, lo, hi = like(q, np.uint8), scalar(), scalar()
    call("requantize", q, *map(scalar, (in_lo, in_hi, out_lo, out_hi)), y, lo, hi)
    return y, lo, hi


# --- uniform operators and convolutions -------------------------------------------------------------


def uniform_quantize(x, scales, zeros, dtype, axis, lo, hi):
    q = like(x, dtype)
    call("uniform_quantize", UniformQuantize(axis, lo, hi), x, scales, zeros, q)
    return q


def uniform_dequantize(q, scales, zeros, axis):
    y = like(q)
    check(lib.qg_uniform_dequantize(axis, view(q), view(scales), view(zeros), view(y)))
    return y


def uniform_requantize(q, scales, zeros, out_scales, out_zeros, dtype, axis, out_axis, lo, hi):
    y = like(q, dtype)
    call("uniform_requantize", UniformRequantize(axis, out_axis, lo, hi), q, scales, zeros, out_scales, out_zeros, y)
    return y


def quantized_conv2d(x, w, ranges, strides, padding, shape):
    y, lo, hi = np.empty(shape, np.int32), scalar(), scalar()
    attrs = QuantizedConv2d((c.c_int * 4)(1, *strides, 1), PADDING[padding])
    call("quantized_conv2d", attrs, x, w, *map(scalar, ranges), y, lo, hi)
    return y, lo, hi


def uniform_convolution(x, w, operands, layout, padding, rhs_axis, out_axis, groups, lo, hi, shape):
    y = np.empty(shape, np.int32)
    attrs = UniformConvolution(layout, PADDING[padding], rhs_axis, out_axis, groups, lo, hi)
    call("uniform_quantized_convolution", attrs, x, w, *operands, y)
    return y


def conv2d_per_channel(x, w, scales, zeros, bias, strides, padding, x_scale, x_zero, y_scale, y_zero, lo, hi, rounding,
                       shape):
    y = np.empty(shape, x.dtype)
    attrs = Conv2dPerChannel((c.c_int * 2)(*strides), PADDING[padding], x_scale, y_scale, x_zero, y_zero, lo, hi,
                             rounding)
    call("conv2d_per_channel", attrs, x, w, scales, zeros, bias, y)
    return y


def choose_quantization_params(qmin, qmax, rmin, rmax):
    scale, zero = c.c_double(), c.c_int32()
    check(lib.qg_choose_quantization_params(qmin, qmax, rmin, rmax, c.byref(scale), c.byref(zero)))
    return scale.value, zero.value
