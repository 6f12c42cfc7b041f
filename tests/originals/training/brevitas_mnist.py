"""Brevitas' BNN-PYNQ examples on MNIST, trained by Brevitas and by qgrad from the same weights.

    brevitas_mnist.py [--programs DIR] [--data-dir DIR] [--seeds N] [--nets tfc_1w1a,..] [--eps E]

The nets are those of brevitas_examples.bnn_pynq: the image as 2 x - 1, quantized like every input; three hidden
dense layers, each with batch norm; ten classes and a TensorNorm; squared hinge loss, Adam at 0.02, batch 100, and
weights clipped to [-1, 1] after each step, as its trainer does.  Dropout is set to 0 on both sides, because the two
draw differently.

Where the conventions differ:
    dense layers  [out][in] on both sides; behind the image qgrad's file has [out][28][28][1], the same numbers.
    batch norm    both track the variance unbiased, with momentum 0.1 of the newest; epsilon 1e-5, and 1e-4 in
                  TensorNorm.
    Adam          the same rule on both sides; epsilon 1e-8.  PyTorch has 1 - beta in double.
    2 bits        Brevitas clips codes after rounding, so a gradient passes to |x| < 1.5; qg_unit's own surrogate
                  ends at 1, and brevitas_mnist.c gives it another one.

--eps replaces Adam's epsilon on both sides.  With 1e-4 the roundings that stand in for gradients of 0 move no weight:
those of the pixels that are alike in all images of a batch, whose effect batch norm takes out again.
"""
import os
import sys

import brevitas
import numpy as np
import torch
from brevitas_examples.bnn_pynq.models import model_with_cfg
from brevitas_examples.bnn_pynq.models.losses import SqrHingeLoss

import parity

BATCH = 100
NETS = ("tfc_1w1a", "tfc_1w2a", "tfc_2w2a", "sfc_1w1a", "lfc_1w1a")
FIELDS = {"weight": "gamma", "bias": "beta", "running_mean": "running_mean", "running_var": "running_var"}


def declare(net):
    model, config = model_with_cfg(net, False)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model.train(), config


def arrays(model):
    """Everything the net holds, under qgrad's names and in its layouts."""
    out, count = {}, {"fc": 0, "bn": 0}
    for module in model.features:
        if isinstance(module, torch.nn.Linear):
            count["fc"] += 1
            w = module.weight.detach().numpy()
            out[f"fc{count['fc']}.weight"] = w.reshape(-1, 28, 28, 1) if count["fc"] == 1 else w
        elif hasattr(module, "running_var"):
            count["bn"] += 1
            for theirs, ours in FIELDS.items():
                out[f"bn{count['bn']}.{ours}"] = getattr(module, theirs).detach().numpy()
    return {key: np.array(a) for key, a in out.items()}


class Brevitas:
    peer = "Brevitas"

    def __init__(self, o, net):
        self.net, self.eps = net, o.eps
        self.name = f"Brevitas {brevitas.__version__} (PyTorch {torch.__version__}), {net.upper()}"
        self.name += "" if o.eps == 1e-8 else f", Adam's epsilon {o.eps:g} on both sides"
        _, config = declare(net)
        width = config.get("MODEL", "OUT_FEATURES").strip("[]").split(",")[0]
        self.bits = config.getint("QUANT", "WEIGHT_BIT_WIDTH")
        self.command = [os.path.join(o.programs, "brevitas_mnist"), width, str(self.bits),
                        config.get("QUANT", "ACT_BIT_WIDTH"), f"{o.eps:g}"]
        images, labels = parity.mnist(o.data_dir, BATCH)
        self.batches = {"images": images.astype(np.float32) / np.float32(255), "labels": labels}

    def train(self, seed, double):
        torch.manual_seed(seed)
        model, _ = declare(self.net)
        dtype = torch.float64 if double else torch.float32
        model = model.to(dtype)
        adam, hinge = torch.optim.Adam(model.parameters(), lr=0.02, eps=self.eps), SqrHingeLoss()
        losses, held = [], []
        for x, y in zip(self.batches["images"], self.batches["labels"]):
            held.append(arrays(model))
            target = -torch.ones(BATCH, 10, dtype=dtype)
            target[range(BATCH), y.astype(int)] = 1
            loss = hinge(model(torch.from_numpy(x).permute(0, 3, 1, 2).to(dtype)), target)
            adam.zero_grad()
            loss.backward()
            adam.step()
            model.clip_weights(-1, 1)
            losses.append(loss.item())
        return losses, held

    def code(self, w):
        return w >= 0 if self.bits == 1 else np.rint(w)


if __name__ == "__main__":
    ap = parity.options("Brevitas' BNN-PYNQ examples, trained by Brevitas and by qgrad")
    ap.add_argument("--nets", default=",".join(NETS))
    ap.add_argument("--eps", type=float, default=1e-8)
    options = ap.parse_args()
    fine = [parity.compare(Brevitas(options, net), options.seeds) for net in options.nets.split(",")]
    sys.exit(0 if all(fine) else "brevitas_mnist.py: the losses part without a known reason")
