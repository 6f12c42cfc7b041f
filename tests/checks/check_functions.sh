#!/bin/sh
# exp, log, pow, .. of C libraries differ in the last bit, so no digest, score or probability may depend on them: the library
# and the command line call those of core/kernels/functions.h.  What IEEE 754 defines may come from libm: sqrt, fma,
# rounding to integers, frexp.  Pictures may have axes and a sample of a distribution from there, too.
build=${BUILD:-build}
export LC_ALL=C
inexact='(a?(cos|sin|tan)h?|atan2|sincos|exp(2|10|m1)?|log(2|10|1p)?|pow|cbrt|hypot|erfc?|[lt]gamma)[fl]?'
objects=$(find cli -name '*.c' | sed "s,\(.*\)\.c,$build/\1.o,")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
${NM:-nm} -A -u "$build/libqgrad.a" $objects >"$work/needed" || exit 1
grep -q '[^a-z_]sqrt$\|[^a-z_]nearbyint$' "$work/needed" || { echo "error: $build: no object needs the C library"; exit 1; }
grep -E "[: ]$inexact\$" "$work/needed" | grep -Ev '/cli/svg\.o: *U (pow|log10)$|/cli/plot\.o: *U erfc$' >"$work/found" || exit 0
sed 's/^/error: /; s/ *U / needs libm: /' "$work/found"
exit 1
