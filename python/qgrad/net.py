"""Packed nets, by the engine."""
import ctypes
import os
from typing import Optional

import numpy as np

from . import _c


def _aligned(n):
    memory = np.empty(n + 64, np.uint8)
    return memory[-memory.ctypes.data % 64:][:n]


class Net:
    """A packed net, from a path or from bytes: what Run.export and `qgrad export` write.

        net = qgrad.Net("net.qg")
        labels = net.predict(images).argmax(1)"""

    def __init__(self, file):
        self._name = "the net" if isinstance(file, (bytes, bytearray)) else repr(os.fspath(file))
        if not isinstance(file, (bytes, bytearray)):
            with open(os.fspath(file), "rb") as f:
                file = f.read()
        self._file = bytes(file)
        image = np.frombuffer(self._file, np.uint8)
        size, net = ctypes.c_size_t(), ctypes.c_void_p()
        self._check(_c.lib.qg_infer_size(image.ctypes.data, len(image), ctypes.byref(size)))
        self._memory = _aligned(size.value)
        self._check(_c.lib.qg_infer_load(image.ctypes.data, len(image), self._memory.ctypes.data, size.value, ctypes.byref(net)))
        self._net = net.value
        shape = _c.lib.qg_infer_input(self._net)
        self.shape = (shape.h, shape.w, shape.c)
        self.classes = _c.lib.qg_infer_scores(self._net)

    def __reduce__(self):
        return Net, (self._file,)           # for copy and pickle

    def _check(self, status):
        if status:
            kind = {4: MemoryError, 6: FloatingPointError, 7: RuntimeError}.get(status, ValueError)
            raise kind("%s: %s" % (self._name, _c.lib.qg_infer_message(status).decode()))

    def note(self, key: str) -> Optional[str]:
        """A note of the file, such as "class-names", "cat/dog"."""
        text = _c.lib.qg_infer_note(self._net, _c.c_string(key.encode()))
        return None if text is None else text.decode()

    def predict(self, x, normalised: bool = False) -> np.ndarray:
        """Scores [n][classes] of images [n][h][w][c], uint8 or floats in 0..1 (see fit), which the net normalises.  With
        normalised, x are finite floats that are normalised already."""
        if normalised:
            x = np.asarray(x)
            if x.dtype.kind != "f":
                raise TypeError("x has the type %s, but normalised images are floats" % x.dtype)
            if x.ndim:
                _c.int32(len(x), "the number of images in x")
            x = np.ascontiguousarray(x, np.float32)
        else:
            x = _c.image_bytes(x, "x")
        if x.shape[1:] != self.shape:
            raise ValueError("x has images of %s, but the net is for %s; one image is x[None]" % (x.shape[1:], self.shape))
        scores = np.empty((len(x), self.classes), np.float32)
        work = _aligned(_c.lib.qg_infer_context_bytes(self._net, max(len(x), 1)))
        run = _c.lib.qg_infer_run if normalised else _c.lib.qg_infer_run_bytes
        if len(x):
            status = run(self._net, len(x), x.ctypes.data, scores.ctypes.data, work.ctypes.data, len(work))
            if status == 5 and not normalised:
                raise ValueError("%s does not say how bytes are normalised; pass floats that are, with normalised=True" % self._name)
            self._check(status)
        return scores
