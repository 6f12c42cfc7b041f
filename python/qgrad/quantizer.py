"""Quantizers on arrays."""
from typing import Dict, Iterator, Sequence

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


class Quantizer:
    """A scheme, as the options weight, input and gradient spell it, for arrays of one shape: weights [out][kh][kw][in], other
    tensors [n][h][w][c].  Two axes are [out][in] and [n][c].

        z = qgrad.Quantizer("lsq:bits=4", w.shape)
        q = z.forward(w)
        dw = z.backward(dq)                 # and z.gradients["step"]

    It computes what a layer computes, to the last bit.  One thread at a time may use it."""

    def __init__(self, scheme: str, shape: Sequence[int], role: str = "weight"):
        self._z = None
        if not isinstance(scheme, str):
            raise TypeError("scheme is of the type %s, not a string" % type(scheme).__name__)
        if role not in ROLES:
            raise ValueError("role is %r, not one of %s" % (role, ", ".join(ROLES)))
        self.scheme, self.role, self.shape = scheme, role, tuple(int(n) for n in shape)
        if not 1 <= len(self.shape) <= 4:
            raise ValueError("shape is %s, but arrays have 1 to 4 axes" % (self.shape,))
        s = self.shape
        four = s if len(s) == 4 else s[:1] + (1,) * (4 - len(s)) + s[1:]
        self._z = _c.pointer(_c.lib.qg_quantizer_parse(scheme.encode(), ROLES[role], _c.Shape(*four)))

    def __del__(self):
        if getattr(self, "_z", None):
            _c.lib.qg_quantizer_free(self._z)

    def __repr__(self):
        return "qgrad.Quantizer(%r, %r, %r)" % (self.scheme, self.shape, self.role)

    def forward(self, x, train: bool = True) -> np.ndarray:
        """q(x).  With train, a gradient may be asked for, and observed ranges change."""
        x = _floats(x, self.shape, "x")
        y = np.empty_like(x)
        _c.check(_c.lib.qg_quantizer_forward(self._z, 0 if train else 1, x.ctypes.data, y.ctypes.data))
        return y

    def backward(self, dy) -> np.ndarray:
        """dL/dx for dL/dq = dy; once after each forward."""
        dy = _floats(dy, self.shape, "dy")
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
    def learned(self) -> Dict[str, np.ndarray]:
        """What the scheme learns or tracks, by name: arrays that may be written, and live as long as this object."""
        return {e.name.decode(): np.ctypeslib.as_array(e.value, (e.n,)) for e in self._entries()}

    @property
    def gradients(self) -> Dict[str, np.ndarray]:
        """Gradients of what is learned, of the last backward; without what is only tracked."""
        return {e.name.decode(): np.ctypeslib.as_array(e.gradient, (e.n,)).copy() for e in self._entries() if e.gradient}
