#!/bin/sh
# A short training reaches an accuracy that it would miss with a wrong gradient.
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
accuracy=$("${QGRAD:-build/qgrad}" train --model lenet5 --data sample --weight twn --epochs 4 --batch 20 --seed 3 --out "$out/run" --json |
    sed -n 's/.*"test_accuracy": *\([0-9.]*\).*/\1/p')
awk -v a="$accuracy" 'BEGIN { exit !(a >= 0.78) }' ||
    { echo "error: ternary LeNet-5 on the sample: test accuracy '$accuracy', floor 0.78"; exit 1; }
