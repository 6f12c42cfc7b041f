"""Arrays to ask with: random numbers, and among them on purpose whatever a quantizer may trip over."""
import numpy as np

F = np.float32
TINY = F(2.0 ** -126)           # below it a float is denormal
LARGEST = np.finfo(F).max
SPECIAL = np.array([0.0, -0.0, 1e-45, -1e-45, 1.1754942e-38, -1.1754942e-38, TINY, -TINY, 1e-30, -1e-30, 0.5, -0.5,
                    0.49999997, -0.49999997, 1.0, -1.0, 8388609.0, -8388609.0, 2147483648.0, -2147483648.0, 1e30, -1e30,
                    LARGEST, -LARGEST], F)
UNUSUAL = np.array([np.nan, np.inf, -np.inf, -np.nan], F)


def around(v, steps=2):
    """v and the floats next to each, so many on either side."""
    v = np.ravel(np.asarray(v, F))
    out, up, down = [v], v, v
    for _ in range(steps):
        with np.errstate(over="ignore"):
            up, down = np.nextafter(up, F(np.inf)), np.nextafter(down, F(-np.inf))
        out += [up, down]
    return np.concatenate(out)


def ticks(rng, n, step, zero=0.0, lo=0, hi=255):
    """Levels and the ties between them, (code + 0 or 1/2) step - zero, and their neighbours."""
    codes = rng.integers(lo - 2, hi + 3, n) + rng.integers(0, 2, n) * 0.5
    with np.errstate(all="ignore"):
        return around((codes * float(step) + float(zero)).astype(F), 1)


def numbers(rng, n, lo, hi, step=None, zero=0.0, codes=(0, 255), borders=(), unusual=True):
    """n floats for a quantizer that acts on lo .. hi in steps from zero on, in random order."""
    lo, hi = float(lo), float(hi)
    width = min(max(hi - lo, 1e-38), 1e38)
    parts = [SPECIAL, around([lo, hi, *np.ravel(borders)])]
    if unusual:
        parts.append(UNUSUAL)
    if step is not None:
        parts.append(ticks(rng, n // 9, step, zero, *codes))
    m = max(n - sum(map(len, parts)), n // 2)
    parts.append(rng.uniform(lo - 0.3 * width, hi + 0.3 * width, m - m // 4 - m // 8))
    parts.append(rng.choice([-1, 1], m // 4) * width * np.exp(rng.uniform(-20, 3, m // 4)))
    bits = rng.integers(0, 1 << 32, m // 8, dtype=np.uint32).view(F)
    parts.append(bits if unusual else bits[np.isfinite(bits)])
    with np.errstate(all="ignore"):
        all = np.concatenate([np.asarray(p, np.float64) for p in parts]).astype(F)
    if not unusual:
        all = np.clip(all, -LARGEST, LARGEST)
    rng.shuffle(all)
    return np.ascontiguousarray(np.resize(all, n))


def moderate(rng, n, lo, hi, step=None, zero=0.0, codes=(0, 255), borders=()):
    """The same without NaN, infinities and numbers far outside, for ranges that are measured."""
    x = numbers(rng, n, lo, hi, step, zero, codes, borders, unusual=False)
    m = 4 * max(abs(float(lo)), abs(float(hi)))
    return np.where(np.abs(x) <= m, x, F(0) * x).astype(F)


def gradients(rng, n, unusual=False):
    """dL/dy: normal numbers of several magnitudes, zeros and powers of two among them."""
    g = (rng.standard_normal(n) * np.exp(rng.uniform(-6, 3, n))).astype(F)
    g[rng.integers(0, n, n // 50)] = 0
    g[rng.integers(0, n, n // 50)] = F(-0.0)
    g[rng.integers(0, n, n // 50)] = 1
    if unusual:
        g[rng.integers(0, n, n // 50)] = rng.choice(UNUSUAL, n // 50)
    return g


def denormal(*arrays):
    """Where one of them is a denormal number."""
    return np.any([(a != 0) & (np.abs(a) < TINY) for a in np.broadcast_arrays(*arrays)], axis=0)


def near_tie(v, error):
    """Where v is so close to the middle of two integers that an error of that size decides how it rounds."""
    with np.errstate(all="ignore"):
        return np.abs(v - np.floor(v) - 0.5) <= error
