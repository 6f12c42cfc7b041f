"""TensorFlow Lite's reference kernels, asked with models of one operator made here."""
import numpy as np
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema

import qgrad

F = np.float32
NAME = f"TensorFlow Lite {tf.__version__}"
TYPES = {np.int8: schema.TensorType.INT8, np.uint8: schema.TensorType.UINT8, np.int32: schema.TensorType.INT32,
         np.float32: schema.TensorType.FLOAT32}


def tensor(model, shape, dtype, scale=None, zero=None, data=None, axis=0):
    t, b = schema.TensorT(), schema.BufferT()
    t.shape, t.type, t.name = [int(v) for v in shape], TYPES[dtype], f"t{len(model.subgraphs[0].tensors)}".encode()
    if data is not None:
        b.data = np.frombuffer(data.tobytes(), np.uint8)
    t.buffer = len(model.buffers)
    model.buffers.append(b)
    if scale is not None:
        q = schema.QuantizationParametersT()
        q.scale = np.atleast_1d(scale).astype(F)
        q.zeroPoint = np.atleast_1d(zero).astype(np.int64)
        q.quantizedDimension = axis
        t.quantization = q
    model.subgraphs[0].tensors.append(t)
    return len(model.subgraphs[0].tensors) - 1


def empty_model():
    m = schema.ModelT()
    m.version, m.description = 3, b"one operator"
    m.buffers, m.subgraphs, m.operatorCodes = [schema.BufferT()], [schema.SubGraphT()], []
    m.subgraphs[0].tensors, m.subgraphs[0].operators = [], []
    return m


def run(model, inputs, outputs, code, version, options, kind, x, operands):
    import flatbuffers
    op, c = schema.OperatorT(), schema.OperatorCodeT()
    c.builtinCode = c.deprecatedBuiltinCode = code
    c.version = version
    model.operatorCodes.append(c)
    op.opcodeIndex, op.inputs, op.outputs = 0, operands, outputs
    op.builtinOptionsType, op.builtinOptions = kind, options
    g = model.subgraphs[0]
    g.inputs, g.outputs = inputs, outputs
    g.operators.append(op)
    b = flatbuffers.Builder(1 << 20)
    b.Finish(model.Pack(b), b"TFL3")
    reference = tf.lite.experimental.OpResolverType.BUILTIN_REF
    i = tf.lite.Interpreter(model_content=bytes(b.Output()), experimental_op_resolver_type=reference, num_threads=1)
    i.allocate_tensors()
    i.set_tensor(i.get_input_details()[0]["index"], x)
    i.invoke()
    return i.get_tensor(i.get_output_details()[0]["index"]).copy()


def convolution(rng, size, k):
    c, o = int(rng.integers(1, 9)), int(rng.integers(1, 40))
    h, w = int(rng.integers(5, 9)) * size(9), int(rng.integers(5, 15))
    kh, kw, strides = *(int(v) for v in rng.integers(1, 5, 2)), [int(v) for v in rng.integers(1, 3, 2)]
    x = rng.integers(-128, 128, (2, h, w, c), dtype=np.int8)
    f = rng.integers(-127, 128, (o, kh, kw, c), dtype=np.int8)
    s_x, z_x, z_y = F(np.exp(rng.uniform(-5, 0))), int(rng.integers(-128, 128)), int(rng.integers(-128, 128))
    s_w = np.exp(rng.uniform(-6, -2, o)).astype(F)
    if k % 4 == 0:                      # powers of two: factors that end in ties
        s_x, s_w = F(0.5), (2.0 ** rng.integers(-6, -2, o)).astype(F)
    real = s_x * s_w * 127 * 74 * np.sqrt(kh * kw * c)          # a standard deviation of the sum
    s_y = F(2.0 ** rng.integers(-2, 6)) if k % 4 == 0 else F(real.mean() / rng.uniform(20, 200))
    bias = rng.integers(-20000, 20000, o, dtype=np.int32) if k % 3 else None
    return x, f, s_x, z_x, s_w, s_y, z_y, bias, strides, ("VALID", "SAME")[k % 2]


def conv2d(t, rng, size):
    relu = {0: (schema.ActivationFunctionType.NONE, False), 1: (schema.ActivationFunctionType.RELU, True)}
    with t.row("conv2d_per_channel", f"{NAME}, CONV_2D, reference kernel") as row:
        for k in range(120):
            x, f, s_x, z_x, s_w, s_y, z_y, bias, strides, padding = convolution(rng, size, k)
            activation, low = relu[k // 2 % 2]
            m = empty_model()
            a = tensor(m, x.shape, np.int8, s_x, z_x)
            b = tensor(m, f.shape, np.int8, s_w, np.zeros(s_w.size), f)
            c = tensor(m, (s_w.size,), np.int32, s_x * s_w, np.zeros(s_w.size),
                       bias if bias is not None else np.zeros(s_w.size, np.int32))
            d = tensor(m, (), np.int8, s_y, z_y)
            o = schema.Conv2DOptionsT()
            o.padding, o.strideH, o.strideW = int(padding == "VALID"), *strides
            o.dilationHFactor = o.dilationWFactor = 1
            o.fusedActivationFunction = activation
            m.subgraphs[0].tensors[d].shape = list(shape_of(x, f, strides, padding))
            y = run(m, [a], [d], schema.BuiltinOperator.CONV_2D, 3, o, schema.BuiltinOptions.Conv2DOptions, x,
                    [a, b, c])
            lo = max(z_y, -128) if low else -128
            row.compare(
                f"{list(x.shape)} * {list(f.shape)}, strides {strides}, {padding}, bias {bias is not None}, from {lo}",
                y, lambda: qgrad.conv2d_per_channel(x, f, s_w, None, bias, strides, padding, s_x, z_x, s_y, z_y, lo,
                                                    127, 0, y.shape))


def shape_of(x, f, strides, padding):
    out = [
        -(-n // s) if padding == "SAME" else (n - k) // s + 1 for n, k, s in zip(x.shape[1:3], f.shape[1:3], strides)
    ]
    return x.shape[0], *out, f.shape[0]


def requantize(t, rng, size):
    """QUANTIZE of int8 to int8 is a code times a factor, by double rounding: a convolution of 1 x 1."""
    with t.row("multiply_by_quantized_multiplier, double rounding",
               f"{NAME}, QUANTIZE int8 to int8, reference kernel") as row:
        for k in range(300):
            n = size(3500)
            s_x, s_y = np.exp(rng.uniform(-6, 1, 2)).astype(F)
            if k % 3 == 0:
                s_x, s_y = F(2.0 ** rng.integers(-6, 2)), F(2.0 ** rng.integers(-6, 2) * rng.choice([1, 3]))
            z_x, z_y = (int(v) for v in rng.integers(-128, 128, 2))
            x = rng.integers(-128, 128, (1, n, 1, 1), dtype=np.int8)
            m = empty_model()
            a, d = tensor(m, x.shape, np.int8, s_x, z_x), tensor(m, x.shape, np.int8, s_y, z_y)
            y = run(m, [a], [d], schema.BuiltinOperator.QUANTIZE, 2, schema.QuantizeOptionsT(),
                    schema.BuiltinOptions.QuantizeOptions, x, [a])
            one = np.ones((1, 1, 1, 1), np.int8)
            row.compare(
                f"{s_x}, {z_x} to {s_y}, {z_y}", y,
                lambda: qgrad.conv2d_per_channel(x, one, np.ones(1, F), None, None,
                                                 (1, 1), "VALID", s_x, z_x, s_y, z_y, -128, 127, 0, y.shape), {"x": x})


def compare(t, rng, size):
    parts = (conv2d, requantize)
    for part, draws in zip(parts, rng.spawn(len(parts))):
        part(t, draws, size)
