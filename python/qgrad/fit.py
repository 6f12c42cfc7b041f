"""Training."""
import contextlib
import ctypes
import difflib
import hashlib
import numbers
import os
import re
import signal
import sys
import threading
import warnings
from typing import Any, Callable, Dict, Optional, Tuple, Union

import numpy as np

from . import _c
from .run import Run

Images = Tuple[Any, Any]
LIST = 6                            # of qg_recipe_kind
RESUME, NEW, FORCE = 0, 1, 2        # of qg_fit_mode
MOST_CLASSES = 65535                # QG_MAX_CLASSES


# What runs and recipes note about themselves.
NOTES = set("data_digest class_digest epoch_steps ranks init_digest teacher_digest init_recipe reproduces reported provenance deviations "
            "defaults recipe".split())
# What others call an option.
OTHERS = {"learning_rate": "lr", "wd": "weight_decay", "grad_clip": "clip_norm", "early_stopping": "patience",
          "callbacks": "callback", "verbose": "progress"}


def _keys(but=NOTES):
    keys, i = ctypes.cast(_c.lib.qg_recipe_keys, ctypes.POINTER(_c.RecipeKey)), 0
    table = {}
    while keys[i].name:
        name = keys[i].name.decode().replace("-", "_")
        if keys[i].help and name not in but:
            table[name] = keys[i]
        i += 1
    return table


def find_key(name, but=()):
    """The key of this name, except for those."""
    known = _keys(but)
    if name not in known:
        near = [OTHERS[name]] if name in OTHERS else difflib.get_close_matches(name, known, 1)
        raise TypeError("no option is called %r; qgrad.options() lists them%s" % (name, "; did you mean %s?" % near[0] if near else ""))
    return known[name]


def options() -> Dict[str, str]:
    """The options of fit, with what each means; a value in [] is its default, unless the model has one of its own.  Those of the
    command line, with _ for -."""
    return {name: " ".join(k.help.decode().split()) + (" [%s]" % k.fallback.decode() if k.fallback else "")
            for name, k in _keys().items()}


def _expect(name, value, kinds, what):
    if not isinstance(value, kinds) or isinstance(value, bool):         # which Python takes for a number
        raise TypeError("%s is of the type %s, not %s" % (name, type(value).__name__, what))


class Recipe:
    """What is trained, as text."""

    def __init__(self, given):
        self.p = _c.pointer(_c.lib.qg_recipe_new())
        for name, value in given.items():
            is_list = find_key(name, NOTES).kind == LIST
            for item in value if isinstance(value, (list, tuple)) and is_list else [value]:
                if item is not None:
                    item = _c.c_string(_c.text(item, name).encode())
                    _c.check(_c.lib.qg_recipe_set(self.p, name.replace("_", "-").encode(), item))

    def __del__(self):
        if getattr(self, "p", None):
            _c.lib.qg_recipe_free(self.p)


# --- images ------------------------------------------------------------------------------------


def _labels(y, what, images, classes):
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] > 1:
        raise ValueError("%s has the shape %s: pass the number of the class of each image, such as %s.argmax(1)" % (what, y.shape, what))
    if y.dtype.kind in "USO":
        raise TypeError("%s has the type %s: pass numbers, np.unique(%s, return_inverse=True)[1]" % (what, y.dtype, what))
    if y.dtype.kind not in "iu":
        raise TypeError("%s has the type %s: labels are integers, 0 .. classes - 1" % (what, y.dtype))
    if y.size != len(images) or y.ndim > 2:
        raise ValueError("%s has the shape %s for %d images" % (what, y.shape, len(images)))
    most = (classes or MOST_CLASSES) - 1
    if y.min() < 0 or y.max() > most:
        raise ValueError("%s has labels from %d to %d, not in 0..%d" % (what, y.min(), y.max(), most))
    return np.ascontiguousarray(y.reshape(-1), "<i8")


def _pair(pair, names, classes):
    images = _c.image_bytes(pair[0], names[0])
    if not len(images):
        raise ValueError("%s has no images" % names[0])
    return images, _labels(pair[1], names[1], images, classes)


def _named_pair(pair, name, classes):
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError("%s is a pair of images and labels, (x, y)" % name)
    return _pair(pair, (name + "[0]", name + "[1]"), classes)


def _hold_out(x, y):
    """Every tenth image of each class, for tests."""
    order = np.argsort(y, kind="stable")
    rank = np.arange(len(y)) - np.searchsorted(y[order], y[order])      # within its class
    held = np.sort(order[rank % 10 == 9])
    if not len(held):
        raise ValueError("no class has ten images, to hold one out for tests: pass test=(x, y)")
    kept = np.delete(np.arange(len(x)), held)
    return (x[kept], y[kept]), (x[held], y[held])


def _store(array, directory):
    """Writes the array to a file that is called by its digest, unless it is there."""
    digest = hashlib.blake2b(repr((array.shape, array.dtype.str)).encode(), digest_size=8)
    digest.update(array.reshape(-1).view("u1"))
    name = digest.hexdigest() + ".npy"
    path = os.path.join(directory, name)
    part = "%s.%d-%d" % (path, os.getpid(), threading.get_ident())
    if not os.path.exists(path):
        try:
            with open(part, "wb") as f:
                np.save(f, array)
                f.flush()
                os.fsync(f.fileno())        # a power failure leaves no half of it under its name
            os.replace(part, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.remove(part)
            raise
    return name


def _data(x, y, test, validation, classes, directory):
    """The options data and data_dir."""
    if classes is not None and not 1 <= classes <= MOST_CLASSES:
        raise ValueError("classes is %d, not in 1..%d" % (classes, MOST_CLASSES))
    splits = {"train": _pair((x, y), ("x", "y"), classes)}
    if isinstance(validation, (tuple, list)):
        splits["validation"] = _named_pair(validation, "validation", classes)
    if test is not None:
        splits["test"] = _named_pair(test, "test", classes)
    else:
        splits["train"], splits["test"] = _hold_out(*splits["train"])
    os.makedirs(directory, exist_ok=True)
    files = []
    for split in sorted(splits):
        images, labels = splits[split]
        files += ["%s=%s" % (split, _store(images, directory)), "%s-labels=%s" % (split, _store(labels, directory))]
    if classes is not None:
        files.append("classes=%d" % classes)
    return {"data": "arrays:" + ",".join(files), "data_dir": os.path.abspath(directory)}


def _has_channels_first(shape):
    """As far as the numbers tell."""
    return len(shape) == 4 and shape[1] in (1, 3) and min(shape[2:]) > 4


def _other_arrays(message, place):
    """The error for a run that has other arrays, by its message, which names their files."""
    was, now = (dict(re.findall(r"([a-z-]+)=([^, ]+)", part)) for part in message.split(" in the run, but "))
    others = [split for split in {**was, **now} if was.get(split) != now.get(split)]
    return ValueError("%s: not those of the run in %s, which keeps its initial images and labels" % (", ".join(others), place))


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
        self.progress, self.callback, self.line = progress, callback, progress and sys.stdout and sys.stdout.isatty()
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
        warnings.warn(text.decode(), stacklevel=5)

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
            found = [_c.lib.qg_loader_warning(loader) for loader in (training[0].train, training[0].test)]
            for warning in {re.sub(r"^'.*\.npy'", "x", warning.decode()) for warning in found if warning}:
                warnings.warn(warning, stacklevel=3)
            status = _c.lib.qg_fit(training[0].net, training[0].fit, None)
            error = _c.failure() if status else watch.error
        finally:
            _c.lib.qg_training_free(training)
    if watch.error or error:
        raise watch.error or error
    if watch.interrupted:
        raise KeyboardInterrupt("%s is saved; fit(.., out=%r, resume=True) goes on" % (place, place))


def fit(net: str, x=None, y=None, *, test: Optional[Images] = None, validation: Union[Images, str, float, None] = None,
        out: Union[str, os.PathLike, None] = None, resume: bool = False, force: bool = False, init: Union[str, Run, None] = None,
        budget: float = 0, callback: Optional[Callable[[Dict[str, Any]], Any]] = None, progress: bool = True,
        classes: Optional[int] = None, **given) -> Run:
    """Trains a net and returns its run, with the last weights; Run.open(run.path, "best") has those of the best epoch.  The
    weights are those of `qgrad train` with the same options, to the last bit.

        run = qgrad.fit("lenet5", x, y, test=(xt, yt), weight="twn", epochs=3)
        run = qgrad.fit("32C5-BN-R-MP2-10", x, y, weight="lsq:bits=2", input="lsq:bits=2", layer=["conv1:weight=float"])
        run = qgrad.fit("lenet5", data="mnist", data_dir="datasets/mnist")

    net         a model, or a net as text
    x, y        images [n][h][w][c] and labels [n], 0 .. classes - 1.  Images are uint8, or floats in 0..1, which are rounded to
                the nearest k / 255; the option normalise says what becomes of them.  [n][h][w] has one channel.  x and y may
                have any strides, and are not changed
    test        a pair of images and labels.  Without it, every tenth image of each class of x is held out
    validation  chooses the best epoch in place of the test images: such a pair, or how many to hold out, 5000, 0.1 or "10%"
    out         the run directory; by default a new one in runs/.  Images are stored beside it, in arrays/, once
    resume      continue the run in out, or begin it;   force: rename the run in out and begin again
    init        a run, its directory, or a safetensors file, to start from
    budget      seconds after which the run is saved and fit returns; 0: none
    callback    called after each epoch with its row of metrics, a dict.  An exception in it saves the run and ends fit
    progress    print a line after each epoch
    classes     how many; by default as many as the labels need
    given       the options of the command line, with _ for -: weight, input, layer (a list), epochs, batch, optimizer, lr,
                schedule, augment, seed, threads, ..; options() lists them all.  teacher may be a run

    Ctrl-C saves the run and raises KeyboardInterrupt; fit with the same arguments, out and resume=True goes on."""
    _expect("net", net, str, "a string")
    _expect("budget", budget, numbers.Real, "a number")
    _expect("classes", classes, (numbers.Integral, type(None)), "a whole number")
    _expect("callback", callback, (Callable, type(None)), "a function")
    if budget < 0:
        raise ValueError("budget is %g, must be 0 or more" % budget)
    if "model" in given:
        raise TypeError("the model is the first argument, net")
    if resume and force:
        raise ValueError("resume and force exclude each other")
    if resume and out is None:
        raise ValueError("resume needs out, the directory of the run")
    if (x is None) == ("data" not in given) or (x is None) != (y is None) or (x is not None and "data_dir" in given):
        raise TypeError("pass images and labels, x and y, or the options data and data_dir")
    if x is None and (test is not None or isinstance(validation, (tuple, list)) or classes is not None):
        raise TypeError("test, validation and classes belong to arrays: data has its own")
    if validation is not None and not isinstance(validation, (tuple, list)):
        share = isinstance(validation, (float, np.floating))
        if share and not 0 <= validation < 1:
            raise ValueError("validation is %g; pass a fraction below 1, or a whole number of images" % validation)
        given["validation"] = "%r%%" % (100 * float(validation)) if share else validation
    init = init._file("init") if isinstance(init, Run) else init
    if isinstance(given.get("teacher"), Run):
        given["teacher"] = given["teacher"]._file("teacher")
    if out is not None:
        out = os.fsdecode(out)
        if os.path.basename(os.path.normpath(out)) == "arrays":
            raise ValueError("out is %r, but images are stored in a directory of this name" % out)
    Recipe({"model": net, **given})                     # what is wrong with an option is found before anything is written
    if x is not None:
        directory = os.path.join("runs" if out is None else os.path.dirname(os.path.normpath(out)) or ".", "arrays")
        given.update(_data(x, y, test, validation, classes, directory))
    place = _free_directory(net, given.get("weight", "float")) if out is None else out
    try:
        _train(Recipe({"model": net, **given}), place, RESUME if resume else FORCE if force else NEW, init, budget, progress, callback)
    except BaseException as error:
        if out is None:
            with contextlib.suppress(OSError):          # unless it has files
                os.rmdir(place)
        if str(error).startswith("data is arrays:") and x is not None:
            raise _other_arrays(str(error), place) from None
        if isinstance(error, ValueError) and x is not None and _has_channels_first(np.shape(x)) and "transpose" not in str(error):
            raise ValueError("%s; x has the shape %s, and images are [n][h][w][c]: x.transpose(0, 2, 3, 1)" % (error, np.shape(x))) from None
        raise
    return Run(place)
