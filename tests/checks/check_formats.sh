#!/bin/sh
# docs/formats.md has every array, note, column and member that a run writes, and names nothing that no run writes.
build=${BUILD:-build}
here=$(pwd)
qgrad=$here/${QGRAD:-build/qgrad} own_net=$here/$build/tests/own_net
case ${QGRAD:-} in /*) qgrad=$QGRAD ;; esac
case $build in /*) own_net=$build/tests/own_net ;; esac
page=$here/docs/formats.md
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
ln -s "$here/datasets" "$dir/datasets"
cd "$dir" || exit 1
status=0
fail() { echo "docs/formats.md: error: $*"; status=1; }

net='--model 4C3s2-BN-R-GAP-10 --data sample --batch 250 --epochs 1'
"$qgrad" train $net --weight twn --input lsq:bits=2 --out plain >log 2>&1 &&
    "$qgrad" train $net --weight ttq --optimizer adam --ema 0.9 --validation 10% --normalise channel --out other >log 2>&1 &&
    "$qgrad" train $net --weight bnn --normalise whiten --out white >log 2>&1 &&
    "$own_net" own 1 >log 2>&1 || { cat log; exit 1; }

# The rows of the table below a heading: the words in backticks of the first column.
rows() { sed -n "/^## $1\$/,/^## /p" "$page" | sed -n 's/^| *\(`[^|]*`[^|]*\)|.*/\1/p' | grep -o '`[^`]*`' | tr -d '`'; }
# The header of a checkpoint without escaped quotation marks: {"__metadata__":{"note":"text",..},"array":{..},..}
header() { head -c $((8 + $(od -An -tu8 -N8 "$1"))) "$1" | tail -c +9 | sed 's/\\"//g'; }

for file in plain/last plain/best other/last other/best white/last own/last own/best; do
    header $file.safetensors | sed 's/.*"__metadata__":{\([^}]*\)}.*/\1/' | grep -o '"[a-z._-]*":"' | tr -d '":'
done | sort -u >notes
for file in plain/last other/last other/best white/last own/last; do
    header $file.safetensors | sed 's/.*"__metadata__":{[^}]*},//' | grep -o '"[^"]*":{' | tr -d '":{'
done | sort -u >arrays
for run in plain other own; do tr ',{' '\n\n' <$run/result.json | sed -n 's/^"\([a-z_]*\)":.*/\1/p'; done | sort -u >members

rows Checkpoints >said
for note in $(cat notes); do grep -qx -- "$note" said || fail "the note $note is missing"; done
for note in $(grep -E '^(qgrad-checksum|format|kind|arithmetic|layout|recipe|image|classes|normalise.*|net-unprintable|operands|metrics|epoch|steps|.*_accuracy)$' said); do
    grep -qx -- "$note" notes || fail "no run has the note $note"
done
# What the first table names, as patterns.
pattern='[a-z0-9]*\.(weight|bias|gamma|beta|running_mean|running_var|slope|x_shift|y_shift)|[a-z0-9]*\.(weight|input|gradient)\.[a-z]*'
pattern="$pattern|optim\\.(momentum|m|v)\\..*|optim\\.step|ema\\..*|codes\\.[a-z0-9]*"
for array in $(grep -vxE "$pattern" arrays); do
    grep -q "^| \`run\.NAME\`.*\`${array#run.}\`" "$page" || fail "the array $array is missing"
done
rows result.json >said
for member in $(cat members); do [ "$member" = checksum ] || grep -qx "$member" said || fail "the member $member is missing"; done
for member in $(cat said); do grep -qx "$member" members || fail "no run has the member $member"; done
for run in plain other; do
    for column in $(head -n 1 $run/metrics.csv | tr ',' '\n' | grep -v '\.'); do
        sed -n '/^## metrics.csv$/,/^## /p' "$page" | grep -q "\`$column\`" || fail "the column $column is missing"
    done
done
format=$(header plain/last.safetensors | sed 's/.*"format":"\([^"]*\)".*/\1/')
grep -q "| \`format\` = \`$format\` |" "$page" || fail "the format is $format"
grep -q "| \`defaults\` = $(sed -n 's/^defaults = //p' plain/config.toml) |" "$page" || fail "defaults have another version"
for file in plain/* other/* white/*; do
    file=${file##*/}
    rows 'Run directory' | grep -qx "$file" || fail "the file $file is missing"
done
exit $status
