"""Larq's MNIST tutorial ("Introduction to BNNs with Larq"), trained by Larq and by qgrad from the same weights.

    larq_mnist.py [--programs DIR] [--data-dir DIR] [--seeds N]

The net: 32C3-MP2-BN, 64C3-MP2-BN, 64C3-BN, 64FC-BN, 10FC-BN, softmax; no padding, no biases, batch norm without
a scale; every product but the first reads ste_sign of its input, every kernel is ste_sign of a latent one that
weight_clip keeps in [-1, 1].  Keras' Adam with its defaults, batch 64, pixels byte / 127.5 - 1.

Where the conventions differ:
    kernels      Keras [kh][kw][in][out] and [in][out]; qgrad [out][kh][kw][in], and [out][h][w][in] behind an image.
                 Keras flattens [h][w][c], which is that order.
    batch norm   Keras: epsilon 1e-3, and momentum 0.99 is the weight of the old statistics.  They are not read in
                 training.
    Adam         Keras adds epsilon, 1e-7, to sqrt(v) before v's correction.  qg_adam adds it behind, as the
                 paper's algorithm 1 does.  larq_mnist.c has Keras' rule; batches and weights need none.
    pixels       qgrad's loader computes (byte / 255 - 0.5) / 0.5, which differs by one unit in the last place for
                 half of the bytes.  Maximum pooling then finds other maxima among sums that are equal but for
                 rounding, so qgrad gets the floats that Larq gets.
"""
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import larq as lq                                                   # noqa: E402
import numpy as np                                                  # noqa: E402
import tensorflow as tf                                             # noqa: E402

import parity                                                       # noqa: E402

BATCH = 64


def declare(dtype):
    layers = tf.keras.layers
    kernel = {"kernel_quantizer": "ste_sign", "kernel_constraint": "weight_clip", "use_bias": False, "dtype": dtype}
    both = {"input_quantizer": "ste_sign", **kernel}

    def norm():
        return layers.BatchNormalization(scale=False, dtype=dtype)

    net = tf.keras.Sequential([
        layers.Input((28, 28, 1), dtype=dtype),
        lq.layers.QuantConv2D(32, 3, **kernel), layers.MaxPooling2D(2, dtype=dtype), norm(),
        lq.layers.QuantConv2D(64, 3, **both), layers.MaxPooling2D(2, dtype=dtype), norm(),
        lq.layers.QuantConv2D(64, 3, **both), norm(), layers.Flatten(dtype=dtype),
        lq.layers.QuantDense(64, **both), norm(),
        lq.layers.QuantDense(10, **both), norm(), layers.Activation("softmax", dtype=dtype)])
    net.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    return net


def arrays(net):
    """Everything the net holds, under qgrad's names and in its layouts."""
    out, image = {}, None
    count = {"conv": 0, "fc": 0, "bn": 0}

    def name(kind):
        count[kind] += 1
        return f"{kind}{count[kind]}"

    for layer in net.layers:
        if isinstance(layer, lq.layers.QuantConv2D):
            out[name("conv") + ".weight"] = layer.kernel.numpy().transpose(3, 0, 1, 2)
            image = layer.output_shape[1:]
        elif isinstance(layer, lq.layers.QuantDense):
            w = layer.kernel.numpy().T
            out[name("fc") + ".weight"] = w.reshape(-1, *image) if image else w
            image = None
        elif isinstance(layer, tf.keras.layers.BatchNormalization):
            bn = name("bn")
            out[bn + ".beta"] = layer.beta.numpy()
            out[bn + ".running_mean"] = layer.moving_mean.numpy()
            out[bn + ".running_var"] = layer.moving_variance.numpy()
    return {key: np.array(a) for key, a in out.items()}


class Larq:
    name = f"Larq {lq.__version__} (TensorFlow {tf.__version__}), MNIST tutorial"
    peer = "Larq"

    def __init__(self, o):
        self.command = [os.path.join(o.programs, "larq_mnist")]
        images, labels = parity.mnist(o.data_dir, BATCH)
        self.batches = {"images": (images / 127.5 - 1).astype(np.float32), "labels": labels}

    def train(self, seed, double):
        tf.keras.utils.set_random_seed(seed)
        net = declare("float32")
        if double:
            start = net.get_weights()
            tf.keras.backend.set_floatx("float64")                  # of the loss
            net = declare("float64")
            net.set_weights(start)
        losses, held = [], []
        for x, y in zip(self.batches["images"], self.batches["labels"]):
            held.append(arrays(net))
            losses.append(float(net.train_on_batch(x.astype(net.dtype), y)))
        tf.keras.backend.set_floatx("float32")
        return losses, held

    @staticmethod
    def code(w):
        return w >= 0


if __name__ == "__main__":
    options = parity.options("Larq's MNIST tutorial, trained by Larq and by qgrad").parse_args()
    sys.exit(0 if parity.compare(Larq(options), options.seeds) else "larq_mnist.py: the losses part without a known reason")
