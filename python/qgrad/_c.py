"""The C library by ctypes: its structs and functions, its failures as exceptions, and arrays as it takes them.

The library is looked for in $QGRAD_LIB, in this package (a wheel), in build/ of the source tree, and where the system keeps
libraries."""
import ctypes
import ctypes.util
import operator
import os
import re
from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_size_t, c_uint,
                    c_uint64, c_void_p)

import numpy as np


def _struct(fields):
    return type("Struct", (Structure,), {"_fields_": fields})


def _of(kind, names):
    return [(name, kind) for name in names.split()]


Shape = _struct(_of(c_int, "n h w c"))
QuantizerEntry = _struct([("name", c_char_p), ("n", c_int)] + _of(POINTER(c_float), "value gradient"))
RecipeKey = _struct([("name", c_char_p), ("kind", c_int), ("is", c_uint), ("value", c_char_p), ("min", c_double), ("max", c_double)] +
                    _of(c_char_p, "fallback absent help") + [("field", c_void_p)])
Progress = _struct(_of(c_uint64, "epoch epochs batch batches") + _of(c_double, "loss accuracy images_per_second seconds_left"))
Epoch = _struct(_of(c_double, "epoch lr train_loss train_accuracy test_loss test_accuracy validation_loss validation_accuracy "
                    "images_per_second seconds") + [("digest", c_char * 17)])

ON_STEP = CFUNCTYPE(None, c_void_p, POINTER(Progress))
ON_EPOCH = CFUNCTYPE(None, c_void_p, POINTER(Epoch), c_void_p)
ON_NOTICE = CFUNCTYPE(None, c_void_p, c_int, c_char_p)

Events = _struct([("user", c_void_p), ("begin", ON_STEP), ("step", ON_STEP), ("epoch", ON_EPOCH), ("notice", ON_NOTICE),
                  ("scores", c_void_p)])
Schedule = _struct([("kind", c_int), ("factor", c_float), ("milestone", c_float * 8), ("n_milestones", c_int), ("every", c_float),
                    ("warmup", c_float)])
Teacher = _struct([("net", c_void_p), ("steps", c_uint64), ("temperature", c_float), ("weight", c_float)])
FitSpec = _struct([("dir", c_char_p), ("mode", c_int), ("config", c_char_p)] + _of(c_void_p, "train test validation optim") +
                  [("epochs", c_int), ("seed", c_uint64), ("lr", c_double), ("schedule", Schedule), ("patience", c_int)] +
                  _of(c_float, "label_smoothing clip_norm ema_decay") + _of(c_char_p, "init init_except freeze whiten_patches") +
                  [("teacher", Teacher), ("keep_running_statistics", c_bool), ("budget", c_double), ("stop", POINTER(c_int)),
                   ("events", Events)] + _of(c_void_p, "loss same user") +
                  [("file", c_char_p), ("renew_file", c_bool), ("about", c_void_p), ("abouts", c_int)])
Training = _struct(_of(c_void_p, "recipe train test net optim") + [("fit", FitSpec), ("init_arrays", c_int)] +
                   _of(c_char_p, "init_kept init_unused"))
RunWeight = _struct([("layer", c_char_p), ("shape", Shape), ("latent", POINTER(c_float))])
Note = _struct(_of(c_char_p, "key value"))
ExportSpec = _struct([("format", c_int), ("step", c_uint64), ("numbers", c_int), ("mean", c_void_p), ("deviation", c_void_p),
                      ("floats_only", c_bool), ("nchw", c_bool), ("notes", c_int), ("note", c_void_p)])
RunExport = _struct([("digest", c_char * 17), ("note", Note * 5), ("spec", ExportSpec)])
QuantizeSpec = _struct([("dir", c_char_p), ("changes", c_void_p), ("images", c_int)])
Quantized = _struct([("images", c_int), ("tested", c_uint64)] + _of(c_double, "accuracy_before accuracy loss_before loss"))
InferShape = _struct(_of(c_int, "h w c"))

# The structs of the headers that these are; tests/python compares their layouts with a C compiler's.
STRUCTS = {"qg_shape": Shape, "qg_quantizer_entry": QuantizerEntry, "qg_recipe_key": RecipeKey, "qg_fit_progress": Progress,
           "qg_epoch": Epoch, "qg_fit_events": Events, "qg_schedule": Schedule, "qg_fit_teacher": Teacher, "qg_fit_spec": FitSpec,
           "qg_training": Training, "qg_run_weight": RunWeight, "qg_note": Note, "qg_export_spec": ExportSpec,
           "qg_run_export": RunExport, "qg_run_quantize_spec": QuantizeSpec, "qg_run_quantized": Quantized,
           "qg_infer_shape": InferShape}

_p, _text = c_void_p, c_char_p
_functions = {
    "qg_errmsg": (_text,), "qg_errcode": (c_int,),
    "qg_quantizer_parse": (_p, _text, c_int, Shape), "qg_quantizer_free": (None, _p),
    "qg_quantizer_seed": (None, _p, c_uint64, c_uint64),
    "qg_quantizer_forward": (c_int, _p, c_int, _p, _p), "qg_quantizer_backward": (c_int, _p, _p, _p),
    "qg_quantizer_learned": (QuantizerEntry, _p, c_int),
    "qg_recipe_new": (_p,), "qg_recipe_free": (None, _p), "qg_recipe_set": (c_int, _p, _text, _text),
    "qg_recipe_build": (POINTER(Training), _p, FitSpec), "qg_training_free": (None, POINTER(Training)),
    "qg_loader_warning": (_text, _p), "qg_fit": (c_int, _p, FitSpec, _p),
    "qg_run_open": (_p, _text, c_int), "qg_run_close": (None, _p), "qg_run_file": (_text, _p), "qg_run_directory": (_text, _p),
    "qg_run_get": (_text, _p, _text), "qg_run_image": (Shape, _p), "qg_run_classes": (c_int, _p), "qg_run_class": (_text, _p, c_int),
    "qg_run_net": (_p, _p), "qg_run_predict": (c_int, _p, c_int, _p, _p),
    "qg_run_column": (POINTER(c_double), _p, _text, POINTER(c_int)), "qg_run_column_name": (_text, _p, c_int),
    "qg_run_weight_at": (RunWeight, _p, c_int), "qg_run_weight_quantized": (c_int, _p, c_int, _p, _p, POINTER(c_int)),
    "qg_run_export_of": (c_int, _p, POINTER(RunExport)), "qg_export": (c_int, _p, _text, ExportSpec),
    "qg_run_quantize": (c_int, _p, QuantizeSpec, POINTER(Quantized)),
    "qg_infer_message": (_text, c_int), "qg_infer_size": (c_int, _p, c_size_t, POINTER(c_size_t)),
    "qg_infer_load": (c_int, _p, c_size_t, _p, c_size_t, POINTER(_p)), "qg_infer_input": (InferShape, _p),
    "qg_infer_scores": (c_int, _p), "qg_infer_note": (_text, _p, _text), "qg_infer_context_bytes": (c_size_t, _p, c_int),
    "qg_infer_run": (c_int, _p, c_int, _p, _p, _p, c_size_t), "qg_infer_run_bytes": (c_int, _p, c_int, _p, _p, _p, c_size_t),
}


def _load():
    here = os.path.dirname(os.path.abspath(__file__))
    for directory in (os.environ.get("QGRAD_LIB"), here, os.path.join(here, "..", "..", "build")):
        path = os.path.join(directory, "libqgrad.so") if directory else ""
        if os.path.exists(path):
            return ctypes.CDLL(path)
    path = ctypes.util.find_library("qgrad")
    if not path:
        raise ImportError("libqgrad.so is neither in $QGRAD_LIB nor in %s nor installed: run make, or pip install" % here)
    return ctypes.CDLL(path)


lib = _load()
for _name, (_result, *_arguments) in _functions.items():
    getattr(lib, _name).restype, getattr(lib, _name).argtypes = _result, _arguments

# By qg_status.
_exceptions = (None, MemoryError, ValueError, ValueError, OSError, ValueError, RuntimeError, FloatingPointError)


def failure():
    """The exception for the last failure of the library in this thread; it calls options as fit does."""
    message = re.sub(r"(?<![^\s(])--([a-z][a-z-]*)", lambda m: m[1].replace("-", "_"), lib.qg_errmsg().decode())
    return _exceptions[lib.qg_errcode()](message)


def check(status):
    if status:
        raise failure()


def pointer(p):
    """p, of a function that returns NULL on failure."""
    if not p:
        raise failure()
    return p


class Handle:
    """Owns memory of the library."""

    def __reduce_ex__(self, _):
        raise TypeError("a %s can be neither copied nor pickled" % type(self).__name__)


def c_string(b):
    if b"\0" in b:
        raise ValueError("%r has a null byte" % os.fsdecode(b))
    return b


def path(p):
    return c_string(os.fsencode(p))


def int32(n, what):
    """n as the library takes it; ctypes would cut it."""
    n = operator.index(n)
    if not -2**31 <= n < 2**31:
        raise ValueError("%s is %d, which is not in -2147483648..2147483647" % (what, n))
    return n


def text(value, name):
    """The text of a value of an option: "0.1", "true"."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    raise TypeError("%s is of the type %s, not a string, number or bool" % (name, type(value).__name__))


def image_bytes(x, what):
    """x as contiguous uint8 [n][h][w][c].  Bytes stay as they are.  Floats must be in 0..1, and become the nearest of the 256
    values k / 255, so x / 255 of bytes gives these bytes again.  Without a last axis, images have one channel."""
    if isinstance(x, (list, tuple)) and len({np.shape(image) for image in x}) > 1:
        raise ValueError("%s has images of different sizes, %s: resize them to one" % (what, ", ".join(sorted({str(np.shape(i)) for i in x})[:3])))
    x = np.asarray(x)
    if x.dtype != np.uint8 and x.dtype.kind != "f":
        raise TypeError("%s has the type %s: pass images as uint8, 0..255, or as floats in 0..1" % (what, x.dtype))
    if x.ndim not in (3, 4):
        raise ValueError("%s has the shape %s: pass images as (n, height, width) or (n, height, width, channels)" % (what, x.shape))
    int32(len(x), "the number of images in " + what)
    if x.dtype.kind == "f":
        if x.size and not (x.min() >= 0 and x.max() <= 1):
            odd = x.size - np.count_nonzero(np.isfinite(x))
            if odd:
                raise ValueError("%s has %d value%s that %s not finite" % (what, odd, "s" * (odd > 1), "are" if odd > 1 else "is"))
            raise ValueError("%s has floats from %g to %g: pass floats in 0..1, or uint8; the option normalise standardises them"
                             % (what, x.min(), x.max()))
        x = np.rint(np.multiply(x, 255, dtype=np.promote_types(x.dtype, np.float64))).astype(np.uint8)
    return np.ascontiguousarray(x if x.ndim == 4 else x[..., None])
