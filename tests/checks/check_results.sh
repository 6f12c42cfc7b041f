#!/bin/sh
# results/README.md agrees with the logs beside it, the net of every recipe can be built, and the script that
# trains them can be stopped and resumed.
. ./tests/support/paths.sh
status=0
fail() { echo "check_results: error: $*"; status=1; }

"$qgrad" results --check || fail "the table is not what the logs say; qgrad results writes it"
# The first page has accuracies of the table, and bytes and speeds, to three digits, of LeNet-5 in results/engine.md:
# its fifth column is a batch of 64 on one thread.
wrong=$(sed -n '/^| weights | inputs /,/^$/p' README.md | sed '1,2d; /^$/d' | while IFS='|' read -r _ weights inputs accuracy bytes speed _; do
    grep -qF "|${accuracy% % } |" results/README.md || echo "accuracy of$weights"
    awk -F '|' -v bytes="${bytes% bytes }" -v speed="$(echo "$speed" | tr -d ', ')" '
        /^### / { lenet = $0 == "### LeNet-5" }
        lenet && $3 == bytes " " { unit = 10 ^ (length(int($6)) - 3); right += int($6 / unit + 0.5) * unit == speed }
        END { exit !right }' results/engine.md || echo "speed or bytes of$weights x$inputs"
done)
[ -z "$wrong" ] || fail "README.md: $wrong"
for recipe in examples/recipes/*.toml; do
    name=$(basename "$recipe" .toml)
    why=$("$qgrad" summary --recipe "$name" 2>&1 >/dev/null) && continue
    fail "$name: $why"
done
for recipe in $(grep -l '^init-recipe' examples/recipes/*.toml); do
    first=examples/recipes/$(sed -n 's/^init-recipe = "\(.*\)"$/\1/p' "$recipe").toml
    [ "$(grep '^model' "$recipe")" = "$(grep '^model' "$first")" ] || fail "$recipe begins with another net: $first"
done

# Two rows on the sample data, one of which starts from the other's weights, in a separate directory.
dir=$(mktemp -d) || exit 1
pid=
# Stops all trainings with a signal and waits for them.
leave() {
    [ -z "$pid" ] || kill -TERM "$pid" 2>/dev/null
    [ -z "$pid" ] || wait "$pid"
    rm -rf "$dir"
}
trap leave EXIT
trap 'exit 1' HUP INT TERM
mkdir -p "$dir/examples/recipes"
ln -s "$here/datasets" "$dir/datasets"
cp examples/reproduce.sh "$dir/examples"
printf '%s\n' 'model = "4C5s3-BN-R-10"' 'data = "sample"' 'batch = 500' 'epochs = 1' >"$dir/examples/recipes/plain.toml"
{ cat "$dir/examples/recipes/plain.toml"; echo 'weight = "twn"'; echo 'init-recipe = "plain"'; } \
    >"$dir/examples/recipes/tuned.toml"
cd "$dir" || exit 1
unset JOBS OPTIONS
QGRAD=$qgrad SEEDS='1 2' MINUTES=0 sh examples/reproduce.sh plain tuned >log 2>&1
grep -q 'unfinished runs: 4' log || fail "without time: $(cat log)"
QGRAD=$qgrad SEEDS='1 2' sh examples/reproduce.sh plain tuned >log 2>&1 || fail "$(cat log)"
grep -q 'unfinished runs: 0' log || fail "$(cat log)"
grep -q -- '--recipe tuned --init runs/plain/seed-1 --seed 1' results/README.md || fail "$(cat results/README.md)"
[ "$(find results -type f | wc -l)" -eq 17 ] || fail "$(find results -type f)"
"$qgrad" results --check || fail "after reproduce.sh"
# Rows of one protocol have a picture, with a second chart where speeds were measured.
[ ! -e results/protocol.svg ] || fail "a picture without a row"
cp examples/recipes/plain.toml examples/recipes/resnet20-60-plain.toml
QGRAD=$qgrad SEEDS='1 2' sh examples/reproduce.sh resnet20-60-plain >log 2>&1 || fail "$(cat log)"
[ "$(grep -c 'class="qg"' results/protocol.svg)" -eq 1 ] || fail "the picture of sizes"
echo 'resnet20-60-plain 5000' >results/protocol-speed.txt
"$qgrad" results --check >log 2>&1 && fail "a picture without the speeds goes unnoticed"
grep -q 'results/protocol.svg' log || fail "$(cat log)"
"$qgrad" results >log && "$qgrad" results --check >log || fail "$(cat log)"
[ "$(grep -c 'class="qg"' results/protocol.svg)" -eq 2 ] || fail "the picture of speeds"
# A chain of quantizers whose learned values start afresh: each row begins with the weights of the one before.
{ cat examples/recipes/plain.toml; echo 'weight = "lsq:bits=8"'; echo 'init-recipe = "plain"'; } >examples/recipes/eight.toml
{ cat examples/recipes/plain.toml; echo 'weight = "lsq:bits=2"'; echo 'init-recipe = "eight"'; } >examples/recipes/two.toml
QGRAD=$qgrad SEEDS=1 sh examples/reproduce.sh plain eight two >log 2>&1 || fail "$(cat log)"
cp examples/recipes/plain.toml examples/recipes/longer.toml
for call in first second; do
    QGRAD=$qgrad SEEDS=1 OPTIONS='--epochs 2' sh examples/reproduce.sh longer >log 2>&1 || fail "$call call: $(cat log)"
done
sed 's/epochs = 1/epochs = 2/' examples/recipes/plain.toml >changed && mv changed examples/recipes/plain.toml
QGRAD=$qgrad SEEDS='1 2 3' sh examples/reproduce.sh plain >log 2>&1 && fail "a recipe that was changed goes unnoticed"
grep -q 'runs/plain/seed-1: has a run with epochs 1, not 2' log || fail "$(cat log)"
[ -e runs/plain/seed-3 ] && fail "trained although the recipe was changed"
sh examples/reproduce.sh absent 2>/dev/null && fail "a recipe that is not there goes unnoticed"

# A training that fails ends a script that prints a table, without a row.
for script in defaults learned_ranges every_scheme; do
    QGRAD=false sh "$here/examples/$script.sh" none >log 2>&1 && fail "$script.sh succeeds without a training"
    [ "$(grep -c '^|' log)" -eq 2 ] || fail "$script.sh prints a row of a training that failed: $(cat log)"
done
NETS='lenet5 none' QGRAD=false sh "$here/examples/defaults.sh" none >log 2>&1
[ $? -eq 2 ] && [ "$(wc -l <log)" -eq 1 ] || fail "defaults.sh of an unknown net: $(cat log)"

# After a signal the run has its checkpoint, and no process works on it.  It is far too long to end by itself.
sed 's/^epochs = .*/epochs = 100000/' examples/recipes/plain.toml >examples/recipes/long.toml
# MINUTES ends it if this script is killed.
QGRAD=$qgrad SEEDS=1 MINUTES=10 sh examples/reproduce.sh long >log 2>&1 &
pid=$!
until grep -q '^1,' runs/long/seed-1/metrics.csv 2>/dev/null || ! kill -0 $pid 2>/dev/null; do sleep 0.1; done
kill -TERM $pid
wait $pid
[ $? -eq 130 ] || fail "after a signal: $(cat log)"
pid=
"$qgrad" train --resume --out runs/long/seed-1 --budget 0 --json >log 2>&1
[ $? = 3 ] || fail "$(cat log)"
grep -q '"epochs":[1-9].*"complete":false' log || fail "no checkpoint, or nothing left to train: $(cat log)"
exit $status
