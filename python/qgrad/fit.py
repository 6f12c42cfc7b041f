"""Training."""
import ctypes
import hashlib
import os
import re
import signal
import sys
import tempfile
import threading
import warnings
from typing import Any, Callable, Dict, Optional, Tuple, Union

import numpy as np

from . import _c
from .run import Run

Images = Tuple[Any, Any]
FLAG, LIST = 0, 6                   # of qg_recipe_kind
RESUME, NEW, FORCE = 0, 1, 2        # of qg_fit_mode


def options() -> Dict[str, str]:
    """The options of fit, with what each means; a value in [] is its default.  Those of the command line, with _ for -."""
    keys, i = ctypes.cast(_c.lib.qg_recipe_keys, ctypes.POINTER(_c.RecipeKey)), 0
    table = {}
    while keys[i].name:
        k = keys[i]
        if k.help:
            default = " [%s]" % k.fallback.decode() if k.fallback else ""
            table[k.name.decode().replace("-", "_")] = " ".join(k.help.decode().split()) + default
        i += 1
    return table


class Recipe:
    """What is trained, as text."""

    def __init__(self, given):
        self.p = _c.pointer(_c.lib.qg_recipe_new())
        known = options()
        for name, value in given.items():
            if name not in known:
                raise TypeError("no option is called %r; qgrad.options() lists them" % name)
            for item in value if isinstance(value, (list, tuple)) else [value]:
                if item is not None:
                    _c.check(_c.lib.qg_recipe_set(self.p, name.replace("_", "-").encode(), _c.text(item, name).encode()))

    def __del__(self):
        if getattr(self, "p", None):
            _c.lib.qg_recipe_free(self.p)


# --- images ------------------------------------------------------------------------------------


def _labels(y, what, images):
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] > 1:
        raise ValueError("%s has the shape %s: pass the number of the class of each image, such as %s.argmax(1)" % (what, y.shape, what))
    if y.dtype.kind not in "iu":
        raise TypeError("%s has the type %s: labels are integers, 0 .. classes - 1" % (what, y.dtype))
    if y.size != len(images) or y.ndim > 2:
        raise ValueError("%s has the shape %s for %d images" % (what, y.shape, len(images)))
    return np.ascontiguousarray(y.reshape(-1))


def _pair(pair, what):
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError("%s is a pair of images and labels, (x, y)" % what)
    images = _c.image_bytes(pair[0], what + "[0]")
    return images, _labels(pair[1], what + "[1]", images)


def _hold_out(x, y):
    """Every tenth image of each class, for tests."""
    held = np.sort(np.argsort(y, kind="stable")[9::10])
    if not len(held):
        raise ValueError("%d images are too few to hold some out for tests: pass test=(x, y)" % len(x))
    kept = np.delete(np.arange(len(x)), held)
    return (x[kept], y[kept]), (x[held], y[held])


def _store(array, directory):
    """Writes the array to a file that is called by its digest, unless it is there."""
    name = hashlib.blake2b(array.tobytes() + repr((array.shape, array.dtype.str)).encode(), digest_size=8).hexdigest() + ".npy"
    if not os.path.exists(os.path.join(directory, name)):
        with tempfile.NamedTemporaryFile(dir=directory, delete=False) as f:
            np.save(f, array)
        os.replace(f.name, os.path.join(directory, name))
    return name


def _data(x, y, test, validation, classes, directory):
    """The options data and data_dir."""
    splits = {}
    train = _pair((x, y), "x and y")
    if isinstance(validation, (tuple, list)):
        splits["validation"] = _pair(validation, "validation")
    train, splits["test"] = (train, _pair(test, "test")) if test is not None else _hold_out(*train)
    splits["train"] = train
    os.makedirs(directory, exist_ok=True)
    files = []
    for split in sorted(splits):
        images, labels = splits[split]
        files += ["%s=%s" % (split, _store(images, directory)), "%s-labels=%s" % (split, _store(labels, directory))]
    if classes is not None:
        files.append("classes=%d" % classes)
    return {"data": "arrays:" + ",".join(files), "data_dir": os.path.abspath(directory)}


# --- the run -----------------------------------------------------------------------------------


def _free_directory(net, weight):
    """A new directory in runs/, called by the net and its quantizer."""
    name = os.path.join("runs", re.sub("[^A-Za-z0-9.]+", "-", "%s-%s" % (net, weight))[:60].strip("-"))
    n = 1
    while True:
        out = name if n == 1 else "%s-%d" % (name, n)
        try:
            os.makedirs(out)
            return out
        except FileExistsError:
            n += 1


class _Watch:
    """What happens during a run: progress is printed, the caller's function called, and Ctrl-C noticed."""

    def __init__(self, progress, callback):
        self.progress, self.callback, self.line = progress, callback, progress and sys.stdout.isatty()
        self.stop, self.error, self.interrupted, self.epochs = ctypes.c_int(0), None, False, 0
        self.events = _c.Events(step=_c.ON_STEP(self._safe(self._step)), begin=_c.ON_STEP(self._safe(self._step)),
                                epoch=_c.ON_EPOCH(self._safe(self._epoch)), notice=_c.ON_NOTICE(self._safe(self._notice)))

    def _safe(self, function):
        """An exception cannot cross the library: it ends the run, and is raised afterwards."""
        def safe(*arguments):
            try:
                function(*arguments)
            except BaseException as error:
                self.error, self.stop.value = self.error or error, 1
        return safe

    def _step(self, _, p):
        p, self.epochs = p[0], p[0].epochs
        if self.line and p.batch % 16 == 0 and p.batch:
            print("\repoch %d/%d  step %d/%d  loss %.4f  accuracy %.2f %% " % (p.epoch + 1, p.epochs, p.batch, p.batches, p.loss,
                                                                          100 * p.accuracy), end="", flush=True)

    def _epoch(self, _, e, __):
        row = {name: getattr(e[0], name) for name, *_ in _c.Epoch._fields_}
        row["epoch"], row["digest"] = int(row["epoch"]), row["digest"].decode()
        row = {name: value for name, value in row.items() if value == value}
        if self.progress:
            split = "validation" if "validation_accuracy" in row else "test"
            print("%sepoch %d/%d  loss %.4f  accuracy %.2f %%  %s %.2f %%  %.1f s" %
                  ("\r\x1b[K" if self.line else "", row["epoch"], self.epochs, row["train_loss"], 100 * row["train_accuracy"], split,
                   100 * row[split + "_accuracy"], row["seconds"]), flush=True)
        if self.callback:
            self.callback(row)

    def _notice(self, _, what, text):
        warnings.warn(text.decode(), stacklevel=3)

    def _interrupt(self, *_):
        self.interrupted, self.stop.value = True, 1

    def __enter__(self):
        self.handler = None
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self.handler = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_):
        if self.handler:
            signal.signal(signal.SIGINT, self.handler)


def _train(recipe, place, mode, init, budget, progress, callback):
    with _Watch(progress, callback) as watch:
        spec = _c.FitSpec(dir=_c.path(place), mode=mode, budget=budget,
                          init=None if init is None else _c.path(init), stop=ctypes.pointer(watch.stop), events=watch.events)
        training = _c.pointer(_c.lib.qg_recipe_build(recipe.p, spec))
        try:
            for loader in (training[0].train, training[0].test):
                warning = _c.lib.qg_loader_warning(loader)
                if warning:
                    warnings.warn(warning.decode(), stacklevel=3)
            status = _c.lib.qg_fit(training[0].net, training[0].fit, None)
            error = _c.failure() if status else watch.error
        finally:
            _c.lib.qg_training_free(training)
    if watch.error or error:
        raise watch.error or error
    if watch.interrupted:
        raise KeyboardInterrupt("%s is saved; fit(.., out=%r, resume=True) goes on" % (place, place))


def fit(net: str, x=None, y=None, *, test: Optional[Images] = None, validation: Union[Images, str, int, None] = None,
        out: Union[str, os.PathLike, None] = None, resume: bool = False, force: bool = False, init: Optional[str] = None,
        budget: float = 0, callback: Optional[Callable[[Dict[str, Any]], Any]] = None, progress: bool = True,
        classes: Optional[int] = None, **given) -> Run:
    """Trains a net and returns its run.  The weights are those of `qgrad train` with the same options, to the last bit.

        run = qgrad.fit("lenet5", x, y, test=(xt, yt), weight="twn", epochs=3)
        run = qgrad.fit("32C5-BN-R-MP2-10", x, y, weight="lsq:bits=2", input="lsq:bits=2", layer=["conv1:weight=float"])
        run = qgrad.fit("lenet5", data="mnist", data_dir="datasets/mnist")

    net         a model, or a net as text
    x, y        images [n][h][w][c] and labels [n], 0 .. classes - 1.  Images are uint8, or floats in 0..1, which are rounded to
                the nearest k / 255; the option normalise says what becomes of them.  [n][h][w] has one channel.  x and y may
                have any strides, and are not changed
    test        a pair of images and labels.  Without it, every tenth image of each class of x is held out
    validation  chooses the best epoch in place of the test images: such a pair, or how many to hold out, 5000 or "10%"
    out         the run directory; by default a new one in runs/.  Images are stored beside it, in arrays/, once
    resume      continue the run in out, or begin it;   force: rename the run in out and begin again
    init        the directory of a run, or a safetensors file, to start from
    budget      seconds after which the run is saved and fit returns; 0: none
    callback    called after each epoch with its row of metrics, a dict.  An exception in it saves the run and ends fit
    progress    print a line after each epoch
    classes     how many; by default as many as the labels need
    given       the options of the command line, with _ for -: weight, input, layer (a list), epochs, batch, optimizer, lr,
                schedule, augment, seed, threads, ..; options() lists them all

    Ctrl-C saves the run and raises KeyboardInterrupt; fit with the same arguments, out and resume=True goes on."""
    if resume and force:
        raise ValueError("resume and force exclude each other")
    if resume and out is None:
        raise ValueError("resume needs out, the directory of the run")
    if (x is None) == ("data" not in given) or (x is None) != (y is None):
        raise TypeError("pass images and labels, x and y, or the option data")
    if x is None and (test is not None or isinstance(validation, (tuple, list)) or classes is not None):
        raise TypeError("test, validation and classes belong to arrays: data has its own")
    if validation is not None and not isinstance(validation, (tuple, list)):
        given["validation"] = validation
    if out is not None:
        out = os.fspath(out)
    Recipe({"model": net, **given})                     # what is wrong with an option is found before anything is written
    if x is not None:
        directory = os.path.join("runs" if out is None else os.path.dirname(out) or ".", "arrays")
        given.update(_data(x, y, test, validation, classes, directory))
    place = _free_directory(net, given.get("weight", "float")) if out is None else out
    try:
        _train(Recipe({"model": net, **given}), place, RESUME if resume else FORCE if force else NEW, init, budget, progress, callback)
    except BaseException:
        if out is None and not os.listdir(place):
            os.rmdir(place)
        raise
    return Run.open(place)
