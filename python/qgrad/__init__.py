"""qgrad: quantized neural nets, trained on the CPU.

    import qgrad
    run = qgrad.fit("lenet5", x, y, test=(xt, yt), weight="twn", epochs=3)
    labels = run.predict(xt).argmax(1)
    run.export("net.qg")
    labels = qgrad.Net("net.qg").predict(xt).argmax(1)

    z = qgrad.Quantizer("ttq", w.shape)         quantizers on arrays
    qgrad.torch.Quantizer("ttq", w.shape)       the same as modules of PyTorch, after `import qgrad.torch`

What the library refuses is a ValueError, TypeError, OSError, RuntimeError (called at the wrong time), FloatingPointError (a
number that is not finite) or MemoryError, with the library's message."""
from .fit import fit, options
from .net import Net
from .quantizer import Quantizer
from .run import Run, Weight

__all__ = ["Net", "Quantizer", "Run", "Weight", "fit", "options"]
