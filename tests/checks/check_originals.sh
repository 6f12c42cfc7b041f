#!/bin/sh
# make check-originals without the packages names and skips each of them, and does not fail.  The C half
# compiles, every function that the Python half calls exists, and every rule of the page comes from declared.py.
export LC_ALL=C               # of sort and [a-z]
build=${BUILD:-build}
status=0
warnings='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Werror'
${CC:-cc} -std=c11 -D_POSIX_C_SOURCE=200809L -I. $warnings -fsyntax-only tests/originals/flat.c || { echo "tests/originals/flat.c: error: does not compile"; status=1; }

# Python finds functions by name when it calls them, so a renamed one would only be noticed there.
nm -g --defined-only "$build/libqgrad.a" 2>/dev/null | awk 'NF == 3 { print $3 }' >"$build/tests/symbols.txt"
for name in $(grep -ohwE 'qg_[a-z0-9_]+' tests/originals/*.py | sort -u); do
    grep -qx "$name" "$build/tests/symbols.txt" || { echo "tests/originals: error: libqgrad.a has no function $name"; status=1; }
done

rules() { sed -n "$1" "$2" | sort; }
rules 's/^    "\([a-z0-9-]*\)": (.*/\1/p' tests/originals/declared.py >"$build/tests/declared.txt"
for rule in $(rules '/^| declared | where/,/^$/s/^| \([a-z0-9-]*\) | .*/\1/p' results/exactness.md | grep -vx declared); do
    grep -qx "$rule" "$build/tests/declared.txt" ||
        { echo "results/exactness.md: error: declared.py has no $rule"; status=1; }
done
grep -q '^| .* | 0 | ' results/exactness.md || { echo "results/exactness.md: error: has no results"; status=1; }

python=${PYTHON:-/usr/bin/python3}
[ -x "$python" ] || { echo "no $python: check.py not run"; exit $status; }
# -S: without packages, even if some are installed.
env -u PYTHONPATH "$python" -S tests/originals/check.py --library /nowhere >"$build/tests/originals.txt" 2>&1 ||
    { echo "check.py: error: exit status $? without packages"; status=1; }
for package in tensorflow onednn tflite larq qkeras brevitas torch; do
    grep -q "^$package: skipped" "$build/tests/originals.txt" ||
        { echo "check.py: error: $package is not skipped"; status=1; }
done
grep -q '7 of 7 packages skipped' "$build/tests/originals.txt" ||
    { echo "check.py: error: does not count what it skipped"; status=1; }
exit $status
