"""Quantizers as modules of PyTorch, on the CPU, with the values and gradients of the library, to the last bit.

    import qgrad.torch
    self.quantize = qgrad.torch.Quantizer("ttq", self.conv.weight.shape)
    y = torch.nn.functional.conv2d(x, self.quantize(self.conv.weight))"""
import itertools
from typing import Optional, Sequence

import numpy as np
import torch

from . import quantizer


_made = itertools.count()


def _to_c(x):
    """Channels last: [out][in][kh][kw] to [out][kh][kw][in], [n][c][h][w] to [n][h][w][c]."""
    return x.movedim(1, -1).contiguous() if x.dim() > 2 else x.contiguous()


def _from_c(x):
    return x.movedim(-1, 1) if x.dim() > 2 else x


class _Apply(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, module, *learned):
        channels_last = _to_c(x.detach())
        z = module._quantizer(tuple(channels_last.shape))
        z._at(int(module.forwards))
        module._give(z)
        y = z.forward(channels_last.numpy(), train=module.training)
        module._take(z)
        z.calls += 1
        module.forwards += module.training
        ctx.z, ctx.call, ctx.module, ctx.trains = z, z.calls, module, module.training
        return _from_c(torch.from_numpy(y))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dy):
        if not ctx.trains:
            raise RuntimeError("%r: its forward in eval() has no gradient" % ctx.module)
        if ctx.call != ctx.z.calls:
            raise RuntimeError("%r: its backward comes after another forward; use a Quantizer for each tensor" % ctx.module)
        dx = ctx.z.backward(_to_c(dy).numpy())
        gradients = ctx.z.gradients
        return (_from_c(torch.from_numpy(dx)), None, *(torch.from_numpy(gradients[name]) for name, _ in ctx.module.named_parameters()))


class Quantizer(torch.nn.Module):
    """A scheme, as the options weight, input and gradient spell it.  What it learns are parameters of the module; what it
    tracks are buffers.

    shape   of the tensor, as PyTorch has it: a weight [out][in][kh][kw] or [out][in], an input [n][c][h][w] or [n][c] with any n
    role    "weight", "input" or "gradient"
    seed    of random draws; None: follows from torch.initial_seed() and the number of modules made before

    Learned values begin as the scheme says, with the first tensor.  Then, in eval(), nothing changes, and there is no gradient.
    A buffer called seen says whether they have begun: set it to 1 with values of your own.  The buffer forwards counts those in
    train(), on which random draws and delays depend.  What
    bnn and binaryconnect do to latent weights after a step is up to the program: weight.data.clamp_(-1, 1)."""

    def __init__(self, scheme: str, shape: Sequence[int], role: str = "weight", seed: Optional[int] = None):
        super().__init__()
        self.scheme, self.role, self._of = scheme, role, None
        self._seed = torch.initial_seed() + (next(_made) << 32) if seed is None else seed
        self.shape = shape = tuple(shape)
        z = self._quantizer(shape[:1] + shape[2:] + shape[1:2])
        trained = {e.name.decode() for e in z._entries() if e.gradient}
        for name, value in z.learned.items():
            value = torch.from_numpy(value.copy())
            if name in trained:
                self.register_parameter(name, torch.nn.Parameter(value))
            else:
                self.register_buffer(name, value)
        self.register_buffer("forwards", torch.zeros((), dtype=torch.int64))

    def _quantizer(self, shape):
        """That for tensors of this shape, channels last.  One at a time: each holds tensors of its shape."""
        if self._of is None or self._of.shape != shape:
            self._of = quantizer.Quantizer(self.scheme, shape, self.role, self._seed)
            self._of.calls = 0
        return self._of

    def _give(self, z):
        for name, value in z.learned.items():
            value[:] = getattr(self, name).detach().numpy()

    def _take(self, z):
        for name, value in z.learned.items():
            mine = getattr(self, name).detach()
            if not np.array_equal(value, mine.numpy()):
                mine.copy_(torch.from_numpy(value))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not isinstance(x, torch.Tensor):
            raise TypeError("%r: x is of the type %s, not a tensor" % (self, type(x).__name__))
        if x.dtype != torch.float32 or x.device.type != "cpu":
            raise TypeError("%r: x is %s on %s, but quantizers compute in float32 on the cpu" % (self, x.dtype, x.device))
        expected = self.shape if self.role == "weight" else tuple(x.shape[:1]) + self.shape[1:]
        if tuple(x.shape) != expected:
            raise ValueError("%r: x has the shape %s" % (self, tuple(x.shape)))
        return _Apply.apply(x, self, *self.parameters(recurse=False))

    def _load_from_state_dict(self, state, prefix, *arguments):
        state.setdefault(prefix + "forwards", torch.zeros((), dtype=torch.int64))       # earlier states lack it
        super()._load_from_state_dict(state, prefix, *arguments)

    def extra_repr(self) -> str:
        return "%r, %s, %r" % (self.scheme, self.shape, self.role)

    def __getstate__(self):
        return {**self.__dict__, "_of": None}           # for copy and pickle: the library's quantizers are made anew
