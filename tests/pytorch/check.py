"""Scores of nets with PyTorch's weights: check.py PROGRAM, with $QGRAD_LIB.  Ends with "N passed, M failed".

Each net has random weights and statistics, is saved with safetensors and imported.  Its scores in PyTorch, and those of the
packed file that qgrad exports, may differ by the roundings of float32 only: see LIMIT."""
import json
import os
import re
import subprocess
import sys
import tempfile
import traceback

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(root, "python"))
import qgrad  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])

# Of the largest score.  Sums of a few thousand floats in another order differ in the seventh digit.
LIMIT = 1e-5


class ResNet20(nn.Module):
    """ResNet-20 for CIFAR-10 with shortcuts of type A: every second pixel, and new channels of zeros, half of them first."""

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs)
            self.stride, self.new = stride, outputs - inputs

        def forward(self, x):
            y = torch.relu(self.bn1(self.conv1(x)))
            y = self.bn2(self.conv2(y))
            x = nn.functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.new // 2, self.new - self.new // 2))
            return torch.relu(x + y)

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        for i, (inputs, outputs, stride) in enumerate([(16, 16, 1), (16, 32, 2), (32, 64, 2)]):
            blocks = [self.Block(inputs if k == 0 else outputs, outputs, stride if k == 0 else 1) for k in range(3)]
            setattr(self, "layer%d" % (i + 1), nn.Sequential(*blocks))
        self.linear = nn.Linear(64, 10)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(x.mean((2, 3)))


class LeNet5(nn.Module):
    """The names of the layers are those of qgrad."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 32, 5, bias=False), nn.BatchNorm2d(32)
        self.conv2, self.bn2 = nn.Conv2d(32, 64, 5, bias=False), nn.BatchNorm2d(64)
        self.fc1, self.bn3 = nn.Linear(1024, 512, bias=False), nn.BatchNorm1d(512)
        self.fc2 = nn.Linear(512, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 2)
        x = nn.functional.max_pool2d(torch.relu(self.bn2(self.conv2(x))), 2)
        return self.fc2(torch.relu(self.bn3(self.fc1(x.flatten(1)))))


def depthwise():
    def block(inputs, outputs, stride):
        return [nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False), nn.BatchNorm2d(inputs), nn.ReLU(),
                nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]

    return nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), *block(16, 32, 1),
                         *block(32, 64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def biased():
    """Biases before batch norms, a PReLU, groups, and two dense layers, the first of which reads an image."""
    return nn.Sequential(nn.Conv2d(3, 12, 5), nn.BatchNorm2d(12, eps=1e-3), nn.PReLU(12), nn.MaxPool2d(2),
                         nn.Conv2d(12, 24, 3, padding=1, groups=4), nn.BatchNorm2d(24), nn.ReLU(), nn.AvgPool2d(2),
                         nn.Conv2d(24, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(200, 32), nn.BatchNorm1d(32), nn.ReLU(),
                         nn.Linear(32, 10))


def page(of):
    """The net of docs/from-pytorch.md, or its text."""
    with open(os.path.join(root, "docs", "from-pytorch.md"), encoding="utf-8") as file:
        text = file.read()
    if of == "model":
        return re.search(r"import --model (\S+)", text).group(1)
    here, names = os.getcwd(), {}
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        try:
            exec(re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1), names)
            assert os.path.exists("net.safetensors")
        finally:
            os.chdir(here)
    return names["net"]


MNIST, CIFAR10 = ([0.1307], [0.3081]), ([0.4914, 0.4822, 0.4465], [0.247, 0.2435, 0.2616])

NETS = {
    "the page": (lambda: page("net"), page("model"), (28, 28, 1), MNIST, []),
    "LeNet-5": (LeNet5, "lenet5", (28, 28, 1), MNIST, ["--classes", "10"]),
    "LeNet-5 as text": (LeNet5, "32C5p0-BN-R-MP2-64C5p0-BN-R-MP2-512FC-BN-R-10", (28, 28, 1), ([0.5], [0.5]), []),
    "ResNet-20": (ResNet20, "resnet20", (32, 32, 3), CIFAR10, ["--classes", "10"]),
    "depthwise": (depthwise, "16C3-BN-R-DW3-BN-R-32C1-BN-R-DW3s2-BN-R-64C1-BN-R-GAP-10", (32, 32, 3), CIFAR10, []),
    "biased": (biased, "12C5p0-BN(eps=1e-3)-PR-MP2-24C3g4-BN-R-AP2-8C3p0-R-32FC-BN-R-10", (32, 32, 3), CIFAR10, []),
}


def randomize(net, seed):
    """Weights that keep the size of activations, and statistics that matter."""
    torch.manual_seed(seed)
    for name, p in net.state_dict().items():
        if p.dtype != torch.float32:
            continue
        if name.endswith("running_var"):
            p.uniform_(0.5, 2)
        elif p.dim() == 1:
            p.uniform_(0.5, 1.5) if name.endswith("weight") else p.normal_(0, 0.3)
        else:
            p.normal_(0, (2 / p[0].numel()) ** 0.5)
    return net.eval()


def numbers(values):
    return "+".join(str(v) for v in values)


def check(make, model, shape, statistics, options, directory):
    net = randomize(make(), 1)
    images = np.random.default_rng(2).integers(0, 256, (32, *shape), "u1")
    weights, run, packed = (os.path.join(directory, name) for name in ("net.safetensors", "run", "net.qgrad"))
    save_file(net.state_dict(), weights)
    mean, deviation = statistics
    size = "x".join(str(n) for n in shape)
    for command in (["import", "--model", model, "--image", size, "--weights", weights, "--out", run, "--normalise",
                     "channel:mean=%s,deviation=%s" % (numbers(mean), numbers(deviation)), "--json", *options],
                    ["export", "--run", run, "-o", packed, "--json"]):
        done = subprocess.run([PROGRAM, *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        json.loads(done.stdout)
    x = torch.from_numpy(images).permute(0, 3, 1, 2).float().div(255)       # ToTensor, then Normalize
    x = (x - torch.tensor(mean).view(-1, 1, 1)) / torch.tensor(deviation).view(-1, 1, 1)
    with torch.no_grad():
        theirs = net(x).numpy()
    ours = qgrad.Net(packed).predict(images).reshape(theirs.shape)
    error, size = np.abs(ours - theirs).max(), np.abs(theirs).max()
    assert error <= LIMIT * size, "scores up to %g differ by up to %g" % (size, error)
    return "%-16s scores up to %.3g, differences up to %.2g" % ("", size, error)


def main():
    failed = 0
    for name, net in NETS.items():
        with tempfile.TemporaryDirectory() as directory:
            try:
                print("%-16s%s" % (name, check(*net, directory).strip().rjust(48)))
            except Exception:
                failed += 1
                print("%s: FAILED\n%s" % (name, traceback.format_exc()))
    print("PyTorch %s: %d passed, %d failed" % (torch.__version__, len(NETS) - failed, failed))
    return failed != 0


sys.exit(main())
