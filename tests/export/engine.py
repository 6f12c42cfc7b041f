"""The engine (infer/infer.h) and ONNX Runtime on images of bytes [n,h,w,c]."""
import ctypes
import glob
import gzip

import numpy as np
import onnxruntime as ort

ort.set_default_logger_severity(3)
ort.disable_telemetry_events()
LEVELS = {"disabled": ort.GraphOptimizationLevel.ORT_DISABLE_ALL, "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL}


def mnist():
    """The test images."""
    path = glob.glob("datasets/mnist/t10k-images*")[0]
    with (gzip.open if path.endswith("gz") else open)(path, "rb") as f:
        return np.frombuffer(f.read(), np.uint8, offset=16).reshape(-1, 28, 28, 1)


class Engine:
    """A packed file, loaded."""

    def __init__(self, build, path):
        self.c = ctypes.CDLL(build + "/libqgrad_infer.so")
        self.c.qg_infer_context_bytes.restype = ctypes.c_size_t
        with open(path, "rb") as f:
            file = f.read()
        size, self.net, self.held = ctypes.c_size_t(), ctypes.c_void_p(), 0
        self.check(self.c.qg_infer_size(file, ctypes.c_size_t(len(file)), ctypes.byref(size)))
        self.memory, at = self.aligned(size.value)
        self.check(self.c.qg_infer_load(file, ctypes.c_size_t(len(file)), at, size, ctypes.byref(self.net)))
        self.scores = self.c.qg_infer_scores(self.net)

    @staticmethod
    def check(status):
        if status:
            raise RuntimeError(f"the engine returns {status}")

    @staticmethod
    def aligned(n):
        """An array, and where in it n bytes are at a multiple of 64."""
        memory = np.zeros(n + 64, np.uint8)
        return memory, ctypes.c_void_p(memory.ctypes.data + -memory.ctypes.data % 64)

    def run(self, images):
        images = np.ascontiguousarray(images)
        y = np.zeros((len(images), self.scores), np.float32)
        need = self.c.qg_infer_context_bytes(self.net, len(images))
        if need > self.held:
            (self.context, self.at), self.held = self.aligned(need), need
        self.check(self.c.qg_infer_run_bytes(self.net, len(images), images.ctypes.data_as(ctypes.c_void_p),
                                             y.ctypes.data_as(ctypes.c_void_p), self.at, ctypes.c_size_t(self.held)))
        return y


def session(path, level):
    options = ort.SessionOptions()
    options.graph_optimization_level = LEVELS[level]
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run(s, images):
    """Scores, whatever the layout of the file."""
    if s.get_inputs()[0].type == "tensor(float)":
        images = np.ascontiguousarray((images.astype(np.float32) / np.float32(255)).transpose(0, 3, 1, 2))
    return s.run(["scores"], {"image": images})[0]
