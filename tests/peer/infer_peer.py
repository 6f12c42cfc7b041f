#!/usr/bin/python3
"""Inference of the nets of qgrad's benchmarks in ONNX Runtime and PyTorch: the bars of tests/bench_infer.py.

    infer_peer.py --list
    infer_peer.py --net lenet5|vgg7|resnet20 --peer onnxruntime-float|onnxruntime-int8|pytorch-ENGINE
    infer_peer.py --net dense --peer onnxruntime-2bits|onnxruntime-4bits|onnxruntime-8bits

Weights are random, batch norms are folded into the products, as both do before they run a net.  The net is built once;
after the line {} each line "BATCH THREADS SECONDS" on the standard input is answered by one JSON object.  --list prints
the versions and the peers that this Python has.

ONNX Runtime: all graph optimizations, inputs and outputs bound once.  int8 is its static quantization, QDQ, weights per
channel, calibrated on noise; 2bits, 4bits and 8bits are MatMulNBits in blocks of 128 with inputs of 8 bits, the fastest
of its ways.  PyTorch: the operators of torch.ao.quantization's quantized nets, in channels_last, with
each of torch.backends.quantized.supported_engines.  With several threads and batch 1, two ways are tried, several
threads for one image and an image per thread, and the faster one counts.
"""
import argparse
import json
import logging
import os
import statistics
import sys
import tempfile
import threading
import time
import warnings

warnings.filterwarnings("ignore")
import numpy as np                                                  # noqa: E402

LEAST_CALLS = 3
CALIBRATION = 8         # batches of one image

# A net is a list of layers: ("conv", out, kernel, pad, stride, relu), ("maxpool",), ("dense", out, relu), ("mean",),
# ("block", out, stride): relu(conv(relu(conv(x))) + shortcut(x)).
NETS = {
    "lenet5": ((28, 1), [("conv", 32, 5, 0, 1, True), ("maxpool",), ("conv", 64, 5, 0, 1, True), ("maxpool",),
                         ("dense", 512, True), ("dense", 10, False)]),
    "vgg7": ((32, 3), [layer for c in (128, 256, 512)
                       for layer in (("conv", c, 3, 1, 1, True), ("conv", c, 3, 1, 1, True), ("maxpool",))]
             + [("dense", 1024, True), ("dense", 10, False)]),
    "resnet20": ((32, 3), [("conv", 16, 3, 1, 1, True)]
                 + [("block", c, 2 if i == 0 and c > 16 else 1) for c in (16, 32, 64) for i in range(3)]
                 + [("mean",), ("dense", 10, False)]),
    "dense": ((28, 1), 3 * [("dense", 4096, True)] + [("dense", 10, False)]),
}
BLOCK = 128


def draw(rng, *shape):
    """Weights that keep the size of activations: [out][in][h][w]."""
    return (rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))).astype(np.float32)


# --- ONNX Runtime -----------------------------------------------------------------------------------

def onnx_net(name, bits=None):
    """bits: of the weights of MatMulNBits, in place of Gemm."""
    from onnx import TensorProto, helper, numpy_helper
    (side, channels), layers = NETS[name]
    rng, nodes, weights, count = np.random.default_rng(1), [], [], 0

    def constant(array):
        weights.append(numpy_helper.from_array(array, f"w{len(weights)}"))
        return weights[-1].name

    def node(op, *inputs, **attributes):
        nonlocal count
        count += 1
        nodes.append(helper.make_node(op, inputs, [f"v{count}"], name=f"n{count}", **attributes))
        return f"v{count}"

    def conv(x, c, out, kernel, pad, stride, relu):
        w, b = constant(draw(rng, out, c, kernel, kernel)), constant(draw(rng, out, 1).ravel() * np.float32(0.1))
        x = node("Conv", x, w, b, kernel_shape=[kernel] * 2, pads=[pad] * 4, strides=[stride] * 2)
        return node("Relu", x) if relu else x

    x, c, flat = "x", channels, False
    for kind, *args in layers:
        if kind == "conv":
            x, c, side = conv(x, c, *args), args[0], (side + 2 * args[2] - args[1]) // args[3] + 1
        elif kind == "maxpool":
            x, side = node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), side // 2
        elif kind == "mean":
            x, side = node("GlobalAveragePool", x), 1
        elif kind == "block":
            out, stride = args
            y = conv(conv(x, c, out, 3, 1, stride, True), out, out, 3, 1, 1, False)
            if out != c:
                ends = [np.array(v, np.int64) for v in ([0, 0], [1 << 30, 1 << 30], [2, 3], [stride, stride])]
                x = node("Slice", x, *[constant(e) for e in ends])
                x = node("Pad", x, constant(np.array([0, 0, 0, 0, 0, out - c, 0, 0], np.int64)))
            x, c, side = node("Relu", node("Add", y, x)), out, side // stride
        else:
            if not flat:
                x, flat, c = node("Flatten", x), True, c * side * side
            if bits:
                blocks = -(-c // BLOCK)
                codes = rng.integers(0, 256, (args[0], blocks, BLOCK * bits // 8), np.uint8)
                x = node("MatMulNBits", x, constant(codes), constant(np.full((args[0], blocks), 0.01, np.float32)), K=c, N=args[0],
                         bits=bits, block_size=BLOCK, accuracy_level=4, domain="com.microsoft")
            else:
                x = node("Gemm", x, constant(draw(rng, args[0], c)), constant(draw(rng, args[0], 1).ravel()), transB=1)
            x, c = node("Relu", x) if args[1] else x, args[0]
    (side, channels), _ = NETS[name]
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", channels, side, side])],
                              [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["n", 10])], weights)
    return helper.make_model(graph, ir_version=8,
                             opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])


def quantized_onnx(net, name):
    import onnx
    from onnxruntime import quantization as q
    logging.disable(logging.WARNING)

    class Noise(q.CalibrationDataReader):
        def __init__(self):
            self.left, self.rng = CALIBRATION, np.random.default_rng(2)

        def get_next(self):
            self.left -= 1
            return {"x": images(name, 1, self.rng)} if self.left >= 0 else None

    with tempfile.TemporaryDirectory() as d:
        source, target = os.path.join(d, "float.onnx"), os.path.join(d, "int8.onnx")
        onnx.save(net, source)
        q.quantize_static(source, target, Noise(), quant_format=q.QuantFormat.QDQ, per_channel=True,
                          activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QInt8)
        return onnx.load(target)


def images(name, n, rng=None):
    (side, channels), _ = NETS[name]
    return (rng or np.random.default_rng(3)).standard_normal((n, channels, side, side)).astype(np.float32)


class OnnxRuntime:
    def __init__(self, name, kind):
        net = onnx_net(name, int(kind[0]) if kind.endswith("bits") else None)
        self.name, self.model, self.sessions = name, (quantized_onnx(net, name) if kind == "int8" else net).SerializeToString(), {}

    def session(self, threads):
        import onnxruntime as ort
        if threads not in self.sessions:
            options = ort.SessionOptions()
            options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
            options.log_severity_level = 3
            self.sessions[threads] = ort.InferenceSession(self.model, options, providers=["CPUExecutionProvider"])
        return self.sessions[threads]

    def call(self, batch, threads):
        """A function that runs one batch."""
        session = self.session(threads)
        bound = session.io_binding()
        bound.bind_cpu_input("x", images(self.name, batch))
        bound.bind_output(session.get_outputs()[0].name)
        return lambda: session.run_with_iobinding(bound)


# --- PyTorch ----------------------------------------------------------------------------------------

class PyTorch:
    """int8 by the operators that torch.ao.quantization converts a net to."""

    SCALE, ZERO = 0.05, 64

    def __init__(self, name, engine):
        import torch
        self.torch, self.name = torch, name
        torch.backends.quantized.engine = engine
        torch.set_grad_enabled(False)
        ops, rng = torch.ops.quantized, np.random.default_rng(1)
        (side, c), layers = NETS[name]
        steps, s, z = [], self.SCALE, self.ZERO

        def per_channel(*shape):
            w = torch.from_numpy(draw(rng, *shape))
            scale = w.flatten(1).abs().amax(1).double() / 127
            return torch.quantize_per_channel(w, scale, torch.zeros(shape[0], dtype=torch.int64), 0, torch.qint8)

        def conv(c, out, kernel, pad, stride, relu):
            packed = ops.conv2d_prepack(per_channel(out, c, kernel, kernel), torch.zeros(out), [stride] * 2, [pad] * 2, [1, 1], 1)
            run = ops.conv2d_relu if relu else ops.conv2d
            return lambda x: run(x, packed, s, z)

        def dense(c, out, relu):
            packed = ops.linear_prepack(per_channel(out, c), torch.zeros(out))
            run = ops.linear_relu if relu else ops.linear
            return lambda x: run(x.flatten(1), packed, s, z)

        def block(c, out, stride):
            first, second = conv(c, out, 3, 1, stride, True), conv(out, out, 3, 1, 1, False)

            def run(x):
                y = second(first(x))
                if out != c:
                    x = x[:, :, ::stride, ::stride]
                    zeros = torch._empty_affine_quantized(x.shape, scale=s, zero_point=z, dtype=torch.quint8,
                                                          memory_format=torch.channels_last).fill_(0)
                    x = ops.cat([x, zeros], 1, s, z)
                return ops.add_relu(y, x, s, z)
            return run

        for kind, *args in layers:
            if kind == "conv":
                steps.append(conv(c, *args))
                c, side = args[0], (side + 2 * args[2] - args[1]) // args[3] + 1
            elif kind == "maxpool":
                steps.append(lambda x: torch.nn.functional.max_pool2d(x, 2))
                side //= 2
            elif kind == "mean":
                steps.append(lambda x: torch.nn.functional.adaptive_avg_pool2d(x, 1))
                side = 1
            elif kind == "block":
                steps.append(block(c, *args))
                c, side = args[0], side // args[1]
            else:
                steps.append(dense(c * side * side, *args))
                c, side = args[0], 1
        self.steps = steps

    def call(self, batch, threads):
        torch = self.torch
        torch.set_num_threads(threads)
        x = torch.from_numpy(images(self.name, batch)).to(memory_format=torch.channels_last)

        def run():
            y = torch.quantize_per_tensor(x, self.SCALE, self.ZERO, torch.quint8)
            for step in self.steps:
                y = step(y)
            return y.dequantize()
        return run


# --- measuring --------------------------------------------------------------------------------------

def time_calls(call, seconds):
    """Seconds of each call, after two that are not counted."""
    call()
    call()
    times, began = [], time.perf_counter()
    while len(times) < LEAST_CALLS or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return sorted(times)


def side_by_side(calls, seconds):
    """Calls per second of several threads, each with a call of its own."""
    counts = [0] * len(calls)
    for call in calls:
        call()
    end = time.perf_counter() + seconds

    def loop(i):
        while time.perf_counter() < end:
            calls[i]()
            counts[i] += 1
    threads = [threading.Thread(target=loop, args=(i,)) for i in range(len(calls))]
    began = time.perf_counter()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return sum(counts) / (time.perf_counter() - began)


def measure(peer, batch, threads, seconds):
    cpu = time.process_time()
    alone = batch == 1 and threads > 1
    times = time_calls(peer.call(batch, threads), seconds / 2 if alone else seconds)
    median = statistics.median(times)
    rate, way = batch / median, "one call"
    if alone:
        each = side_by_side([peer.call(1, 1) for _ in range(threads)], seconds / 2)
        if each > rate:
            rate, way = each, "a call per thread"
    return {"images_per_second": rate, "way": way, "median_us": 1e6 * median, "p99_us": 1e6 * times[len(times) * 99 // 100],
            "calls": len(times), "cpu_seconds": time.process_time() - cpu}


def peers():
    found = {"versions": {}, "peers": []}
    try:
        import onnx
        import onnxruntime
        found["versions"].update(onnxruntime=onnxruntime.__version__, onnx=onnx.__version__)
        found["peers"] += ["onnxruntime-float", "onnxruntime-int8"]
    except ImportError as e:
        found["onnxruntime"] = str(e)
    try:
        import torch
        found["versions"]["torch"] = torch.__version__
        found["peers"] += [f"pytorch-{e}" for e in torch.backends.quantized.supported_engines if e != "none"]
    except ImportError as e:
        found["torch"] = str(e)
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--list", action="store_true")
    p.add_argument("--net", choices=NETS)
    p.add_argument("--peer")
    o = p.parse_args()
    if o.list:
        print(json.dumps(peers()))
        return
    kind, _, which = o.peer.partition("-")
    peer = PyTorch(o.net, which) if kind == "pytorch" else OnnxRuntime(o.net, which)
    peer.call(1, 1)()
    print("{}", flush=True)
    for line in sys.stdin:
        batch, threads, seconds = line.split()
        print(json.dumps(measure(peer, int(batch), int(threads), float(seconds))), flush=True)


if __name__ == "__main__":
    main()
