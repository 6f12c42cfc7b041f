#!/bin/sh
# The twelve programs of examples/README.md are short, compile without warnings, and do on the sample what they say.
export LC_ALL=C               # of sed and [a-z]
root=$PWD
build=${BUILD:-build}
case $build in /*) ;; *) build=$root/$build ;; esac
qgrad=${QGRAD:-$build/qgrad}
case $qgrad in /*) ;; *) qgrad=$root/$qgrad ;; esac
cc=${CC:-cc}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
status=0
fail() { echo "error: $*"; status=1; }

programs=$(sed -n 's/^| .* | \[\([a-z_]*\)\.c\](\1\.c) |$/\1/p' examples/README.md)
[ "$(echo "$programs" | wc -l)" = 12 ] || fail "examples/README.md has another number of programs than twelve"
for program in $programs; do
    [ "$(wc -l <"examples/$program.c")" -lt 60 ] || fail "examples/$program.c has 60 lines or more"
    $cc -std=c11 -I. -Wall -Wextra -Wpedantic -Wshadow -Werror -fsyntax-only "examples/$program.c" ||
        fail "examples/$program.c does not compile"
done
for file in examples/*.c; do
    grep -qF "(${file#examples/})" examples/README.md || fail "examples/README.md lacks $file"
done

QGRAD_SHARE=$root
export QGRAD_SHARE
cd "$dir" || exit 1
# run PROGRAM ARGUMENTS..: its output is in the file out.
run() {
    program=$1; shift
    "$build/examples/$program" "$@" >out 2>&1 || { fail "$program $*: $(cat out)"; return 1; }
}
# The last accuracy in out is at least $1 percent.
at_least() { sed -n 's/.*accuracy \([0-9.]*\) %.*/\1/p' out | tail -n 1 | awk -v least="$1" '{ good = $1 >= least } END { exit !good }'; }
# One of ten classes by chance is 10 %, one of four 25 %.  Trained, these nets reach 76 to 86 %; one whose gradients, updates or
# images are wrong does not reach 60 %, and one that has not been trained does not either.  With a sanitizer an epoch is enough.
case ${SANITIZE:-} in *sanitize*) epochs=1 floor=0 ;; *) epochs= floor=60 ;; esac
learns() { run "$@" && { at_least $floor || fail "$*: $(cat out)"; }; }
untrained() { run "$1" 0 && { ! at_least 60 || fail "$1 has 60 % without training: $(cat out)"; }; }

run mnist_twn sample && { at_least $((floor * 13 / 10)) || fail "mnist_twn: $(cat out)"; }     # it reaches 81.6 %
learns own_data $epochs && untrained own_data
learns own_scheme $epochs
[ "$(grep -c 'becomes [+-]\(1.000000\|0.500000\|0.250000\|0.125000\|0.062500\|0.031250\|0.015625\|0.007812\)$' out)" = 5 ] ||
    fail "own_scheme: no powers of two: $(cat out)"
untrained own_scheme
learns own_layer $epochs
grep -q 'channel 1\.0000' out && fail "own_layer: the slope was not trained"
learns own_optimizer $epochs && untrained own_optimizer
run gradients

# Killed, and started again: the same bytes as without.
run fit whole 2
"$build/examples/fit" killed 2 >/dev/null 2>&1 &
pid=$!
while kill -0 $pid 2>/dev/null && [ ! -e killed/last.safetensors ]; do sleep 0.02; done
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
run fit killed 2 && { at_least 60 || fail "fit: $(cat out)"; }
cmp whole/last.safetensors killed/last.safetensors || fail "fit: other bytes after it was killed"

run sweep 1 1
awk '$2 < 50 { exit 1 } END { exit NR != 3 }' out || fail "sweep: $(cat out)"     # after one epoch
float=runs/schemes/0-1 ternary=runs/schemes/1-1
run compare $float $ternary
grep -q '^weight  *float, twn$' out || fail "compare does not tell the schemes apart: $(cat out)"
# What it measures, against metrics.csv.
measured=$(sed -n 's,^runs/schemes/.*: \([0-9.]* %\)\, most.*,\1,p' out | paste -s -d , | sed 's/,/, /')
[ "$measured" = "$(sed -n 's/^epoch 1 *//p' out)" ] || fail "compare measures other accuracies than the runs: $(cat out)"

# A run with validation images has another column.
"$qgrad" train --model 10 --data sample --validation 10% --epochs 1 --out held >out 2>&1 || fail "held: $(cat out)"
run compare $float held
grep -qx 'metric     test_accuracy, validation_accuracy' out || fail "compare names no columns: $(cat out)"

"$build/examples/sweep" 1 0 >out 2>&1 && fail "sweep without seeds: $(cat out)"

# Half of ten images is five times chance.
"$build/examples/export_images" sample images 1 2 >out 2>&1 || fail "export_images: $(cat out)"
"$build/examples/export_images" sample "$(printf '%01000d' 0)" 1 2 >out 2>&1
grep -q 'the path is too long' out || fail "export_images to a path that is too long: $(cat out)"
run predict $ternary images/test/*/*.png
awk -F '[/:]' '{ n += $NF == " " $3 } END { exit !(NR == 20 && n >= 10) }' out || fail "predict: $(cat out)"

run export $ternary clothes.qg
grep -q 'equal scores for 500 of 500 images$' out || fail "export: $(cat out)"
# A comment in an image, and files that are not there.
{ printf 'P5\n# a\n#b\n28 28\n# c\n255\n'; head -c 784 /dev/zero; } >image.pgm
run infer clothes.qg image.pgm && ! grep -qx '[0-9]' out && fail "infer: $(cat out)"
for files in 'none image.pgm' 'clothes.qg none'; do
    "$build/examples/infer" $files >out 2>&1 && fail "infer $files succeeds"
    grep -q 'none: No such file' out || fail "infer $files: $(cat out)"
done
"$qgrad" predict --packed clothes.qg images/test/bag/*.png >out 2>&1 || fail "clothes.qg cannot be read: $(cat out)"

# Eight bits cost less than three points, and a quarter of the bytes.
run calibrate $float runs/int8
awk '{ bytes[NR] = $(NF - 5); right[NR] = $(NF - 1) } END { exit !(NR == 2 && right[2] > right[1] - 3 && 3 * bytes[2] < bytes[1]) }' out ||
    fail "calibrate: $(cat out)"
run export runs/int8 int8.qg
grep -q 'equal scores for 500 of 500 images$' out || fail "export of 8 bits: $(cat out)"
exit $status
