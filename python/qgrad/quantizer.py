"""Quantizers on arrays."""
import ctypes
import operator
from types import MappingProxyType
from typing import Dict, Iterator, Mapping, Sequence, Union

import numpy as np

from . import _c

ROLES = {"weight": 1, "input": 2, "gradient": 4}


def _floats(x, shape, what):
    x = np.asarray(x)
    if x.dtype.kind not in "fiu":
        raise TypeError("%s has the type %s, not a real one" % (what, x.dtype))
    if x.shape != shape:
        raise ValueError("%s has the shape %s, not %s" % (what, x.shape, shape))
    return np.ascontiguousarray(x, np.float32)


class Quantizer(_c.Handle):
    """A scheme, as the options weight, input and gradient spell it, for arrays of one shape: weights [out][kh][kw][in], other
    tensors [n][h][w][c].  Two axes are [out][in] and [n][c].

        z = qgrad.Quantizer("lsq:bits=4", w.shape)
        q = z.forward(w)
        dw = z.backward(dq)                 # and z.gradients["step"]

    seed    of random draws: give the quantizers of a net different ones

    It computes what a layer computes, to the last bit, but what grows over a training (annealed-tanh, irnet, adabin, recu)
    stays as at its start.  One thread at a time may use it."""

    def __init__(self, scheme: str, shape: Union[int, Sequence[int]], role: str = "weight", seed: int = 1):
        self._z, self._trains = None, False
        if not isinstance(scheme, str):
            raise TypeError("scheme is of the type %s, not a string" % type(scheme).__name__)
        if role not in ROLES:
            raise ValueError("role is %r, not one of %s" % (role, ", ".join(ROLES)))
        shape = shape if np.iterable(shape) else (shape,)
        self.scheme, self.role, self.shape = scheme, role, tuple(operator.index(n) for n in shape)
        if not 1 <= len(self.shape) <= 4 or not all(0 < n < 2**31 for n in self.shape):
            raise ValueError("shape is %s, but arrays have 1 to 4 axes, each of at least 1" % (self.shape,))
        s = self.shape
        four = s if len(s) == 4 else s[:1] + (1,) * (4 - len(s)) + s[1:]
        self._z = _c.pointer(_c.lib.qg_quantizer_parse(_c.c_string(scheme.encode()), ROLES[role], _c.Shape(*four)))
        self._seed = operator.index(seed) % 2**64
        self._at(0)

    def __del__(self):
        if getattr(self, "_z", None):
            _c.lib.qg_quantizer_free(self._z)

    def __repr__(self):
        return "qgrad.Quantizer(%r, %r, %r)" % (self.scheme, self.shape, self.role)

    def _at(self, step):
        """The step of the next forward."""
        _c.lib.qg_quantizer_seed(self._z, self._seed, step)

    def forward(self, x, train: bool = True) -> np.ndarray:
        """q(x).  With train, a gradient may be asked for, and observed ranges change."""
        x = _floats(x, self.shape, "x")
        y = np.empty_like(x)
        _c.check(_c.lib.qg_quantizer_forward(self._z, 0 if train else 1, x.ctypes.data, y.ctypes.data))
        self._trains = train
        return y

    def backward(self, dy) -> np.ndarray:
        """dL/dx for dL/dq = dy; once after each forward."""
        if not self._trains:
            raise RuntimeError("%r: backward comes once after each forward with train" % self)
        dy, self._trains = _floats(dy, self.shape, "dy"), False
        dx = np.empty_like(dy)
        _c.check(_c.lib.qg_quantizer_backward(self._z, dy.ctypes.data, dx.ctypes.data))
        return dx

    def _entries(self) -> Iterator[_c.QuantizerEntry]:
        i = 0
        while True:
            entry = _c.lib.qg_quantizer_learned(self._z, i)
            if not entry.n:
                return
            yield entry
            i += 1

    @property
    def learned(self) -> Mapping[str, np.ndarray]:
        """What the scheme learns or tracks, by name: arrays that may be written, z.learned["step"][:] = 0.1.  Of a scheme with
        an entry "seen", the first tensor decides unless it is 1."""
        return MappingProxyType({e.name.decode(): self._array(e) for e in self._entries()})

    def _array(self, entry):
        memory = (ctypes.c_float * entry.n).from_address(ctypes.addressof(entry.value.contents))
        memory.owner = self             # it lives while the array does
        return np.frombuffer(memory, np.float32)

    @property
    def gradients(self) -> Dict[str, np.ndarray]:
        """Gradients of what is learned, of the last backward; without what is only tracked."""
        return {e.name.decode(): np.ctypeslib.as_array(e.gradient, (e.n,)).copy() for e in self._entries() if e.gradient}
