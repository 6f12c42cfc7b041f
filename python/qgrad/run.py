"""Runs that have been trained: by fit, by the command line, or by a program."""
import ctypes
import json
import os
import threading
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from . import _c

WEIGHTS = {"last": 0, "best": 1, "start": 2}        # of qg_run_weights
FORMATS = {"packed": 0, "onnx": 1, "c": 2}          # of qg_export_format


class Weight(NamedTuple):
    """The weight of a layer, [out][kh][kw][in], of a dense layer [out][in]."""
    latent: np.ndarray              # as it is trained
    value: np.ndarray               # as the net computes with it: quantized, with a batch norm folded in
    codes: Optional[np.ndarray]     # the integers of value, int32; None: it has none
    bits: int                       # of a code


class Run:
    """A run and its net, with its last weights, or those of the best epoch, or those that it began with.

        with qgrad.Run.open("runs/mine", weights="best") as run:
            labels = run.predict(x).argmax(1)"""

    def __init__(self, p):
        self._p, self._lock = p, threading.Lock()       # the library allows one thread at a time

    @classmethod
    def open(cls, path, weights: str = "last") -> "Run":
        """The run in a directory, or a checkpoint that was copied from one."""
        if weights not in WEIGHTS:
            raise ValueError("weights is %r, not one of %s" % (weights, ", ".join(WEIGHTS)))
        return cls(_c.pointer(_c.lib.qg_run_open(_c.path(path), WEIGHTS[weights])))

    def close(self) -> None:
        """Frees the net; the run on the disk stays."""
        p, self._p = self._p, None
        if p:
            _c.lib.qg_run_close(p)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    __del__ = close

    def __repr__(self):
        return "qgrad.Run.open(%r)" % self.path if self._p else "<closed qgrad.Run>"

    @property
    def _open(self):
        if not self._p:
            raise ValueError("the run is closed")
        return self._p

    @property
    def path(self) -> str:
        """Its directory."""
        return os.fsdecode(_c.lib.qg_run_directory(self._open))

    def get(self, option: str) -> Optional[str]:
        """The value of an option with which it was trained: run.get("weight")."""
        value = _c.lib.qg_run_get(self._open, option.replace("_", "-").encode())
        return None if value is None else value.decode()

    @property
    def result(self) -> Dict[str, Any]:
        """What it has achieved: accuracies, the digest of the weights, whether it is complete, and more."""
        with open(os.path.join(self.path, "result.json"), encoding="utf-8") as f:
            return json.load(f)

    @property
    def shape(self) -> Tuple[int, int, int]:
        """Of an image: height, width, channels."""
        s = _c.lib.qg_run_image(self._open)
        return s.h, s.w, s.c

    @property
    def classes(self) -> List[str]:
        """Their names."""
        return [_c.lib.qg_run_class(self._open, k).decode() for k in range(_c.lib.qg_run_classes(self._open))]

    def metrics(self) -> Dict[str, np.ndarray]:
        """The columns of metrics.csv: losses, accuracies, learned values; a number per epoch, NaN where there is none."""
        columns, i, epochs = {}, 0, ctypes.c_int()
        with self._lock:
            while True:
                name = _c.lib.qg_run_column_name(self._open, i)
                if name is None and i == 0:
                    raise _c.failure()
                if name is None:
                    return columns
                if name != b"digest":           # a text
                    column = _c.pointer(_c.lib.qg_run_column(self._p, name, ctypes.byref(epochs)))
                    columns[name.decode()] = np.array(column[:epochs.value])
                i += 1

    def predict(self, x) -> np.ndarray:
        """Scores [n][classes] of images [n][h][w][c], uint8 or floats in 0..1 (see fit)."""
        x = _c.image_bytes(x, "x")
        with self._lock:
            _c.pointer(_c.lib.qg_run_net(self._open))
            if x.shape[1:] != self.shape:
                raise ValueError("x has images of %s, but the run is for %s" % (x.shape[1:], self.shape))
            scores = np.empty((len(x), _c.lib.qg_run_classes(self._p)), np.float32)
            _c.check(_c.lib.qg_run_predict(self._p, len(x), x.ctypes.data, scores.ctypes.data))
        return scores

    def weights(self) -> Dict[str, Weight]:
        """The weights of convolutions and dense layers, by the names of the layers."""
        weights, bits = {}, ctypes.c_int()
        with self._lock:
            _c.pointer(_c.lib.qg_run_net(self._open))
            while True:
                w = _c.lib.qg_run_weight_at(self._p, len(weights))
                if not w.layer:
                    return weights
                s = w.shape
                shape = (s.n, s.c) if s.h == s.w == 1 else (s.n, s.h, s.w, s.c)
                value, codes = np.empty(shape, np.float32), np.empty(shape, np.int32)
                _c.check(_c.lib.qg_run_weight_quantized(self._p, len(weights), value.ctypes.data, codes.ctypes.data, ctypes.byref(bits)))
                weights[w.layer.decode()] = Weight(np.ctypeslib.as_array(w.latent, shape).copy(), value,
                                                   codes if bits.value else None, bits.value)

    def export(self, path, to: str = "packed", input_layout: str = "nhwc") -> str:
        """Writes the net as a file for Net and the engine, for ONNX Runtime ("onnx"), or as a file of C ("c"); with
        input_layout "nchw", an ONNX net takes floats in 0..1, [n][c][h][w].  Returns the path."""
        if to not in FORMATS:
            raise ValueError("to is %r, not one of %s" % (to, ", ".join(FORMATS)))
        if input_layout not in ("nhwc", "nchw") or (input_layout == "nchw" and to != "onnx"):
            raise ValueError("input_layout is %r, but it is nhwc, or with to='onnx' nchw" % input_layout)
        of = _c.RunExport()
        with self._lock:
            _c.check(_c.lib.qg_run_export_of(self._open, ctypes.byref(of)))
            of.spec.format, of.spec.nchw = FORMATS[to], input_layout == "nchw"
            _c.check(_c.lib.qg_export(_c.lib.qg_run_net(self._p), _c.path(path), of.spec))
        return os.fspath(path)

    def quantize(self, out, images: int = 0, **given) -> "Run":
        """Makes a run in the new directory out, with quantizers where this one has none, calibrated on some of its training
        images, without training.  Without weight, input and layer: inputs, and weights that are floats, get 8 bits."""
        from .fit import Recipe
        changes, quantized = Recipe(given), _c.Quantized()
        spec = _c.QuantizeSpec(dir=_c.path(out), changes=changes.p, images=images)
        with self._lock:
            _c.check(_c.lib.qg_run_quantize(self._open, spec, ctypes.byref(quantized)))
        return Run.open(out)
