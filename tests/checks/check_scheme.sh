#!/bin/sh
# The schemes of docs/extending.md and examples/learned_threshold.c, added to the list of schemes as that page says: gradcheck
# checks what they state, a wrong gradient fails, and a net with a learned threshold trains, is evaluated, and runs as a packed
# file.
cc=${CC:-cc}
build=${BUILD:-build}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
status=0
fail() { echo "error: $*"; status=1; }
export LC_ALL=C

# block TEXT: the example of the page that has the text.
block() {
    awk -v text="$1" '/^```c$/ { on = 1; block = ""; next }
                      /^```/   { if (on && index(block, text)) { printf "%s", block; exit } on = 0 }
                      on       { block = block $0 "\n" }' docs/extending.md
}
libs="$build/libqgrad.a $(pkg-config --libs openblas 2>/dev/null || echo -lopenblas) -lpng -ljpeg -lm"
compile() { $cc -std=c11 -O1 -w -I. -D_POSIX_C_SOURCE=200809L -pthread $SANITIZE "$@" $libs; }

# The list with the schemes before it.
{
    sed '/^int main/,$d' examples/learned_threshold.c
    block 'qg_scheme halves'
    block 'qg_scheme bands'
    sed 's/^    NULL,$/    \&learned_threshold, \&halves, \&bands, NULL,/' quant/schemes/schemes.c
} >"$dir/schemes.c"
sed 's/d->grad\[0\] -= /d->grad[0] += /' "$dir/schemes.c" >"$dir/wrong.c"
cmp -s "$dir/schemes.c" "$dir/wrong.c" && fail "no gradient was made wrong"
objects=$(for source in cli/*.c cli/*/*.c; do echo "$build/${source%.c}.o"; done)
compile -o "$dir/qgrad" "$dir/schemes.c" $objects || exit 1
compile -o "$dir/wrong" "$dir/wrong.c" $objects || exit 1

# expect NAME TEXT: a line of gradcheck begins with the name, and ends with the text.
expect() { grep -qE "^  $1 .*$2" "$dir/out" || fail "gradcheck has no row '$1' with '$2': $(grep "$1" "$dir/out")"; }
"$dir/qgrad" gradcheck >"$dir/out" || fail "gradcheck fails"
expect 'learned-threshold: w' 'surrogate .* pass$'
expect 'learned-threshold: d' 'surrogate .* pass$'
expect 'bands: w' 'slope .* pass$'
expect 'halves: w' 'not checked'
expect 'halves: x' 'not checked'
tail -n 1 "$dir/out" | grep -q ', 0 not; 2 not checked$' || fail "gradcheck ends with: $(tail -n 1 "$dir/out")"
"$dir/qgrad" gradcheck --json | grep -q '"not_checked": *2' || fail "gradcheck --json does not count what is not checked"
"$dir/wrong" gradcheck >"$dir/out" && fail "a wrong gradient passes"
expect 'learned-threshold: w' 'pass$'
expect 'learned-threshold: d' 'FAIL$'

# The same with the op alone, as the example checks it.
sed 's/d->grad\[0\] -= /d->grad[0] += /' examples/learned_threshold.c >"$dir/wrong_op.c"
compile -o "$dir/op" examples/learned_threshold.c && "$dir/op" >"$dir/out" || fail "the gradient of the op is not that of its surrogate"
compile -o "$dir/wrong_op" "$dir/wrong_op.c" && "$dir/wrong_op" >"$dir/out" && fail "a wrong gradient of the op passes"

# Every command knows it.
q() { "$dir/qgrad" "$@" >"$dir/out" 2>&1 || fail "qgrad $1: $(tail -n 3 "$dir/out")"; }
run="$dir/run"
q explain learned-threshold
grep -q 'start=' "$dir/out" || fail "explain does not list its option: $(cat "$dir/out")"
q explain halves
grep -q 'as=paper' "$dir/out" && fail "explain has options that the scheme lacks: $(cat "$dir/out")"
q explain --markdown
grep -q '^q(x) = x rounded to halves' "$dir/out" || fail "the page of schemes does not explain halves"
q train --data sample --model 8C3-BN-R-MP2-16C3-BN-R-GAP-10 --weight learned-threshold:start=0.6 --epochs 1 --seed 1 --threads 1 --out "$run"
q eval --run "$run" --threads 1
q export --run "$run" -o "$run.qg"
q infer --packed "$run.qg" --run "$run" --threads 1
q inspect --run "$run"
grep -q 'learned-threshold' "$dir/out" || fail "inspect does not show it: $(cat "$dir/out")"
exit $status
