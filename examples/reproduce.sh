#!/bin/sh
# Reproduces papers: trains recipes with several seeds, two single-threaded jobs at a time (qgrad sweep), and copies the
# logs of finished runs to results/ and its table.
#     sh examples/reproduce.sh [RECIPE..]      default: every recipe with the key reproduces
# You can interrupt the script and start it again: it skips finished runs and resumes the others.
#     SEEDS="1 2 3"  JOBS=2  MINUTES=50 (then it stops after a checkpoint)  QGRAD=build/qgrad  OPTIONS="" (for train)
set -u
qgrad=${QGRAD:-build/qgrad}
seeds=${SEEDS:-1 2 3}
folder=examples/recipes
[ -d $folder ] || { echo "reproduce.sh: $folder does not exist; run the script from the top of the source tree" >&2; exit 2; }
[ -x "$qgrad" ] || { echo "reproduce.sh: $qgrad does not exist; build it with make" >&2; exit 2; }

[ $# -gt 0 ] || set -- $(grep -l '^reproduces' $folder/*.toml | sed 's,.*/,,; s,\.toml$,,')
common="sweep --recipe $(echo "$@" | tr ' ' ,) --seed $(echo $seeds | tr ' ' ,) --out runs --threads 1 ${OPTIONS:-}"

# Without this check, a recipe that changed after its run would be noticed only when the table is written, hours
# from now.  A removed line is still noticed only then.
"$qgrad" $common --list >/dev/null || { echo "reproduce.sh: nothing was trained, for the reason above" >&2; exit 1; }

# The signal goes to the runs, which write their checkpoints and end.
"$qgrad" $common --jobs "${JOBS:-2}" ${MINUTES:+--budget "${MINUTES}m"} &
pid=$!
trap 'kill -TERM $pid' INT TERM
wait $pid
status=$?
while kill -0 $pid 2>/dev/null; do wait $pid; status=$?; done       # a signal interrupts wait
case $status in
0 | 3) status=0 ;;                      # 3: the time is up
130 | 143) status=130 ;;
*) status=1 ;;
esac

left=0
for seed in $seeds; do
    for row; do
        if grep -q '"complete":true' "runs/$row/seed-$seed/result.json" 2>/dev/null; then
            "$qgrad" results --add "runs/$row/seed-$seed" >/dev/null || status=1
        else
            left=$((left + 1))
        fi
    done
done
"$qgrad" results || status=1
echo "unfinished runs: $left"
exit $status
