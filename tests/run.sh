#!/bin/sh
# Runs every test program of BUILD (default: build) and every check of the tree, from the top of it.
# Prints what failed and closes with "N passed, M failed", N counting test functions.
build=${1:-build}
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE QGRAD_CPU
QGRAD=${QGRAD:-$build/qgrad}
BUILD=$build
CC=${CC:-cc}
export QGRAD BUILD CC
passed=0 failed=0
log=$build/tests/log
mkdir -p "$log"

# add NAME STATUS PASSED FAILED: a program that dies has failed at least once.
add() {
    f=$4
    [ "$2" -ne 0 ] && [ "$f" -eq 0 ] && f=1
    passed=$((passed + $3))
    failed=$((failed + f))
    if [ "$f" -eq 0 ]; then
        printf '%-24s %4d passed\n' "$1" "$3"
    else
        printf '%-24s %4d passed, %d failed\n' "$1" "$3" "$f"
        grep -E '\[  (ERROR|FAILED)|Error|ERROR|failed|runtime error|FAIL|abort|Killed|: error:|missing' \
            "$log/$1" | head -n 40
    fi
}

for source in tests/test_*.c; do
    name=$(basename "$source" .c)
    "$build/tests/$name" > "$log/$name" 2>&1
    status=$?
    p=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$log/$name" | head -n 1)
    f=$(sed -n 's/^\[  FAILED  \] \([0-9]*\) test.*/\1/p' "$log/$name" | head -n 1)
    add "$name" "$status" "${p:-0}" "${f:-0}"
done

"$build/tests/conformance" tests/golden/*.json > "$log/conformance" 2>&1
status=$?
closing=$(tail -n 1 "$log/conformance")
p=$(echo "$closing" | sed -n 's/^\([0-9]*\) passed, [0-9]* failed$/\1/p')
f=$(echo "$closing" | sed -n 's/^[0-9]* passed, \([0-9]*\) failed$/\1/p')
add conformance "$status" "${p:-0}" "${f:-0}"

for check in tests/check_*.sh; do
    name=$(basename "$check" .sh)
    sh "$check" > "$log/$name" 2>&1
    status=$?
    add "$name" "$status" $((status == 0)) $((status != 0))
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
