"""qgrad from Python: quantize arrays with any scheme, and run packed nets.

Needs NumPy and the shared libraries of `make` or `make install`.  They are looked for in $QGRAD_LIB, in the build directory of
the source tree, and where the system keeps libraries.

    import numpy, qgrad
    w = numpy.random.randn(64, 5, 5, 32).astype("f4")
    z = qgrad.Quantizer("ttq:threshold=0.05", "weight", w.shape)
    q = z.forward(w)
    dw = z.backward(dq)                       # and z.gradients["wp"]

    net = qgrad.Net("lenet5.qgrad")
    scores = net.run(images)                  # [n][h][w][c], floats, or bytes if the net normalises them
"""
import ctypes
import ctypes.util
import os

import numpy as np

ROLES = {"weight": 1, "input": 2, "gradient": 4}


class Error(Exception):
    """What the library says about a failure."""


class _Shape(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in "nhwc"]


class _Entry(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("n", ctypes.c_int),
                ("value", ctypes.POINTER(ctypes.c_float)), ("gradient", ctypes.POINTER(ctypes.c_float))]


class _InferShape(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in "hwc"]


def _library(name):
    here = os.path.dirname(os.path.abspath(__file__))
    for directory in (os.environ.get("QGRAD_LIB"), os.path.join(here, "..", "..", "build")):
        path = os.path.join(directory, "lib%s.so" % name) if directory else ""
        if path and os.path.exists(path):
            return ctypes.CDLL(path)
    path = ctypes.util.find_library(name)
    if not path:
        raise Error("lib%s.so is neither in $QGRAD_LIB nor in build/ nor installed" % name)
    return ctypes.CDLL(path)


def _declare(library, functions):
    for name, (result, arguments) in functions.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


_libraries = {}


def _qgrad():
    if "qgrad" not in _libraries:
        p, f = ctypes.c_void_p, ctypes.c_void_p
        _libraries["qgrad"] = _declare(_library("qgrad"), {
            "qg_errmsg": (ctypes.c_char_p, []),
            "qg_quantizer_parse": (p, [ctypes.c_char_p, ctypes.c_int, _Shape]),
            "qg_quantizer_free": (None, [p]),
            "qg_quantizer_forward": (ctypes.c_int, [p, ctypes.c_int, f, f]),
            "qg_quantizer_backward": (ctypes.c_int, [p, f, f]),
            "qg_quantizer_learned": (_Entry, [p, ctypes.c_int]),
        })
    return _libraries["qgrad"]


def _infer():
    if "infer" not in _libraries:
        p, n = ctypes.c_void_p, ctypes.c_size_t
        _libraries["infer"] = _declare(_library("qgrad_infer"), {
            "qg_infer_message": (ctypes.c_char_p, [ctypes.c_int]),
            "qg_infer_size": (ctypes.c_int, [p, n, ctypes.POINTER(n)]),
            "qg_infer_load": (ctypes.c_int, [p, n, p, n, ctypes.POINTER(p)]),
            "qg_infer_input": (_InferShape, [p]),
            "qg_infer_scores": (ctypes.c_int, [p]),
            "qg_infer_note": (ctypes.c_char_p, [p, ctypes.c_char_p]),
            "qg_infer_context_bytes": (n, [p, ctypes.c_int]),
            "qg_infer_run": (ctypes.c_int, [p, ctypes.c_int, p, p, p, n]),
            "qg_infer_run_bytes": (ctypes.c_int, [p, ctypes.c_int, p, p, p, n]),
        })
    return _libraries["infer"]


def _floats(x, shape, what):
    x = np.asarray(x)
    if x.dtype.kind not in "fiu":
        raise TypeError("%s has the type %s, not a real one" % (what, x.dtype))
    x = np.ascontiguousarray(x, np.float32)
    if x.shape != tuple(shape):
        raise ValueError("%s has the shape %s, not %s" % (what, x.shape, tuple(shape)))
    return x


class Quantizer:
    """A scheme, as --weight and --input of qgrad spell it, for arrays of one shape of at most four axes: weights
    [out][kh][kw][in], other tensors [n][h][w][c].  Fewer axes are [out][in] and [n][c]."""

    def __init__(self, scheme, role, shape):
        self._z = None
        self.shape = tuple(shape)
        if not 1 <= len(self.shape) <= 4:
            raise ValueError("arrays have 1 to 4 axes")
        s = self.shape
        four = {1: (1, 1, 1) + s, 2: (s[0], 1, 1) + s[1:], 3: (1,) + s, 4: s}[len(s)]
        self._library = _qgrad()
        self._z = self._library.qg_quantizer_parse(scheme.encode(), ROLES[role], _Shape(*four))
        if not self._z:
            raise Error(self._library.qg_errmsg().decode())

    def __del__(self):
        if self._z:
            self._library.qg_quantizer_free(self._z)

    def _check(self, status):
        if status:
            raise Error(self._library.qg_errmsg().decode())

    def forward(self, x, train=True):
        """q(x).  With train, a gradient may be asked for, and observed ranges change."""
        x = _floats(x, self.shape, "x")
        y = np.empty_like(x)
        self._check(self._library.qg_quantizer_forward(self._z, 0 if train else 1, x.ctypes.data, y.ctypes.data))
        return y

    def backward(self, dy):
        """dL/dx for dL/dq = dy; once after each forward."""
        dy = _floats(dy, self.shape, "dy")
        dx = np.empty_like(dy)
        self._check(self._library.qg_quantizer_backward(self._z, dy.ctypes.data, dx.ctypes.data))
        return dx

    def _entries(self):
        i = 0
        while True:
            entry = self._library.qg_quantizer_learned(self._z, i)
            if not entry.n:
                return
            yield entry
            i += 1

    @property
    def learned(self):
        """What the scheme learns or tracks, by name: arrays that may be written, and live as long as this object."""
        return {e.name.decode(): np.ctypeslib.as_array(e.value, (e.n,)) for e in self._entries()}

    @property
    def gradients(self):
        """Gradients of what is learned, of the last backward."""
        return {e.name.decode(): np.ctypeslib.as_array(e.gradient, (e.n,)).copy() for e in self._entries() if e.gradient}


def _aligned(n):
    memory = np.empty(n + 64, np.uint8)
    return memory[-memory.ctypes.data % 64:][:n]


class Net:
    """A packed net, from a path or from bytes."""

    def __init__(self, file):
        if not isinstance(file, (bytes, bytearray)):
            with open(file, "rb") as f:
                file = f.read()
        self._library = _infer()
        image = np.frombuffer(bytes(file), np.uint8)
        size, net = ctypes.c_size_t(), ctypes.c_void_p()
        self._check(self._library.qg_infer_size(image.ctypes.data, len(image), ctypes.byref(size)))
        self._memory = _aligned(size.value)
        self._check(self._library.qg_infer_load(image.ctypes.data, len(image), self._memory.ctypes.data, size.value, ctypes.byref(net)))
        self._net = net.value
        shape = self._library.qg_infer_input(self._net)
        self.input = (shape.h, shape.w, shape.c)
        self.scores = self._library.qg_infer_scores(self._net)

    def _check(self, status):
        if status:
            raise Error(self._library.qg_infer_message(status).decode())

    def note(self, key):
        """A note of the file, or None."""
        text = self._library.qg_infer_note(self._net, key.encode())
        return None if text is None else text.decode()

    def run(self, images):
        """Scores [n][scores] of images [n][h][w][c]: floats that are normalised already, or bytes (uint8) that the net
        normalises.  Other types are a TypeError, since integers could be meant as either.  An Error: a float is not finite."""
        images = np.asarray(images)
        is_bytes = images.dtype == np.uint8
        if not is_bytes and images.dtype.kind != "f":
            raise TypeError("images have the type %s: pass uint8 for bytes, which the net normalises, or floats that are normalised"
                            % images.dtype)
        images = np.ascontiguousarray(images, np.uint8 if is_bytes else np.float32)
        if images.shape[1:] != self.input:
            raise ValueError("images have the shape %s, not (n, %d, %d, %d)" % ((images.shape,) + self.input))
        n = len(images)
        scores = np.empty((n, self.scores), np.float32)
        work = _aligned(self._library.qg_infer_context_bytes(self._net, max(n, 1)))
        run = self._library.qg_infer_run_bytes if is_bytes else self._library.qg_infer_run
        if n:
            self._check(run(self._net, n, images.ctypes.data, scores.ctypes.data, work.ctypes.data, len(work)))
        return scores
