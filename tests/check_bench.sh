#!/bin/sh
# tests/bench.py measures a row, without a peer, and says why when a row cannot be measured.
build=${BUILD:-build}
python=${PYTHON:-/usr/bin/python3}
[ -x "$python" ] || { echo "no $python: not checked"; exit 0; }
report=$build/tests/bench.md
rm -f "$report"
QGRAD_CPU=none OPENBLAS_CORETYPE=none "$python" tests/bench.py --no-peer --busy --rounds 1 --seconds 0.01 \
    --rows '^LeNet-5 TWN$' --sections table,forward,threads,profile --qgrad "${QGRAD:-$build/qgrad}" \
    --data-dir /nowhere --out "$report" >/dev/null || { echo "bench.py: error: exit status $?"; exit 1; }
status=0
for part in '^| LeNet-5 TWN, 64 | [1-9][0-9]* |' '^| conv2d | 2 |' \
    '^| twn | 4 |' '^| 2 | [1-9][0-9]* |' '1 thread | 2 threads'; do
    grep -q "$part" "$report" || { echo "$report: error: no line with '$part'"; status=1; }
done
"$python" tests/bench.py --no-peer --busy --rounds 1 --seconds 0.01 --rows '^LeNet-5 float$' --sections profile \
    --qgrad /bin/false --out "$report" 2>&1 | grep -q 'bench.py: exit status 1' ||
    { echo "bench.py: error: a program that fails goes unnoticed"; status=1; }
exit $status
