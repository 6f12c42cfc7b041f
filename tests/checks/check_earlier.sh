#!/bin/sh
# Runs of an earlier version (tests/earlier) are read, evaluated, exported and trained from.  They have another arithmetic, so those that
# are complete print their results, and none is continued.
set -eu
. ./tests/support/paths.sh
own_net=$build/tests/own_net
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp -R tests/earlier/. "$dir"
ln -s "$here/datasets" "$dir/datasets"
cd "$dir"
fail() { echo "error: $*"; exit 1; }
field() { sed -n 's/.*"'"$1"'":"\{0,1\}\([^",}]*\).*/\1/p' "$2"; }
why='was trained under version 1 of the arithmetic, but this program trains it under version 2'
# refuses COMMAND..: for this reason, and no file changes.
refuses() {
    "$@" >out 2>said && fail "$* continues"
    [ "$(grep -c "$why" said)" -eq 1 ] || fail "$*: $(cat said)"
    for run in trained unfinished taught own own-unfinished own-taught; do
        diff -r "$here/tests/earlier/$run" "$run" || fail "$* changed $run"
    done
}

for run in trained taught; do
    "$qgrad" eval --run $run --json >said || fail "eval of $run"
    [ "$(field digest said)" = "$(field digest $run/result.json)" ] || fail "$run: other weights were read"
    "$qgrad" train --resume --out $run --json >said || fail "$run does not print its results"
    [ "$(field digest said) $(field arithmetic said)" = "$(field digest $run/result.json) 1" ] || fail "$run: $(cat said)"
done
for run in trained unfinished taught own own-unfinished own-taught; do
    "$qgrad" inspect $run >said || fail "inspect of $run"
    grep -q ', arithmetic 1$' said || fail "inspect of $run: $(cat said)"
    "$qgrad" report $run --out page.html >/dev/null || fail "report of $run"
done
for run in trained unfinished; do "$qgrad" export --run $run -o packed >/dev/null || fail "export of $run"; done
[ "$("$own_net" own 2)" = "20696ac324547e3f 2.20528013" ] || fail "own does not print its results"
refuses "$qgrad" train --resume --out unfinished
refuses "$qgrad" train --resume --out trained --epochs 4
refuses "$qgrad" train --resume --out taught --epochs 3
refuses "$own_net" own-unfinished 3
refuses "$own_net" own 4
refuses "$own_net" own-taught 3 0 own
"$qgrad" train --config trained/config.toml --init unfinished --epochs 1 --out new --json >said 2>&1 || fail "--init: $(cat said)"
[ "$(field arithmetic new/result.json)" = 2 ] || fail "new: $(cat new/result.json)"
