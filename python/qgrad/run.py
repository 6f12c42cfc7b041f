"""Runs that have been trained: by fit, by the command line, or by a program."""
import contextlib
import ctypes
import json
import os
import threading
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from . import _c

WEIGHTS = {"last": 0, "best": 1, "start": 2}        # of qg_run_weights
QUANTIZE = "weight input first_last layer fold_batchnorm seed data_dir threads cache freeze".split()
FORMATS = {"packed": 0, "onnx": 1, "c": 2}          # of qg_export_format
# How their files begin, as in cli/run/output.c.
STARTS = {"packed": b"\x89qgnet\r\n", "onnx": b"\x08\x07\x12\x05qgrad", "c": b"/* A net in C99, written by qgrad export --to c.\n"}


def _check_replaced(path, to: str) -> None:
    try:
        with open(path, "rb") as f:
            start = f.read(len(STARTS[to]))
    except OSError:
        return                                      # the writer says what is wrong
    if start and start != STARTS[to]:
        raise FileExistsError("'%s' is no %s net, so it is not replaced; choose another name, or remove it" % (os.fsdecode(path), to))


class Weight(NamedTuple):
    """The weight of a layer, [out][kh][kw][in], of a dense layer [out][h][w][in] for the image that it reads; [out][in]
    if h and w are 1."""
    latent: np.ndarray              # as it is trained
    value: Optional[np.ndarray]     # as the net computes with it: quantized, with a batch norm folded in; None: only the
                                    # program that trained it can quantize it
    codes: Optional[np.ndarray]     # the integers of value, int32; None: it has none
    bits: int                       # of a code

    def __repr__(self):
        return "<qgrad.Weight %s, %s>" % ("x".join(map(str, self.latent.shape)), "%d-bit codes" % self.bits if self.codes is not None else "float")


class Run(_c.Handle):
    """A run and its net, with its last weights, or those of the best epoch, or those that it began with.

        with qgrad.Run("runs/mine", weights="best") as run:
            labels = run.predict(x).argmax(1)

    path    a directory, or a checkpoint that was copied from one, which has neither result nor metrics

    Its files are read when they are needed, wherever the program's directory is by then; it is an error if
    another run is in their place.  Several threads may use it; one waits for another."""

    def __init__(self, path, weights: str = "last"):
        self._p, self._lock, self._loaded = None, threading.RLock(), False
        if weights not in WEIGHTS:
            raise ValueError("weights is %r, not one of %s" % (weights, ", ".join(WEIGHTS)))
        self._starts = weights == "start"
        given = _c.path(path)
        whole = os.path.join(os.getcwdb(), given) if given and not os.path.isabs(given) else given
        open_at = _c.lib.qg_run_open
        # The message of the second failure has the path as it was given.
        self._p = open_at(whole, WEIGHTS[weights]) or _c.pointer(open_at(given, WEIGHTS[weights]))
        self._name = (os.path.dirname(given) or b".") if os.path.isfile(given) else given.rstrip(b"/") or b"/"
        self._place = self._find_place()

    @classmethod
    def open(cls, path, weights: str = "last") -> "Run":
        """The same as Run(path, weights)."""
        return cls(path, weights)

    def close(self) -> None:
        """Frees the net; the run on the disk stays."""
        with self._lock:
            p, self._p = self._p, None
            if p:
                _c.lib.qg_run_close(p)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    __del__ = close

    def __repr__(self):
        return "qgrad.Run(%r)" % self.path if self._p else "<closed qgrad.Run>"

    @contextlib.contextmanager
    def _use(self, net=False):
        """The run, for one thread at a time, as the library demands; with its net."""
        with self._lock:
            if not self._p:
                raise ValueError("the run is closed")
            if net and not self._loaded:
                self._check_place()
                _c.pointer(_c.lib.qg_run_net(self._p))
                self._loaded = True
            yield self._p

    def _find_place(self):
        """What stays the directory's when it is renamed."""
        place = os.stat(_c.lib.qg_run_directory(self._p))
        return place.st_dev, place.st_ino

    def _check_place(self):
        if self._find_place() != self._place:
            raise RuntimeError("%s is no longer the directory of this run: it was moved or replaced"
                               % self.path)

    def _check_own(self):
        """That result.json and metrics.csv in the directory are those of its weights."""
        with self._use() as p:
            file = os.fsdecode(_c.lib.qg_run_file(p))
            if os.path.basename(file) not in ("last.safetensors", "best.safetensors"):
                raise ValueError("%s: a copied checkpoint has neither result nor metrics; "
                                 "open the directory of its run" % file)
            self._check_place()

    @property
    def path(self) -> str:
        """Its directory."""
        with self._use():
            return os.fsdecode(self._name)

    def _file(self, option):
        """The checkpoint with its weights, for fit(init=..) and fit(teacher=..)."""
        with self._use() as p:
            if self._starts:
                raise ValueError("%s: %s has no file with the weights that it began with" % (option, self.path))
            self._check_place()
            return os.fsdecode(_c.lib.qg_run_file(p))

    def get(self, option: str) -> Optional[str]:
        """The value of an option with which it was trained: run.get("weight")."""
        with self._use() as p:
            value = _c.lib.qg_run_get(p, _c.c_string(option.replace("_", "-").encode()))
        if value is None:
            from .fit import find_key
            find_key(option.replace("-", "_"))      # an error if nothing is called so
        return None if value is None else value.decode()

    @property
    def result(self) -> Dict[str, Any]:
        """What it has achieved: accuracies, the digest of the weights, whether it is complete, and more."""
        with self._use() as p:
            self._check_own()
            directory = os.fsdecode(_c.lib.qg_run_directory(p))
            with open(os.path.join(directory, "result.json"), encoding="utf-8") as f:
                return json.load(f)

    @property
    def shape(self) -> Tuple[int, int, int]:
        """Of an image: height, width, channels."""
        with self._use() as p:
            s = _c.lib.qg_run_image(p)
            return s.h, s.w, s.c

    @property
    def class_names(self) -> List[str]:
        """What the classes are called; their numbers, if nobody has named them."""
        with self._use() as p:
            return [_c.lib.qg_run_class(p, k).decode() for k in range(_c.lib.qg_run_classes(p))]

    def metrics(self) -> Dict[str, np.ndarray]:
        """The columns of metrics.csv: losses, accuracies, learned values; a number per epoch, NaN where there is none."""
        columns, i, epochs = {}, 0, ctypes.c_int()
        with self._use() as p:
            self._check_own()
            while True:
                name = _c.lib.qg_run_column_name(p, i)
                if name is None and i == 0:
                    raise _c.failure()
                if name is None:
                    return columns
                if name != b"digest":           # a text
                    column = _c.pointer(_c.lib.qg_run_column(p, name, ctypes.byref(epochs)))
                    columns[name.decode()] = np.array(column[:epochs.value])
                i += 1

    def predict(self, x) -> np.ndarray:
        """Scores [n][classes] of images [n][h][w][c], uint8 or floats in 0..1 (see fit)."""
        x = _c.image_bytes(x, "x")
        with self._use(net=True) as p:
            if x.shape[1:] != self.shape:
                raise ValueError("x has images of %s, but the run is for %s; one image is x[None]" % (x.shape[1:], self.shape))
            scores = np.empty((len(x), _c.lib.qg_run_classes(p)), np.float32)
            _c.check(_c.lib.qg_run_predict(p, len(x), x.ctypes.data, scores.ctypes.data))
        return scores

    def weights(self) -> Dict[str, Weight]:
        """The weights of convolutions and dense layers, by the names of the layers."""
        weights, bits = {}, ctypes.c_int()
        with self._use(net=True) as p:
            while True:
                w = _c.lib.qg_run_weight_at(p, len(weights))
                if not w.layer:
                    return weights
                s = w.shape
                shape = (s.n, s.c) if s.h == s.w == 1 else (s.n, s.h, s.w, s.c)
                value, codes = np.empty(shape, np.float32), np.empty(shape, np.int32)
                status = _c.lib.qg_run_weight_quantized(p, len(weights), value.ctypes.data, codes.ctypes.data, ctypes.byref(bits))
                if status != 3:
                    _c.check(status)
                weights[w.layer.decode()] = Weight(np.ctypeslib.as_array(w.latent, shape).copy(), None if status else value,
                                                   codes if bits.value else None, bits.value)

    def export(self, path, to: Optional[str] = None, input_layout: str = "nhwc") -> str:
        """Writes the net as a file for Net and the engine ("packed"), for ONNX Runtime ("onnx"), or as a file of C ("c"); by
        default as the suffix .qg, .onnx or .c says, packed without one.  With input_layout "nchw", an ONNX net takes floats in 0..1,
        [n][c][h][w].  A file that is there is replaced only if it is empty or of the same format.  Returns the path."""
        suffix = os.path.splitext(os.fsdecode(path))[1][1:].lower()
        if not to and suffix[:1].isalpha() and suffix not in (*FORMATS, "qg", "qgrad", "bin"):
            raise ValueError("%r: names end in .qg, .onnx or .c; for another one pass to=" % os.fsdecode(path))
        to = to or (suffix if suffix in FORMATS else "packed")
        if to not in FORMATS:
            raise ValueError("to is %r, not one of %s" % (to, ", ".join(FORMATS)))
        if input_layout not in ("nhwc", "nchw") or (input_layout == "nchw" and to != "onnx"):
            raise ValueError("input_layout is %r, but it is nhwc, or with to='onnx' nchw" % input_layout)
        _check_replaced(path, to)
        of = _c.RunExport()
        with self._use(net=True) as p:
            _c.check(_c.lib.qg_run_export_of(p, ctypes.byref(of)))
            of.spec.format, of.spec.nchw = FORMATS[to], input_layout == "nchw"
            _c.check(_c.lib.qg_export(_c.lib.qg_run_net(p), _c.path(path), of.spec))
        return os.fspath(path)

    def quantize(self, out, images: int = 0, **given) -> "Run":
        """Makes a run in the new directory out, with quantizers where this one has none, calibrated on some of its training
        images, without training.  Without weight, input and layer: inputs, and weights that are floats, get 8 bits.

        given   those of fit that can change here: weight, input, layer, first_last, fold_batchnorm, freeze, .."""
        from .fit import Recipe
        for name in given:
            if name not in QUANTIZE:
                raise TypeError("quantize has no option %r; its options are %s" % (name, ", ".join(QUANTIZE)))
        changes, quantized = Recipe(given), _c.Quantized()
        spec = _c.QuantizeSpec(dir=_c.path(out), changes=changes.p, images=_c.int32(images, "images"))
        with self._use(net=True) as p:
            _c.check(_c.lib.qg_run_quantize(p, spec, ctypes.byref(quantized)))
        return Run(out)
