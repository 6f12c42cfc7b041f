#!/bin/sh
# Runs of an earlier version (tests/earlier) are read, continued and extended on any kernels; tests/bits.sh compares their bytes.
set -eu
build=${BUILD:-build}
here=$(pwd)
qgrad=$here/${QGRAD:-build/qgrad} own_net=$here/$build/tests/own_net
case ${QGRAD:-} in /*) qgrad=$QGRAD ;; esac
case $build in /*) own_net=$build/tests/own_net ;; esac
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp -R tests/earlier/. "$dir"
ln -s "$here/datasets" "$dir/datasets"
cd "$dir"
fail() { echo "error: $*"; exit 1; }
field() { sed -n 's/.*"'"$1"'":"\{0,1\}\([^",}]*\).*/\1/p' "$2"; }

for run in trained taught; do
    "$qgrad" eval --run $run --json >said || fail "eval of $run"
    [ "$(field digest said)" = "$(field digest $run/result.json)" ] || fail "$run: other weights were read"
done
for run in trained unfinished taught own own-unfinished own-taught; do
    "$qgrad" inspect $run >/dev/null || fail "inspect of $run"
    "$qgrad" report $run --out page.html >/dev/null || fail "report of $run"
done
while read -r epochs run arguments; do
    case $run in
    own*) "$own_net" "$run" "$epochs" $arguments >/dev/null || fail "$run does not go on" ;;
    *) "$qgrad" train --resume --out "$run" --epochs "$epochs" --json >/dev/null || fail "$run does not go on" ;;
    esac
    [ "$(field epochs "$run/result.json") $(field complete "$run/result.json")" = "$epochs true" ] || fail "$run ended elsewhere"
done <<EOF
4 unfinished
3 taught
4 trained
3 own-unfinished
3 own-taught 0 own
4 own
EOF
