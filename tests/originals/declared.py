"""Every difference that a row may declare: where it is, and why it stays.  docs/exactness.md prints these."""

DECLARED = {
    # --- zero, NaN, infinities, denormal numbers
    "zero-added": (
        "A gradient that is 0: only its sign differs.",
        "Backward operators add to a gradient that begins as 0, and 0 + -0 is 0."),
    "zero-sign": (
        "A result that is 0: only its sign differs.",
        "Roundings here keep the sign of what is rounded. `tf.clip_by_value(-0, 0, 1)` is 0, and QKeras' and "
        "PyTorch's straight-through sums end in +0."),
    "denormals": (
        "x, the gradient, the step or its inverse is denormal (below 2^-126 and not 0), or a product of theirs "
        "is.",
        "TensorFlow's kernels run with denormal numbers flushed to 0, in comparisons too; here they are numbers "
        "like others."),
    "mask-multiplies": (
        "x outside the range, or NaN.",
        "TensorFlow multiplies the gradient by the mask, which makes -0 of a negative one and NaN of an infinite "
        "one, and NaN of its sum. Here it is dropped: 0."),
    "nan-codes": (
        "x is NaN.",
        "TensorFlow casts NaN to an integer, which C leaves undefined. Here it is code 0, clamped; in "
        "uniform_quantize the zero point."),
    "nan-sign": (
        "x is NaN.",
        "Larq's sign of NaN is NaN; here every sign is +1 or -1, and that of NaN -1, since packing has one bit."),
    "nan-ternary": (
        "x is NaN.",
        "Larq and QKeras keep NaN; here no comparison with NaN holds, and the value is 0."),
    "nan-code": (
        "x is NaN.",
        "Brevitas' sign of NaN is -1; `unit` keeps NaN, which hides no bad input."),
    "nan-gradient": (
        "x is NaN.",
        "Brevitas passes the gradient of what it could not clamp; here NaN lies in no range."),
    # --- integers
    "int32-wraps": (
        "The result, before it is clamped, does not fit int32.",
        "TensorFlow's casts and sums wrap; here they saturate."),
    "int64-wraps": (
        "q scale, 64 bits of fixed point in the middle of requantize, does not fit int64.",
        "TensorFlow's product wraps; here it is that of unbounded integers."),
    "codes-through-float": (
        "int32 codes beyond 2^24.",
        "TensorFlow 2.15 converts its qint32 to int32 by way of float32, which rounds them; the formula has no "
        "such step."),
    "padding-wraps": (
        "Padding SAME, an input range below 0, outputs whose window leaves the image.",
        "The zero point is then above 255, and TensorFlow pads with its lowest 8 bits. Here what is padded is the "
        "real 0."),
    "requantized-in-float": (
        "Exact results nearer to a tie than the factor of their channel.",
        "PyTorch multiplies sums by a float32; the integer factor with two roundings, TensorFlow Lite's, errs by "
        "up to half of that."),
    # --- ranges
    "range-refused": (
        "Ranges of which the original makes NaN, infinities, or at most three different values of all finite x.",
        "min above max, empty but not 0, not finite, or with a step that float32 cannot hold: here an error that "
        "names the range."),
    "range-opened": (
        "Learned ranges narrower than 2^-30.",
        "The scheme opens them to 2^-30, from where a gradient can move them; the plain operator takes them as "
        "they are."),
    "unsigned-below-zero": (
        "Unsigned codes of a range without positive numbers.",
        "TensorFlow divides by the largest float and returns huge values; here every result is 0."),
    "torch-small-scale": (
        "Steps below 6.1e-5.",
        "PyTorch raises them to that, so that their inverse stays a half-precision number."),
    "onednn": (
        "TensorFlow with oneDNN, its default on x86-64, one range: uint8 codes of MIN_FIRST, int8 codes of "
        "SCALED.",
        "oneDNN computes otherwise than TensorFlow's own kernels, which are followed here: a code apart, where "
        "they differ. Its SCALED has the symmetric range of TensorFlow 1.4, `QG_SCALED_R14`, and the same uint8 "
        "codes."),
    # --- ties
    "tie-rounding": (
        "x so near to the middle of two levels that the rounding of the quotient, at most 2^-21 of the codes, "
        "decides.",
        "TensorFlow's fake quantization and Blueoil round ties up, PyTorch, Brevitas and QKeras to even; and x "
        "times 1 / step, x divided by step, and x counted from the lowest level are rounded differently."),
    "dorefa-tanh": (
        "Codes within 3e-7 (2^k - 1) of a tie.",
        "TensorFlow's float32 tanh and the one here differ by some units in the last place, which decides there."),
    # --- masks and slopes
    "mask-rounded": (
        "x beyond the last level by less than half a step, and at it; the sum for a learned step wherever some x "
        "lies there.",
        "PyTorch and Brevitas look at the rounded code, which is still legal there, and pass the gradient. "
        "TensorFlow, LSQ and PACT look at x. Exactly Brevitas' mask on [-1, 1] is "
        "`surrogate=clip,surrogate-arg=1+1/2n`, n = 2^(bits-1) - 1: 1.5 for 2 bits."),
    "mask-ends": (
        "x at the very end of the range.",
        "Whether the end belongs to it: not in LSQ and Blueoil's linear, the lower in PACT, the upper in QKeras' "
        "relu, and in Brevitas the end, half a step beyond the last level, goes to the even code."),
    "weights-beyond-1": (
        "Weights outside [-1, 1].",
        "Brevitas passes their gradient. BNN-PYNQ's training and `unit` clip weights to [-1, 1] after each step, "
        "so there are none."),
    "max-differentiated": (
        "Weights whose magnitude is the maximum of their tensor or channel.",
        "Brevitas differentiates the step, which is that maximum. Here it is a constant, as in TensorFlow's "
        "layers."),
    "swish-far": (
        "|beta x| > 88.",
        "cosh overflows in float32, and TensorFlow's quotient is 0 or NaN. Its limit is 0."),
    # --- thresholds
    "threshold-equal": (
        "|x| equals the threshold.",
        "Larq's sign(sign(x + D) + sign(x - D)) and QKeras' >= keep such a weight; TWN's definition, > D, does "
        "not."),
    "threshold-mean": (
        "|x| within 1e-5 of the threshold 0.7 mean|x|.",
        "TensorFlow adds up the mean in float32, in an order of its own; here sums are double."),
    "bop-rounding": (
        "The average gradient of Bop came within 1e-5 of the threshold.",
        "m + gamma (g - m) there and (1 - gamma) m + gamma g here are rounded differently, and Larq's sign of 0 at "
        "the threshold itself makes +1 of every weight.",
    ),
    # --- overflow
    "qkeras-infinite": (
        "|x| of 1e30 and more, infinities and NaN.",
        "QKeras returns x + (y - x), which is 0 or NaN for these."),
    "torch-nan": (
        "x is infinite or NaN.",
        "PyTorch casts x / step to int64, which C leaves undefined. Here infinities are the ends and NaN stays."),
    "torch-far": (
        "x beyond 2^31 steps.",
        "The same cast overflows."),
}
