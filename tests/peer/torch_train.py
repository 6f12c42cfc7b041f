#!/usr/bin/python3
"""Throughput of PyTorch on the nets of qgrad's benchmarks: the bar that tests/bench.py measures.

    torch_train.py --net lenet5|vgg7|resnet20|resnet18|mobilenet [--quant float|twn|ttq|dorefa|int8] [--batch N]
                   [--channels-last] [--compile] [--forward] [--threads N] [--seconds S] [--data-dir DIR]
                   [--json | --serve]

A step is what `qgrad bench train` calls a step: take a batch, forward, loss, backward, SGD with
momentum and decay; with --forward, evaluation without gradients.  The figure is the median step.
--serve measures once for each number of seconds that comes in as a line, so that a net is built and
compiled once for many measurements; {} says that the first steps are done.

Needs PyTorch and NumPy (Debian: python3-torch, python3-numpy), and for --compile g++.  PyTorch gets every
advantage it has without rewriting the net: fused observers in int8, gradients set to None, no copies to
keep for later.  Memory for activations is requested and returned in every step; with these three variables
the C library keeps it, which is worth up to a third:
    MALLOC_MMAP_THRESHOLD_=4000000000 MALLOC_TRIM_THRESHOLD_=16000000000 MALLOC_TOP_PAD_=268435456
"""
import argparse
import json
import os
import resource
import statistics
import sys
import time
import warnings

warnings.filterwarnings("ignore")
import numpy as np                                                  # noqa: E402
import torch                                                        # noqa: E402
from torch import nn                                                # noqa: E402
from torch.autograd import Function                                 # noqa: E402
from torch.nn import functional as F                                # noqa: E402


# --- quantizers -----------------------------------------------------------------------------------

class Ternary(Function):
    """TWN: {-a, 0, +a}, threshold 0.7 mean|w|; the gradient passes."""

    @staticmethod
    def forward(ctx, w):
        size = w.abs()
        keep = size > 0.7 * size.mean()
        scale = (size * keep).sum() / keep.sum().clamp(min=1)
        return scale * torch.sign(w) * keep

    @staticmethod
    def backward(ctx, dq):
        return dq


class TrainedTernary(Function):
    """TTQ: {-wn, 0, +wp}, both learned, threshold 0.05 max|w|."""

    @staticmethod
    def forward(ctx, w, wp, wn):
        threshold = 0.05 * w.abs().max()
        above, below = (w > threshold).float(), (w < -threshold).float()
        ctx.save_for_backward(above, below, wp, wn)
        return wp * above - wn * below

    @staticmethod
    def backward(ctx, dq):
        above, below, wp, wn = ctx.saved_tensors
        dw = dq * (wp * above + wn * below + (1 - above - below))
        return dw, (dq * above).sum(), -(dq * below).sum()


class Binary(Function):
    """DoReFa with one bit: {-a, +a}, a = mean|w|; the gradient passes."""

    @staticmethod
    def forward(ctx, w):
        return torch.where(w >= 0, 1.0, -1.0) * w.abs().mean()

    @staticmethod
    def backward(ctx, dq):
        return dq


class TwoBits(Function):
    """DoReFa's activation: x clipped to 0..1, in thirds; the gradient passes where x is inside."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.round(x.clamp(0, 1) * 3) / 3

    @staticmethod
    def backward(ctx, dq):
        x, = ctx.saved_tensors
        return dq * ((x >= 0) & (x <= 1))


class Weight(nn.Module):
    """The weight quantizer of one product.  TWN quantizes the first and last one too."""

    def __init__(self, quant, ends):
        super().__init__()
        self.quant = quant if quant == "twn" or not ends else "float"
        if self.quant == "ttq":
            self.wp = nn.Parameter(torch.tensor(0.1))
            self.wn = nn.Parameter(torch.tensor(0.1))

    def forward(self, w):
        if self.quant == "float":
            return w
        if self.quant == "ttq":
            q = TrainedTernary.apply(w, self.wp, self.wn)
        else:
            q = (Ternary if self.quant == "twn" else Binary).apply(w)
        if q.stride() != w.stride():    # with one channel the two layouts look alike, and oneDNN cares
            q = torch.empty_strided(w.size(), w.stride()).copy_(q)
        return q


class QuantConv(nn.Conv2d):
    def __init__(self, *args, quant, ends, **named):
        super().__init__(*args, bias=False, **named)
        self.quant = Weight(quant, ends)

    def forward(self, x):
        return F.conv2d(x, self.quant(self.weight), None, self.stride, self.padding, groups=self.groups)


class QuantLinear(nn.Linear):
    def __init__(self, *args, quant, ends):
        super().__init__(*args)
        self.quant = Weight(quant, ends)

    def forward(self, x):
        return F.linear(x, self.quant(self.weight), self.bias)


class QuantAct(nn.Module):
    def forward(self, x):
        return TwoBits.apply(x)


# --- nets -----------------------------------------------------------------------------------------

class Parts:
    """Layers by kind.  In float and int8 they are PyTorch's own, so that its fusion finds them."""

    def __init__(self, quant):
        self.quant = quant
        self.own = quant in ("twn", "ttq", "dorefa")

    def conv(self, *args, ends=False, **named):
        if self.own:
            return QuantConv(*args, quant=self.quant, ends=ends, **named)
        return nn.Conv2d(*args, bias=False, **named)

    def linear(self, *args, ends=False):
        return QuantLinear(*args, quant=self.quant, ends=ends) if self.own else nn.Linear(*args)

    def act(self):
        return QuantAct() if self.quant == "dorefa" else nn.ReLU()


def lenet5(p):
    return nn.Sequential(
        p.conv(1, 32, 5, ends=True), nn.BatchNorm2d(32), p.act(), nn.MaxPool2d(2),
        p.conv(32, 64, 5), nn.BatchNorm2d(64), p.act(), nn.MaxPool2d(2), nn.Flatten(),
        p.linear(1024, 512), nn.BatchNorm1d(512), p.act(), p.linear(512, 10, ends=True))


def vgg7(p):
    layers, before = [], 3
    for i, channels in enumerate((128, 128, 256, 256, 512, 512)):
        layers += [p.conv(before, channels, 3, padding=1, ends=i == 0), nn.BatchNorm2d(channels), p.act()]
        layers += [nn.MaxPool2d(2)] if i % 2 else []
        before = channels
    return nn.Sequential(*layers, nn.Flatten(), p.linear(8192, 1024), nn.BatchNorm1d(1024), p.act(),
                         p.linear(1024, 10, ends=True))


class Block(nn.Module):
    """Two convolutions; where the channels change, the shortcut is every second pixel or, projected, a convolution."""

    def __init__(self, p, before, channels, stride, projected=False):
        super().__init__()
        self.conv1 = p.conv(before, channels, 3, stride=stride, padding=1)
        self.norm1 = nn.BatchNorm2d(channels)
        self.act1 = p.act()
        self.conv2 = p.conv(channels, channels, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(channels)
        self.act2 = p.act()
        self.pad = (channels - before) // 2
        self.shortcut = None
        if self.pad and projected:
            self.shortcut = nn.Sequential(p.conv(before, channels, 1, stride=stride), nn.BatchNorm2d(channels))

    def forward(self, x):
        y = self.norm2(self.conv2(self.act1(self.norm1(self.conv1(x)))))
        if self.shortcut is not None:
            x = self.shortcut(x)
        elif self.pad:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.pad, self.pad))
        return self.act2(y + x)


def residual(p, stages, blocks, projected):
    before = stages[0]
    layers = [p.conv(3, before, 3, padding=1, ends=True), nn.BatchNorm2d(before), p.act()]
    for channels in stages:
        for _ in range(blocks):
            layers.append(Block(p, before, channels, 2 if channels != before else 1, projected))
            before = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), p.linear(before, 10, ends=True))


def resnet20(p):
    return residual(p, (16, 32, 64), 3, False)


def resnet18(p):
    return residual(p, (64, 128, 256, 512), 2, True)


def mobilenet(p):
    """Depthwise 3x3 and pointwise 1x1 convolutions in turn; the size halves where the channels double, but once."""
    layers, before = [p.conv(3, 32, 3, padding=1, ends=True), nn.BatchNorm2d(32), p.act()], 32
    for channels, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)):
        layers += [p.conv(before, before, 3, stride=stride, padding=1, groups=before), nn.BatchNorm2d(before), p.act(),
                   p.conv(before, channels, 1), nn.BatchNorm2d(channels), p.act()]
        before = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), p.linear(before, 10, ends=True))


NETS = {"lenet5": lenet5, "vgg7": vgg7, "resnet20": resnet20, "resnet18": resnet18, "mobilenet": mobilenet}


def fake_quantize(net):
    """int8 training as PyTorch offers it: conv, norm and relu fused, observers fused with quantizers."""
    from torch.ao import quantization
    groups, kinds = [], (nn.Conv2d, nn.BatchNorm2d, nn.ReLU)
    for i in range(len(net) - 2):
        if all(isinstance(net[i + k], kind) for k, kind in enumerate(kinds)):
            groups.append([str(i), str(i + 1), str(i + 2)])
    for name, module in net.named_children():
        if isinstance(module, Block):
            groups += [[f"{name}.conv1", f"{name}.norm1", f"{name}.act1"], [f"{name}.conv2", f"{name}.norm2"]]
            groups += [[f"{name}.shortcut.0", f"{name}.shortcut.1"]] if module.shortcut is not None else []
    net = quantization.fuse_modules_qat(net, groups)
    net.qconfig = quantization.get_default_qat_qconfig("fbgemm")
    return quantization.prepare_qat(net)


# --- measuring ------------------------------------------------------------------------------------

def mnist(folder, batch):
    """The whole set as bytes, as training would hold it, and a hundred batches of it as floats."""
    def read(name, head):
        return np.fromfile(os.path.join(folder, name), np.uint8)[head:]
    images, labels = read("train-images-idx3-ubyte", 16).reshape(-1, 1, 28, 28), read("train-labels-idx1-ubyte", 8)
    n = min(100, len(images) // batch)
    x = torch.tensor(images[:n * batch].astype(np.float32) / 255 - 0.13).view(n, batch, 1, 28, 28)
    return x, torch.tensor(labels[:n * batch].astype(np.int64)).view(n, batch), (images, labels)


def noise(shape, batch):
    return torch.randn(2, batch, *shape), torch.randint(0, 10, (2, batch)), None


def options():
    ap = argparse.ArgumentParser(description="throughput of PyTorch on qgrad's nets")
    ap.add_argument("--net", required=True, choices=tuple(NETS))
    ap.add_argument("--quant", default="float", choices=("float", "twn", "ttq", "dorefa", "int8"))
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--channels-last", action="store_true")
    ap.add_argument("--compile", action="store_true", help="torch.compile")
    ap.add_argument("--forward", action="store_true")
    ap.add_argument("--threads", type=int, default=0, help="0: one per core")
    ap.add_argument("--seconds", type=float, default=6.0)
    ap.add_argument("--data-dir", default="datasets/mnist", help="of lenet5; noise if it is not there")
    ap.add_argument("--json", action="store_true")
    ap.add_argument("--serve", action="store_true")
    return ap.parse_args()


def build(o):
    net = NETS[o.net](Parts(o.quant)).train()
    if o.quant == "int8":
        net = fake_quantize(net)
    if o.channels_last:
        net = net.to(memory_format=torch.channels_last)
    net = net.eval() if o.forward else net
    return torch.compile(net) if o.compile else net


def stepper(o, net, xs, ys):
    """A function that does step i."""
    sgd = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)

    def step(i):
        x, y = xs[i % len(xs)], ys[i % len(ys)]
        if o.channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        if o.forward:
            with torch.no_grad():
                return net(x)
        sgd.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        sgd.step()
        return loss
    return step


def busy():
    r = resource.getrusage(resource.RUSAGE_SELF)
    return r.ru_utime + r.ru_stime


def measure(o, step, seconds):
    times, began, own = [], time.perf_counter(), busy()
    while time.perf_counter() - began < seconds or len(times) < 3:
        start = time.perf_counter()
        last = step(len(times))
        times.append(time.perf_counter() - start)
    if not torch.isfinite(last).all():
        sys.exit("torch_train.py: the result is not finite")
    median = statistics.median(times)
    return {
        "torch": torch.__version__, "net": o.net, "quant": o.quant, "batch": o.batch,
        "channels_last": o.channels_last, "compile": o.compile, "forward": o.forward,
        "threads": torch.get_num_threads(), "images_per_second": o.batch / median, "ms_per_step": 1e3 * median,
        "steps": len(times), "cpu_seconds": busy() - own,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def main():
    o = options()
    torch.set_num_threads(o.threads or os.cpu_count())
    torch.manual_seed(1)
    if o.net == "lenet5" and os.path.isdir(o.data_dir):
        xs, ys, _held = mnist(o.data_dir, o.batch)
    else:
        xs, ys, _held = noise((1, 28, 28) if o.net == "lenet5" else (3, 32, 32), o.batch)
    step = stepper(o, build(o), xs, ys)
    for i in range(5):
        step(i)
    if o.serve:
        print("{}", flush=True)
        for line in sys.stdin:
            print(json.dumps(measure(o, step, float(line))), flush=True)
        return
    result = measure(o, step, o.seconds)
    if o.json:
        print(json.dumps(result))
    else:
        print(f"{o.net} {o.quant}, batch {o.batch}, {'NHWC' if o.channels_last else 'NCHW'}, "
              f"{'compiled, ' if o.compile else ''}"
              f"{result['threads']} threads{', forward only' if o.forward else ''}: "
              f"{result['images_per_second']:.1f} images/s, {result['ms_per_step']:.3f} ms per step "
              f"(median of {result['steps']}), {result['peak_rss_bytes'] / 2**20:.0f} MiB at most")


if __name__ == "__main__":
    main()
