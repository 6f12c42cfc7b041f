#!/bin/sh
# examples/own_images.sh runs to its end, on a few pictures of the sample, and again in the directory that it has left.
qgrad=${QGRAD:-build/qgrad}
build=${BUILD:-build}
dir=$build/tests/own-images
status=0
fail() { echo "check_own_images: error: $*"; status=1; }

rm -rf "$dir"
for call in first second; do
    QGRAD=$qgrad EXAMPLES=$build/examples SET=sample TRAIN=10 TEST=4 EPOCHS=1 sh examples/own_images.sh "$dir" >"$dir.log" 2>&1 ||
        fail "$call call: $(tail -n 5 "$dir.log")"
done
[ "$(find "$dir/images" -name '*.png' | wc -l)" -eq 140 ] || fail "exported other images: $(find "$dir/images" | head -n 3)"
[ "$("$qgrad" runs "$dir" --csv | grep -c ',finished,1,1,')" -eq 4 ] || fail "$("$qgrad" runs "$dir")"
grep -q "^$dir/images/test/bag/.*png: .* %, .* %, .* %$" "$dir.log" || fail "no prediction: $(tail -n 5 "$dir.log")"
for wrong in "$dir a" "$dir,a"; do
    QGRAD=$qgrad sh examples/own_images.sh "$wrong" >"$dir.log" 2>&1 && fail "takes $wrong"
    [ ! -e "$wrong" ] || fail "makes $wrong"
    grep -q 'DIR has a space or a comma' "$dir.log" || fail "$wrong: $(tail -n 1 "$dir.log")"
done
rm -rf "$dir" "$dir.log"
exit $status
