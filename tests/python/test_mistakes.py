"""What users of the Python package do wrong, and what interrupts a training: test_mistakes.py PROGRAM, with $QGRAD_LIB.  Ends
with "N passed, M failed"."""
import copy
import gc
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings

import numpy as np
from support import refuses, root, run_tests

import qgrad

PROGRAM = os.path.abspath(sys.argv[1])
NET = "4C3-BN-R-MP2-3"
rng = np.random.default_rng(7)
x, y = rng.integers(0, 256, (90, 8, 8, 1), "u1"), np.arange(90) % 3
test = (x[:30], y[:30])


warnings.simplefilter("ignore", UserWarning)            # such a net does not learn


def fit(x=x, y=y, net=NET, **given):
    return qgrad.fit(net, x, y, **{"epochs": 1, "batch": 16, "progress": False, **given})


def digest(**given):
    return fit(**given).result["digest"]


def refuses_fit(error, part, **given):
    refuses(error, part, fit, **{"out": "refused", **given})
    assert not os.path.exists("refused"), "%s has left a directory" % part


# --- arguments ---------------------------------------------------------------------------------


def test_images():
    for wrong in (x.astype("i8"), x > 9, x * 1j, x.astype("O"), x.astype(str), x.tolist(), "x"):
        refuses_fit(TypeError, "x has the type", x=wrong)
    for wrong in (x.astype("f4"), x / -255.0):
        refuses_fit(ValueError, "x has floats from", x=wrong)
    for wrong in (np.where(x > 99, np.nan, 0.5), np.where(x > 99, np.inf, 0.5).astype("f2")):
        refuses_fit(ValueError, "x has %d values that are not finite" % (x > 99).sum(), x=wrong)
    for wrong in (x.reshape(90, -1), x[None], x[0, 0, 0], np.uint8(3)):
        refuses_fit(ValueError, "x has the shape", x=wrong)
    refuses_fit(ValueError, "x has no images", x=x[:0], y=y[:0])
    refuses_fit(ValueError, "no class has ten images", x=x[:9], y=y[:9])
    refuses_fit(ValueError, "window of 2x2 is larger than its input", x=x.transpose(0, 3, 1, 2))
    try:
        qgrad.fit("4C3-MP9-3", np.zeros((30, 3, 8, 8), "u1"), y[:30], out="refused")
    except ValueError as e:
        assert str(e).count("transpose") == 1, e
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        qgrad.fit("3", np.zeros((30, 3, 8, 8), "u1"), y[:30], epochs=1, progress=False, out="nchw")
        fit(x // 255, out="dark")
    said = "\n".join(str(w.message) for w in given)
    assert "use x.transpose(0, 2, 3, 1)" in said and "white is 255" in said, said
    assert given[0].filename == __file__


def test_labels():
    refuses_fit(ValueError, "such as y.argmax(1)", y=np.eye(3)[y])
    for wrong in (y.astype("f4"), y > 0, y.astype(str), [None] * 90):
        refuses_fit(TypeError, "y has the type", y=wrong)
    for wrong in (y[:-1], y[:, None, None], 3):
        refuses_fit(ValueError, "for 90 images", y=wrong)
    for wrong in (y - 1, y + 65535, y.astype("u8") + 2**63):
        refuses_fit(ValueError, "y has labels from", y=wrong)
    refuses_fit(ValueError, "3 outputs, but the data has 1 class", y=y * 0)
    refuses_fit(ValueError, "3 outputs, but the data has 5 classes", y=y * 2)
    refuses_fit(ValueError, "y has labels from 0 to 2, not in 0..1", classes=2)
    refuses_fit(ValueError, "classes is 0, not in 1..65535", classes=0)
    for wrong in ("3", 3.0):
        refuses_fit(TypeError, "not a whole number", classes=wrong)


def test_other_splits():
    for split in ("test", "validation"):
        refuses_fit(ValueError, split + "[1] has the shape (5,) for 90 images", **{split: (x, y[:5])})
        refuses_fit(TypeError, split + "[0] has the type int64", **{split: (x.astype("i8"), y)})
        refuses_fit(ValueError, split + "[0] has no images", **{split: (x[:0], y[:0])})
        refuses_fit(TypeError, split + " is a pair of images and labels", **{split: (x,)})
    refuses_fit(TypeError, "test is a pair", test="test")
    refuses_fit(ValueError, "test images are 4x8x1, training images 8x8x1", test=(x[:, :4], y))
    refuses_fit(ValueError, "validation: images of 4x8x1", validation=(x[:, :4], y))
    refuses_fit(ValueError, "neither a number of images nor a percentage", validation="tenth")
    refuses_fit(ValueError, "the classes can spare at most", validation=90)
    refuses_fit(TypeError, "validation is of the type ndarray", validation=x)


def test_arrays_of_any_layout():
    want = digest(out="same-1")
    frozen = x.copy()
    frozen.flags.writeable = False
    n = 1
    for same in (np.asfortranarray(x), x[::-1][::-1], np.repeat(x, 2, 0)[::2], frozen, x[..., 0], (x / 255).tolist(),
                 *((x / 255).astype(dtype) for dtype in ("f2", "f4", "f8", ">f4", "longdouble"))):
        before = np.array(same)
        n += 1
        assert digest(x=same, out="same-%d" % n) == want
        np.testing.assert_array_equal(same, before)
    for same in (y.tolist(), y[:, None], y.astype("u1"), y.astype(">i4"), y[::-1][::-1]):
        n += 1
        assert digest(y=same, out="same-%d" % n) == want
    every = np.arange(0x3c01, dtype="u2").view("f2")        # the halves from 0 to 1
    nearest = np.rint(every.astype("f8") * 255)
    np.testing.assert_array_equal(qgrad._c.image_bytes(every[:, None, None], "x").ravel(), nearest)
    assert len(os.listdir("arrays")) < 30, "arrays that are equal are stored once"


def test_options():
    for error, part, given in (
            (TypeError, "no option is called 'wieght'; qgrad.options() lists them; did you mean weight?", {"wieght": "twn"}),
            (TypeError, "did you mean batch?", {"batch_size": 3}),
            (TypeError, "weight is of the type dict", {"weight": {"bits": 2}}),
            (TypeError, "epochs is of the type list", {"epochs": [1, 2]}),
            (TypeError, "lr is of the type ndarray", {"lr": np.array([0.1])}),
            (TypeError, "the model is the first argument", {"model": "lenet5"}),
            (TypeError, "pass images and labels, x and y, or the options data", {"data": "mnist"}),
            (TypeError, "pass images and labels, x and y, or the options data", {"data_dir": "."}),
            (TypeError, "net is of the type NoneType", {"net": None}),
            (TypeError, "budget is of the type str", {"budget": "60"}),
            (TypeError, "budget is of the type bool", {"budget": True}),
            (TypeError, "classes is of the type bool", {"classes": True}),
            (TypeError, "callback is of the type int", {"callback": 5}),
            (TypeError, "not int", {"out": 5}),
            (ValueError, "unknown model 'lenet6'", {"net": "lenet6"}),
            (ValueError, "character 6: a layer is missing", {"net": "10C3-"}),
            (ValueError, "unknown scheme 'tnw' for weights", {"weight": "tnw"}),
            (ValueError, "a scheme for inputs, not for weights", {"weight": "sign"}),
            (ValueError, "a scheme for weights, not for inputs", {"input": "twn"}),
            (ValueError, "net has no layer 'conv9'", {"layer": ["conv9:weight=float"]}),
            (ValueError, "pass optimizer bop", {"weight": "bop", "optimizer": "sgd"}),
            (ValueError, "has a null byte", {"weight": "twn\0"}),
            (ValueError, "epochs -1 is not in", {"epochs": -1}),
            (ValueError, "epochs '1.5' is not a whole number", {"epochs": 1.5}),
            (ValueError, "epochs 'true'", {"epochs": True}),
            (ValueError, "lr must be positive", {"lr": -1}),
            (ValueError, "lr 'nan' is not a number", {"lr": float("nan")}),
            (ValueError, "validation is 1.5; pass a fraction below 1, or a whole number of images", {"validation": 1.5}),
            (ValueError, "validation is -0.1; pass", {"validation": np.float32(-0.1)}),
            (ValueError, "budget is -0.5, must be 0 or more", {"budget": -0.5}),
            (ValueError, "budget is not a number", {"budget": float("nan")}),
            (ValueError, "unknown normalisation 'standard'", {"normalise": "standard"}),
            (ValueError, "no layer is named 'conv9'", {"freeze": "conv9"}),
            (ValueError, "resume and force exclude each other", {"resume": True, "force": True}),
            (ValueError, "resume needs out", {"resume": True, "out": None}),
            (OSError, "init: cannot open 'nowhere'", {"init": "nowhere"}),
            (OSError, "teacher: there is no run 'nowhere'", {"teacher": "nowhere"})):
        refuses_fit(error, part, **given)
    refuses(TypeError, "no option is called 'early_stopping'; qgrad.options() lists them; did you mean patience?", fit, early_stopping=3)
    refuses(TypeError, "pass images and labels", qgrad.fit, NET, x)
    refuses(TypeError, "belong to arrays", qgrad.fit, NET, data="sample", test=test)
    want = digest(epochs=2, lr=0.05, batch=16, out="plain")
    assert digest(epochs=np.int64(2), lr=np.float64(0.05), batch=np.uint8(16), out="numpy", weight=None) == want


def test_directories():
    fit(out="first", epochs=2)
    refuses(RuntimeError, "first already contains a run; resume continues it, force renames it", fit, out="first")
    refuses(ValueError, "weight is float in the run, but twn was requested", fit, out="first", resume=True, weight="twn")
    refuses(ValueError, "train, test: not those of the run in first", fit, out="first", resume=True, x=255 - x)
    refuses(ValueError, "validation-labels: not those of the run", fit, out="first", resume=True, validation=test)
    fit(out="first", force=True)
    assert os.path.exists("first.old") and qgrad.Run("first").result["epochs"] == 1
    want = digest(out="first", epochs=3, resume=True)
    assert digest(out="fresh", epochs=3, resume=True) == want       # a resume of nothing begins
    with open("file", "w"):
        pass
    refuses(OSError, "file: Not a directory", fit, out="file")
    refuses(OSError, "Not a directory", fit, out="file/run")
    refuses(OSError, "", fit, out="/proc/no/run")
    refuses(ValueError, "has a null byte", fit, out="a\0b")
    refuses(ValueError, "the path of a directory is empty", fit, out="")
    for out in ("neu/tief/\u00fcn\u00ef \u2603", b"bytes", "no-utf-\udc80"):
        assert fit(out=out).path == os.fsdecode(out)
    before = set(os.listdir("."))
    refuses(ValueError, "unknown scheme", fit, weight="tnw")
    refuses(ValueError, "larger than its input", fit, net="lenet5", out=None)
    assert [fit().path, fit().path] == [os.path.join("runs", NET + "-float" + n) for n in ("", "-2")]
    assert sorted(os.listdir("runs")) == [NET + "-float", NET + "-float-2", "arrays"]
    assert set(os.listdir(".")) == before | {"runs"}


# --- runs, nets and quantizers -----------------------------------------------------------------


def test_runs():
    run = fit(out="run")
    refuses(ValueError, "weights is 'worst'", qgrad.Run, "run", "worst")
    refuses(OSError, "there is no run 'nowhere'", qgrad.Run, "nowhere")
    refuses(ValueError, "no safetensors file", qgrad.Run, __file__)
    refuses(TypeError, "not int", qgrad.Run, 5)
    refuses(ValueError, "x has images of (4, 8, 1), but the run is for (8, 8, 1)", run.predict, x[:, :4])
    refuses(TypeError, "pass images as uint8", run.predict, x.astype(int))
    assert run.predict(x[:0]).shape == (0, 3)
    refuses(OSError, "cannot write '/nowhere/net'", run.export, "/nowhere/net")
    refuses(OSError, "cannot write '.'", run.export, ".")
    refuses(ValueError, "to is 'tflite'", run.export, "net", "tflite")
    with open("notes.txt", "w") as f:
        f.write("mine")
    refuses(ValueError, "'net.tflite': names end in .qg, .onnx or .c", run.export, "net.tflite")
    refuses(FileExistsError, "'notes.txt' is no packed net", run.export, "notes.txt", "packed")
    assert open("notes.txt").read() == "mine"
    refuses(ValueError, "with to='onnx' nchw", run.export, "net", input_layout="nchw")
    refuses(ValueError, "cannot express how its images are normalised", fit(out="white", normalise="whiten").export, "net")
    assert not os.path.exists("net")
    refuses(RuntimeError, "run already exists", run.quantize, "run")
    refuses(ValueError, "the path of a directory is empty", run.quantize, "")
    refuses(TypeError, "quantize has no option 'epochs'", run.quantize, "quantized", epochs=3)
    refuses(ValueError, "images were asked for", run.quantize, "quantized", images=91)
    for wrong in (2**32 + 5, -2**31 - 1):
        refuses(ValueError, "images is %d, which is not in" % wrong, run.quantize, "quantized", images=wrong)
    refuses(TypeError, "interpreted as an integer", run.quantize, "quantized", images=5.0)
    many = np.broadcast_to(x[:1], (2**32 + 1, 8, 8, 1))
    refuses(ValueError, "the number of images in x is 4294967297, which is not in", run.predict, many)
    refuses(ValueError, "has a null byte", run.get, "weight\0x")
    refuses(TypeError, "no option is called 'wieght'; qgrad.options() lists them; did you mean weight?", run.get, "wieght")
    assert run.get("teacher") is None and run.get("recipe") is None and run.get("data-digest")
    refuses(ValueError, "nothing to quantize", run.quantize("quantized").quantize, "twice")
    assert not os.path.exists("twice")
    refuses(ValueError, "has no file with the weights that it began with", fit, init=qgrad.Run("run", "start"))
    refuses(ValueError, "teacher: run has no file with the weights that it began with", fit, teacher=qgrad.Run("run", "start"))
    assert digest(teacher=run, out="taught") == digest(teacher="run/last.safetensors", out="taught-2")
    fit(init=qgrad.Run("run", "best"), out="from-best")
    shutil.copy("run/best.safetensors", "copied.safetensors")
    assert fit(init=qgrad.Run("copied.safetensors"), out="from-copy").get("init-digest") == qgrad.Run("from-best").get("init-digest")
    refuses(ValueError, "classes: not those of the run in run", fit, out="run", resume=True, classes=3)
    assert fit(validation=np.float32(0.25), out="share").get("validation") == fit(validation=0.25, out="share2").get("validation")
    shutil.copytree("run", "damaged")
    with open("damaged/last.safetensors", "r+b") as f:
        f.seek(-100, 2)
        f.write(b"\x55")
    refuses(ValueError, "damaged", qgrad.Run("damaged").predict, x)
    refuses(ValueError, "damaged", fit, out="damaged", epochs=2, resume=True)
    run.close()
    run.close()
    for call in (run.metrics, run.weights, lambda: run.path, lambda: run.class_names, lambda: run.predict(x), lambda: run.export("net")):
        refuses(ValueError, "the run is closed", call)


def test_runs_do_not_mix():
    """A run has no file of another that is called alike."""
    one, other = fit(out="here/one"), fit(out="there/here/one", epochs=2)
    shutil.copy("here/one/best.safetensors", "there/here/one/copied.safetensors")
    copied = qgrad.Run("there/here/one/copied.safetensors")
    for call in (lambda: copied.result, copied.metrics):
        refuses(ValueError, "a copied checkpoint has neither result nor metrics", call)
    for own in ("here/one/last.safetensors", "here/one/best.safetensors"):
        assert qgrad.Run(own).path == "here/one" and qgrad.Run(own).result == one.result
    before, scores, where = one.result, copied.predict(x), os.getcwd()
    os.chdir("there")
    try:
        assert one.path == "here/one" and one.result == before and len(one.metrics()["epoch"]) == 1
        np.testing.assert_array_equal(qgrad.Run(os.path.join(where, "here/one"), "best").predict(x), scores)
        taken = fit(init=one, out="taken").get("init-digest")
        assert taken == fit(init=os.path.join(where, "here/one"), out="taken-2").get("init-digest")
        assert qgrad.Run("here/one/").path == "here/one"
    finally:
        os.chdir(where)
    loaded = qgrad.Run("there/here/one")
    scores = loaded.predict(x)
    unloaded = qgrad.Run("there/here/one")
    fit(out="there/here/one", force=True)
    for call in (lambda: other.result, other.metrics, lambda: unloaded.predict(x),
                 lambda: fit(init=other, out="refused")):
        refuses(RuntimeError, "there/here/one is no longer the directory of this run", call)
    np.testing.assert_array_equal(loaded.predict(x), scores)
    assert qgrad.Run("there/here/one.old").result["epochs"] == 2


def test_nets():
    fit(out="packed").export("net.qg")
    net = qgrad.Net("net.qg")
    refuses(FileNotFoundError, "nowhere", qgrad.Net, "nowhere")
    refuses(TypeError, "not int", qgrad.Net, 0)         # no file descriptor
    for garbage in (b"", b"x" * 1000):
        refuses(ValueError, "not a packed net", qgrad.Net, garbage)
    refuses(ValueError, "x has images of (4, 8, 1)", net.predict, x[:, :4])
    for image in (x[:1], np.float32(0)):
        many = np.broadcast_to(image, (2**32 + 1, 8, 8, 1))
        refuses(ValueError, "the number of images in x is 4294967297", net.predict, many, many.dtype == "f4")
    refuses(ValueError, "x has images of ()", net.predict, np.float32(0), True)
    refuses(ValueError, "has a null byte", net.note, "class-names\0x")
    want = net.predict(x)
    copies = [copy.copy(net), copy.deepcopy(net), pickle.loads(pickle.dumps(net))]
    del net
    gc.collect()
    for same in copies:
        np.testing.assert_array_equal(same.predict(x), want)


def test_handles():
    """Memory of the library is freed once, and not while it is used."""
    run, z = fit(out="handle"), qgrad.Quantizer("lsq:bits=2", (2, 3))
    for handle in (run, z):
        for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
            refuses(TypeError, "neither copied nor pickled", duplicate, handle)
    z.forward(np.ones((2, 3)))
    want, step = z.learned["step"].copy(), z.learned["step"]
    del z
    gc.collect()
    np.testing.assert_array_equal(step, want)           # which keeps its quantizer
    many, want, wrong = np.repeat(x, 50, 0), run.predict(x), []

    def use(run):
        try:
            while True:
                if not np.array_equal(run.predict(many)[:50:50], want[:1]):
                    wrong.append(run)
        except ValueError:                              # closed
            pass

    for _ in range(10):
        with qgrad.Run("handle") as run:
            threads = [threading.Thread(target=use, args=(run,)) for _ in range(2)]
            for t in threads:
                t.start()
            run.class_names, run.metrics(), run.weights()
        for t in threads:
            t.join()
    assert not wrong


def test_quantizers():
    for error, part, arguments in ((TypeError, "cannot be interpreted as an integer", ("twn", None)), (ValueError, "1 to 4 axes", ("twn", ())),
                                   (ValueError, "each of at least 1", ("twn", (0, 3))), (TypeError, "integer", ("twn", (2.5, 3))),
                                   (ValueError, "each of at least 1", ("twn", (2**32 + 3, 3))), (ValueError, "null byte", ("twn\0", (3,))),
                                   (ValueError, "1 to 4 axes", ("twn", (1, 2, 3, 4, 5))), (ValueError, "role is 'w'", ("twn", (3,), "w")),
                                   (TypeError, "scheme is of the type", (None, (3,))), (ValueError, "bits is 0", ("lsq:bits=0", (3,)))):
        refuses(error, part, qgrad.Quantizer, *arguments)
    z = qgrad.Quantizer("lsq:bits=2", (2, 3))
    one = np.ones((2, 3))
    refuses(RuntimeError, "backward comes once after each forward", z.backward, one)
    refuses(ValueError, "x has the shape (3, 2), not (2, 3)", z.forward, one.T)
    z.forward(one)
    refuses(ValueError, "dy has the shape (6,)", z.backward, np.ones(6))
    z.backward(one)
    refuses(RuntimeError, "backward comes once after each forward", z.backward, one)
    z.forward(one, train=False)
    refuses(RuntimeError, "backward comes once after each forward", z.backward, one)


def test_seeds():
    dy, drawn = np.full((8, 8), 0.5) + np.eye(8), []
    for seed in (4, 4, 5):
        z = qgrad.Quantizer("stochastic", dy.shape, "gradient", seed=seed)
        z.forward(dy)
        drawn.append(z.backward(dy))
    assert np.array_equal(drawn[0], drawn[1]) and not np.array_equal(drawn[0], drawn[2])


def test_modules():
    try:
        import torch
    except ImportError:
        print("no PyTorch: its modules are not tested")
        return
    import qgrad.torch
    w = torch.nn.Parameter(torch.randn(4, 3, 3, 3))
    m = qgrad.torch.Quantizer("lsq:bits=4", w.shape)
    refuses(TypeError, "torch.float64 on cpu", m, w.double())
    refuses(TypeError, "ndarray, not a tensor", m, w.detach().numpy())
    refuses(ValueError, "x has the shape (2, 3, 3, 3)", m, w[:2])
    dy, drawn = torch.full((8, 8), 0.5) + torch.eye(8), []
    for seed in (None, None, 7, 7):
        t = torch.zeros(8, 8, requires_grad=True)
        qgrad.torch.Quantizer("stochastic", t.shape, "gradient", seed)(t).backward(dy)
        drawn.append(t.grad)
    assert not torch.equal(drawn[0], drawn[1]) and torch.equal(drawn[2], drawn[3])
    refuses(ValueError, "x has the shape ()", qgrad.torch.Quantizer("sign", (1, 3), "input"), torch.tensor(1.0))
    refuses(ValueError, "1 to 4 axes", qgrad.torch.Quantizer, "twn", (1, 2, 3, 4, 5))
    early, late = m(w).sum(), m(w).sum()
    refuses(RuntimeError, "after another forward", early.backward)
    late.backward(retain_graph=True)
    refuses(RuntimeError, "once after each forward", late.backward)
    gradient, = torch.autograd.grad(m(w).pow(2).sum(), w, create_graph=True)
    refuses(RuntimeError, "differentiate twice", gradient.sum().backward)
    refuses(RuntimeError, "in eval() has no gradient", m.eval()(w).sum().backward)
    with torch.no_grad():
        assert not m.train()(w).requires_grad
        m.step *= 1.5
    again = qgrad.torch.Quantizer("lsq:bits=4", w.shape)
    again.load_state_dict(m.state_dict())
    for same in (copy.deepcopy(m), pickle.loads(pickle.dumps(m)), again):
        assert torch.equal(same(w), m(w)) and torch.equal(same.step, m.step)
    inputs = qgrad.torch.Quantizer("lsq:bits=4", (1, 3), "input")
    inputs(torch.randn(8, 3))
    step = inputs.step.clone()
    inputs(100 * torch.randn(3, 3))                     # the last batch of an epoch may be smaller
    assert torch.equal(inputs.step, step)
    frozen = qgrad.torch.Quantizer("fake_quant:range=observed,freeze-after=2,decay=0.5", (1, 3), "input")
    for _ in range(2):
        frozen(torch.randn(8, 3))
    end = frozen.max.clone()
    earlier = {k: v for k, v in frozen.state_dict().items() if k != "forwards"}
    qgrad.torch.Quantizer("fake_quant:range=observed", (1, 3), "input").load_state_dict(earlier)
    for later in (frozen, pickle.loads(pickle.dumps(frozen))):      # all batches count, and those of a copy go on
        later(100 * torch.randn(3, 3))
        assert torch.equal(later.max, end) and later.forwards == 3
    noisy = qgrad.torch.Quantizer("stochastic", (1, 8), "gradient")

    def noise(module):
        t = torch.zeros(8, 8, requires_grad=True)
        module(t).backward(dy)
        return t.grad

    first = noise(noisy)
    other = copy.deepcopy(noisy)
    second = noise(noisy)
    assert torch.equal(noise(other), second) and not torch.equal(first, second)


def test_setup_outside_the_tree():
    """pip before 21.3 copies the directory python alone."""
    try:
        import wheel.bdist_wheel  # noqa: F401
    except ImportError:
        print("no wheel: setup.py is not tested")
        return
    os.makedirs("alone/python")
    shutil.copy(os.path.join(root, "python", "setup.py"), "alone/python")
    said = subprocess.run([sys.executable, "setup.py", "--version"], cwd="alone/python", capture_output=True,
                          text=True)
    assert said.returncode == 1 and said.stderr.endswith("install with pip 21.3 or later\n"), said.stderr


# --- what interrupts a training ----------------------------------------------------------------


LONG = dict(x=np.repeat(x, 12, 0), y=np.repeat(y, 12), epochs=25, test=test, weight="twn")     # some tenths of a second
_whole = []


def whole():
    """The digest of an undisturbed run."""
    if not _whole:
        _whole.append(digest(out="whole", **LONG))
    return _whole[0]


def interrupted(code):
    """How a process ends that gets SIGINT once it has printed a line."""
    # A shell ignores SIGINT in what it runs in the background, and so would the child.
    child = subprocess.Popen([sys.executable, "-c", "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
                              "sys.argv[1:] = %r; sys.path.insert(0, %r)\nfrom test_mistakes import *\n%s"
                              % ([PROGRAM], os.path.dirname(os.path.abspath(__file__)), code)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    child.stdout.readline()
    child.send_signal(signal.SIGINT)
    return child.wait(60), child.communicate()[1]


def test_ctrl_c():
    """In the main thread it saves the run; in another it ends the process, as it ends any program."""
    status, error = interrupted("fit(out='ctrl-c', callback=lambda row: print(row, flush=True), **LONG)")
    assert status == -signal.SIGINT and "ctrl-c is saved; fit(.., out='ctrl-c', resume=True) goes on" in error, error
    assert qgrad.Run("ctrl-c").result["ended"] == "stop"
    assert digest(out="ctrl-c", resume=True, **LONG) == whole()
    status, error = interrupted("""def train():
        fit(out='thread', callback=lambda row: print(row, flush=True), **LONG)
t = threading.Thread(target=train, daemon=True)
t.start()
t.join()""")
    assert status == -signal.SIGINT and not qgrad.Run("thread").result["complete"], error
    assert digest(out="thread", resume=True, **LONG) == whole()


def test_exceptions_of_the_caller():
    def fail(row):
        if row["epoch"] == 2:
            raise KeyError("mine")

    refuses(KeyError, "mine", fit, out="raised", callback=fail, **LONG)
    assert qgrad.Run("raised").result["epochs"] == 2
    assert digest(out="raised", resume=True, **LONG) == whole()


def test_warnings_as_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        blank = dict(x=x | 255, test=(x | 255, y), epochs=5, batch=2)  # 225 steps that can learn nothing
        refuses(UserWarning, "no better than with one class", qgrad.fit, NET, y=y, progress=False, out="chance", **blank)
        refuses(UserWarning, "x.transpose", qgrad.fit, "3", np.zeros((30, 3, 8, 8), "u1"), y[:30], out="refused")
    assert not os.path.exists("refused") and not qgrad.Run("chance").result["complete"]
    assert digest(out="chance", resume=True, **blank) == digest(out="chances", **blank)


def test_budget():
    assert fit(out="budget", budget=0.01, **LONG).result["ended"] == "budget"
    assert digest(out="budget", resume=True, **LONG) == whole()


def in_process(out, results):
    results.put(digest(out=out, **LONG))


def test_threads_and_processes():
    """Each trains as if it were alone, and a run may be read and others trained in a callback."""
    want = whole()
    digests = {}
    threads = [threading.Thread(target=lambda n=n: digests.update({n: digest(out="thread-%d" % n, **LONG)})) for n in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert digests == {0: want, 1: want}
    fork = multiprocessing.get_context("fork")
    results = fork.Queue()
    child = fork.Process(target=in_process, args=("forked", results))
    child.start()
    assert results.get(timeout=60) == want
    child.join()
    seen = []

    def look(row):
        if row["epoch"] == 2:
            held = "watched is locked: another training holds it"
            refuses(RuntimeError, held, fit, out="watched", resume=True, **LONG)
            seen.append((qgrad.Run("watched").predict(x).shape, digest(out="inner")))

    assert digest(out="watched", callback=look, **LONG) == want
    assert seen == [((90, 3), digest(out="outer"))]


def test_as_the_command_line():
    """The same bits as `qgrad train` with files of numpy.save."""
    arrays = []
    for name, (images, labels) in (("train", (x, y)), ("test", test), ("validation", (x[30:50], y[30:50]))):
        np.save(name + ".npy", images)
        np.save(name + "-labels.npy", labels)
        arrays.append("%s=%s.npy,%s-labels=%s-labels.npy" % (name, name, name, name))
    for n, given in ((2, {}), (3, {"validation": (x[30:50], y[30:50])})):
        out = "line-%d" % n
        subprocess.run([PROGRAM, "train", "--model", NET, "--data", "arrays:" + ",".join(arrays[:n]), "--weight", "ttq:threshold=0.1",
                        "--input", "lsq:bits=2", "--layer", "conv1:weight=lsq:bits=3", "--weight-decay", "1e-3", "--epochs", "3",
                        "--seed", "5", "--out", out], check=True, capture_output=True)
        run = fit(test=test, weight="ttq:threshold=0.1", input="lsq:bits=2", layer=["conv1:weight=lsq:bits=3"], weight_decay=1e-3,
                  epochs=3, seed=5, batch=None, out="of-python-%d" % n, **given)
        for key in ("digest", "test_accuracy", "best_epoch"):
            assert run.result[key] == qgrad.Run(out).result[key], key
        assert ("validation_accuracy" in run.metrics()) == (n == 3)


if __name__ == "__main__":
    os.environ["QGRAD_LIB"] = os.path.abspath(os.environ["QGRAD_LIB"])
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        run_tests(globals())
