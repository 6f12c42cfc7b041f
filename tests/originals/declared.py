"""Every difference that a row may declare: where it occurs, and why it stays.  results/exactness.md prints these."""

DECLARED = {
    # --- zero, NaN, infinities, denormal numbers
    "zero-added": (
        "The gradient is 0, and only its sign differs.",
        "Backward operators here add to a gradient that starts as 0, and 0 + -0 is 0."),
    "zero-sign": (
        "The result is 0, and only its sign differs.",
        "Roundings here keep the sign of their operand. `tf.clip_by_value(-0, 0, 1)` is 0, and the "
        "straight-through sums of QKeras and PyTorch end in +0."),
    "denormals": (
        "x, the gradient, the step, its inverse, or a product of these is denormal (below 2^-126 and not 0).",
        "TensorFlow's kernels flush denormal numbers to 0, also in comparisons. qgrad treats them like other "
        "numbers."),
    "mask-multiplies": (
        "x is outside the range, or NaN.",
        "TensorFlow multiplies the gradient by the mask: a negative gradient becomes -0, and an infinite gradient "
        "becomes NaN, as does its sum. qgrad drops the gradient: 0."),
    "nan-codes": (
        "x is NaN.",
        "TensorFlow casts NaN to an integer, which C leaves undefined. In qgrad the code is 0, clamped, or the "
        "zero point in uniform_quantize."),
    "nan-sign": (
        "x is NaN.",
        "Larq's sign of NaN is NaN. In qgrad every sign is +1 or -1, and that of NaN is -1, since a packed sign "
        "has one bit."),
    "nan-ternary": (
        "x is NaN.",
        "Larq and QKeras keep NaN. In qgrad no comparison with NaN holds, so the value is 0."),
    "nan-code": (
        "x is NaN.",
        "Brevitas' sign of NaN is -1. `unit` keeps NaN, so that bad input stays visible."),
    "nan-gradient": (
        "x is NaN.",
        "Brevitas passes the gradient where it did not clamp. In qgrad NaN lies in no range."),
    # --- integers
    "int32-wraps": (
        "The result before clamping does not fit int32.",
        "TensorFlow's casts and sums wrap around. qgrad saturates."),
    "int64-wraps": (
        "q scale, the 64-bit fixed-point product in requantize, does not fit int64.",
        "TensorFlow's product wraps around. qgrad computes it in unbounded integers."),
    "codes-through-float": (
        "int32 codes beyond 2^24.",
        "TensorFlow 2.15 converts qint32 to int32 through float32, which rounds. The formula has no such step."),
    "padding-wraps": (
        "Padding is SAME, the input range is below 0, and the window of the output leaves the image.",
        "The zero point is then above 255, and TensorFlow pads with its lowest 8 bits. qgrad pads with the real "
        "number 0."),
    "requantized-in-float": (
        "The exact result is closer to a tie than the error of its channel's factor.",
        "PyTorch multiplies sums by a float32. The error of the integer factor with two roundings, as in "
        "TensorFlow Lite, is up to half of that."),
    # --- ranges
    "range-refused": (
        "The original returns NaN, infinities, or at most three different values for all finite x.",
        "The range has min above max, is empty but not 0, is not finite, or has a step that float32 cannot "
        "represent. qgrad returns an error that names the range."),
    "range-opened": (
        "The learned range is narrower than 2^-30.",
        "The scheme widens it to 2^-30, so that a gradient can move it. The plain operator uses it unchanged."),
    "unsigned-below-zero": (
        "Unsigned codes of a range without positive numbers.",
        "TensorFlow divides by the largest float and returns huge values. In qgrad every result is 0."),
    "torch-small-scale": (
        "The step is below 6.1e-5.",
        "PyTorch raises it to that value, so that its inverse is representable in half precision."),
    "onednn": (
        "TensorFlow with oneDNN, its default on x86-64, one range: uint8 codes of MIN_FIRST, int8 codes of SCALED.",
        "oneDNN differs from TensorFlow's own kernels, which qgrad follows, by at most one code. Its SCALED uses "
        "the symmetric range of TensorFlow 1.4, `QG_SCALED_R14`, and the same uint8 codes."),
    # --- ties
    "tie-rounding": (
        "x is so close to the middle of two levels that the rounding of the quotient, at most 2^-21 of the codes, "
        "decides.",
        "TensorFlow's fake quantization and Blueoil round ties up; PyTorch, Brevitas and QKeras round them to "
        "even. Also, x times 1 / step, x divided by step, and x counted from the lowest level are rounded "
        "differently."),
    "dorefa-tanh": (
        "The code is within 3e-7 (2^k - 1) of a tie.",
        "TensorFlow's float32 tanh and that of qgrad differ by some units in the last place, which decides at a "
        "tie."),
    # --- masks and slopes
    "mask-rounded": (
        "x is at the last level, or beyond it by less than half a step; also the sum for a learned step if any "
        "such x exists.",
        "PyTorch and Brevitas test the rounded code, which is still valid there, and pass the gradient. "
        "TensorFlow, LSQ and PACT test x. Brevitas' exact mask on [-1, 1] is "
        "`surrogate=clip,surrogate-arg=1+1/2n`, n = 2^(bits-1) - 1: 1.5 for 2 bits."),
    "mask-ends": (
        "x is exactly at an end of the range.",
        "Sources differ in whether the ends belong to the range. LSQ and Blueoil's linear exclude both, PACT "
        "includes the lower, and QKeras' relu includes the upper. In Brevitas the end is half a step beyond the "
        "last level, and it rounds to the even code."),
    "weights-beyond-1": (
        "Weights outside [-1, 1].",
        "Brevitas passes their gradient. Such weights do not occur in training: BNN-PYNQ and `unit` clip weights "
        "to [-1, 1] after each step."),
    "max-differentiated": (
        "Weights whose magnitude is the maximum of their tensor or channel.",
        "Brevitas differentiates the step, which is that maximum. In qgrad it is a constant, as in TensorFlow's "
        "layers."),
    "swish-far": (
        "|beta x| > 88.",
        "cosh overflows in float32, and TensorFlow's quotient is 0 or NaN. Its limit is 0."),
    # --- thresholds
    "threshold-equal": (
        "|x| equals the threshold.",
        "Larq's sign(sign(x + D) + sign(x - D)) and QKeras' >= keep such a weight. TWN's definition, > D, does "
        "not."),
    "threshold-mean": (
        "|x| is within 1e-5 of the threshold 0.7 mean|x|.",
        "TensorFlow sums the mean in float32 and in another order. Sums in qgrad are double."),
    "bop-rounding": (
        "The average gradient of Bop came within 1e-5 of the threshold.",
        "Larq computes m + gamma (g - m), qgrad (1 - gamma) m + gamma g; these round differently. At the threshold "
        "itself, Larq's sign of 0 turns every weight into +1."),
    # --- overflow
    "qkeras-infinite": (
        "|x| is 1e30 or more, infinite or NaN.",
        "QKeras returns x + (y - x), which is 0 or NaN for these."),
    "torch-nan": (
        "x is infinite or NaN.",
        "PyTorch casts x / step to int64, which C leaves undefined. In qgrad infinities become the ends of the "
        "range, and NaN stays NaN."),
    "torch-far": (
        "x is beyond 2^31 steps.",
        "The same cast overflows."),
}
