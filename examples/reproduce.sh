#!/bin/sh
# Reproduces papers: trains recipes with several seeds, two single-threaded jobs side by side, and keeps the
# logs of what is finished in results/ with its table.
#     sh examples/reproduce.sh [RECIPE..]      default: every recipe that says what it reproduces
# May be interrupted and started again at any time: finished runs are passed over, others go on.
#     SEEDS="1 2 3"  JOBS=2  MINUTES=50 (then it stops in good order)  QGRAD=build/qgrad  OPTIONS="" (for train)
set -u
qgrad=${QGRAD:-build/qgrad}
seeds=${SEEDS:-1 2 3}
jobs=${JOBS:-2}
folder=examples/recipes
[ -d $folder ] || { echo "reproduce.sh: no $folder here; call it from the top of the tree" >&2; exit 2; }
[ -x "$qgrad" ] || { echo "reproduce.sh: no $qgrad; make builds it" >&2; exit 2; }
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE QGRAD_CPU      # they decide speed and bits
end=${MINUTES:+$(($(date +%s) + MINUTES * 60))}

[ $# -gt 0 ] || set -- $(grep -l '^reproduces' $folder/*.toml | sed 's,.*/,,; s,\.toml$,,')
for row; do
    [ -e "$folder/$row.toml" ] || { echo "reproduce.sh: no $folder/$row.toml" >&2; exit 2; }
done
work=$(mktemp -d) || exit 1

source_of() { sed -n 's/^init-recipe = "\(.*\)"$/\1/p' "$folder/$1.toml"; }
finished() { grep -q '"complete":true' "$1/result.json" 2>/dev/null; }

# A value that was changed in a recipe after a run would only be noticed when the table is made, hours from
# now; a line that was removed still is.
for seed in $seeds; do
    for row; do
        dir=runs/$row/seed-$seed
        finished "$dir" || continue
        "$qgrad" train --recipe "$row" --seed "$seed" --out "$dir" --resume --json ${OPTIONS:-} \
            >"$work/said" 2>&1 && continue
        echo "reproduce.sh: $dir is finished, but not by the recipe as it is now; move it aside" >&2
        tail -n 1 "$work/said" >&2
        rm -rf "$work"
        exit 1
    done
done

keep() { "$qgrad" results --add "$1" >/dev/null || : >"$work/failed"; }

# train ROW SEED: to the end or as far as it may; then its logs go to results/.
train() {
    dir=runs/$1/seed-$2
    if finished "$dir"; then keep "$dir"; return; fi
    set -- "$1" "$2" --recipe "$1" --seed "$2" --out "$dir" --threads 1 --resume --json
    from=$(source_of "$1")
    if [ -n "$from" ]; then
        if ! finished "runs/$from/seed-$2"; then
            echo "$dir: waits for runs/$from/seed-$2"
            : >"$work/waiting"
            return
        fi
        set -- "$@" --init "runs/$from/seed-$2"
    fi
    if [ -n "$end" ]; then
        left=$((end - $(date +%s)))
        [ $left -gt 0 ] || return
        set -- "$@" --budget $left
    fi
    log=$work/$1-$2
    shift 2
    echo "$dir: begins or goes on"
    "$qgrad" train "$@" ${OPTIONS:-} >"$log" 2>"$log.err" &
    echo $! >"$log.pid"
    [ -e "$work/stop" ] && kill -TERM $!
    wait $!
    status=$?
    rm -f "$log.pid"
    case $status in
    0) ;;
    130 | 143) : >"$work/stop" ;;               # a signal, and a checkpoint was written
    *) echo "$dir: status $status"; tail -n 1 "$log.err"; : >"$work/failed"; return ;;
    esac
    if finished "$dir"; then
        keep "$dir"
        echo "$dir: $(sed -n 's/.*"test_accuracy":\([0-9.]*\).*/test accuracy \1/p' "$dir/result.json")"
    fi
}

# Takes one job after another from the list; making the directory is taking it.
worker() {
    while read -r row seed; do
        [ -e "$work/stop" ] && return
        mkdir "$work/taken-$row-$seed" 2>/dev/null && train "$row" "$seed"
    done <"$work/list"
}

# The runs get the signal, write their checkpoints and end; so does everything else.
stop() {
    : >"$work/stop"
    for file in "$work"/*.pid; do
        [ -e "$file" ] && kill -TERM "$(cat "$file")" 2>/dev/null
    done
}
trap stop INT TERM

# Float nets first: what begins with their weights comes in a second round.
for round in first second; do
    : >"$work/list"
    for seed in $seeds; do
        for row; do
            if [ -n "$(source_of "$row")" ]; then mine=second; else mine=first; fi
            if [ $mine = $round ]; then echo "$row $seed" >>"$work/list"; fi
        done
    done
    n=0 pids=''
    while [ $n -lt "$jobs" ]; do
        worker &
        pids="$pids $!"
        n=$((n + 1))
    done
    for pid in $pids; do
        while kill -0 "$pid" 2>/dev/null; do wait "$pid"; done      # a signal ends a wait early
    done
done

left=0
for seed in $seeds; do
    for row; do finished "runs/$row/seed-$seed" || left=$((left + 1)); done
done
status=0
[ -e "$work/failed" ] && status=1
[ -e "$work/waiting" ] && [ -z "$end" ] && status=1      # nothing in this call will bring it
[ -e "$work/stop" ] && status=130
rm -rf "$work"
"$qgrad" results || status=1
echo "runs that are not finished: $left"
exit $status
