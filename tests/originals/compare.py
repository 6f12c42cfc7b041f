"""What two implementations made of the same arrays, value by value; the rows of the table.

Two floats agree if they have the same bits, or are both NaN.  With a tolerance they agree, too, if they
differ by no more than tolerance * size, size being what the caller says was added up.  Where they do not,
a rule may declare it: a mask says of which values it speaks, and declared.py gives its reason.  Any other
difference is a defect of one of the two.
"""
import contextlib
import time

import numpy as np

import qgrad

EXAMPLES = 3                    # of differing values, shown per row
LEVELS = []                     # instruction sets to ask at


class Declared:
    """Differences named `id`, where mask is true (None: everywhere) in output k (None: in all that have its
    shape).  instead: what qgrad gives there, if that can be said; zeros: both are 0, and only the sign differs."""

    def __init__(self, id, mask=None, k=None, instead=None, zeros=False):
        self.id, self.mask, self.k, self.instead, self.zeros = id, mask, k, instead, zeros

    def moved(self, axis=None, by=0):
        """The same with the last of four axes first, or for another output."""
        mask = self.mask if axis is None or self.mask is None else np.moveaxis(self.mask, axis, 0)
        return Declared(self.id, mask, None if self.k is None else self.k + by, self.instead, self.zeros)

    def of(self, k, shape):
        if self.k is not None and self.k != k:
            return None
        if self.mask is None:
            return np.ones(shape, bool)
        return self.mask if np.shape(self.mask) == shape else None


def unequal(a, b):
    if a.dtype != b.dtype:
        raise TypeError(f"{a.dtype} and {b.dtype}")
    if a.shape != b.shape:
        raise TypeError(f"shapes {a.shape} and {b.shape}")
    if a.dtype != np.float32:
        return a != b
    return (a.view(np.uint32) != b.view(np.uint32)) & ~(np.isnan(a) & np.isnan(b))


def close(a, b, tolerance, size):
    with np.errstate(all="ignore"):
        difference = np.abs(a.astype(np.float64) - b.astype(np.float64))
        return difference <= tolerance * np.maximum(np.abs(b.astype(np.float64)), 0 if size is None else size)


def text(v):
    return f"{v:.9g} ({float(v).hex()})" if isinstance(v, np.floating) else str(v)


class Row:
    def __init__(self, operator, original, how):
        self.operator, self.original, self.how = operator, original, how
        self.cases = self.elements = self.values = self.bad = 0
        self.declared, self.examples, self.seconds = {}, [], 0.0

    def example(self, what):
        if len(self.examples) < EXAMPLES:
            self.examples.append(what)

    def failed(self, what, values=1):
        self.bad += values
        self.example(what)

    def compare(self, what, theirs, ours, inputs=None, declared=(), tolerance=None, size=None):
        """theirs: their outputs; ours: a function that gives qgrad's.  tolerance and size: one per output, or one
        for all; None asks for the same bits.  inputs: named arrays, for the examples."""
        theirs = as_tuple(theirs)
        self.cases += 1
        self.elements += theirs[0].size
        self.values += sum(t.size for t in theirs)
        first = None
        for level in LEVELS:
            qgrad.use_cpu(level)
            try:
                got = as_tuple(ours())
            except qgrad.QgradError as e:
                self.failed(f"{what}: refused: {e}", sum(t.size for t in theirs))
                return
            if first is None:
                first = got
                for k, (t, o) in enumerate(zip(theirs, got, strict=True)):
                    self.output(what, k, np.asarray(t), np.asarray(o), inputs, declared, nth(tolerance, k),
                                nth(size, k))
            else:
                for k, (f, o) in enumerate(zip(first, got, strict=True)):
                    n = int(unequal(np.asarray(f), np.asarray(o)).sum())
                    if n:
                        self.failed(f"{what}: output {k}: {n} values differ between {LEVELS[0]} and {level}", n)

    def output(self, what, k, theirs, ours, inputs, declared, tolerance, size):
        bad = unequal(theirs, ours)
        if tolerance is not None and bad.any():
            bad &= ~close(ours, theirs, tolerance, size)
        for d in declared if bad.any() else ():
            mask = d.of(k, theirs.shape)
            if mask is None:
                continue
            hit = bad & mask
            if d.instead is not None and hit.any():
                hit &= ~unequal(ours, np.broadcast_to(np.asarray(d.instead, ours.dtype), ours.shape).copy())
            if d.zeros:
                hit &= (theirs == 0) & (ours == 0)
            n = int(hit.sum())
            if n:
                self.declared[d.id] = self.declared.get(d.id, 0) + n
                bad = bad & ~hit
        n = int(bad.sum())
        self.bad += n
        for i in np.argwhere(bad)[:1]:
            i = tuple(i)
            given = ", ".join(f"{name} = {text(np.asarray(v)[i])}" for name, v in (inputs or {}).items()
                              if np.shape(v) == theirs.shape)
            self.example(f"{what}: output {k}{list(i)}: {given}: original {text(theirs[i])}, qgrad {text(ours[i])}"
                         + (f", {n} such values" if n > 1 else ""))

    def or_refused(self, what, theirs, ours, inputs, declared=()):
        """As compare; but qgrad may refuse what makes the original return NaN or an infinity for finite numbers, or
        no more than three values for all of them: `range-refused`."""
        try:
            ours()
        except qgrad.QgradError as e:
            y, *range = as_tuple(theirs)
            if inputs:
                y = y[np.isfinite(next(iter(inputs.values())))]
            self.cases += 1
            self.elements += y.size
            self.values += y.size
            if all(np.isfinite(v).all() for v in (y, *range)) and np.unique(y).size > 3:
                self.failed(f"{what}: refused: {e}", y.size)
            else:
                self.declared["range-refused"] = self.declared.get("range-refused", 0) + y.size
            return
        self.compare(what, theirs, ours, inputs, declared)


def as_tuple(x):
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def nth(x, k):
    return x[k] if isinstance(x, (tuple, list)) else x


class Table:
    def __init__(self):
        self.rows = []

    @contextlib.contextmanager
    def row(self, operator, original, how="bits"):
        """What goes wrong inside is the row's failure, and the next row is asked all the same."""
        r = Row(operator, original, how)
        self.rows.append(r)
        began = time.time()
        try:
            yield r
        except Exception as e:                                      # whatever a foreign package may raise
            r.failed(f"could not be asked: {type(e).__name__}: {str(e)[:300]}")
        r.seconds = time.time() - began
