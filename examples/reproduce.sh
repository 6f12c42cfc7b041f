#!/bin/sh
# Reproduces papers: trains recipes with several seeds, two single-threaded jobs at a time, and copies the logs of
# finished runs to results/ and its table.
#     sh examples/reproduce.sh [RECIPE..]      default: every recipe with the key reproduces
# You can interrupt the script and start it again: it skips finished runs and resumes the others.
#     SEEDS="1 2 3"  JOBS=2  MINUTES=50 (then it stops after a checkpoint)  QGRAD=build/qgrad  OPTIONS="" (for train)
set -u
qgrad=${QGRAD:-build/qgrad}
seeds=${SEEDS:-1 2 3}
jobs=${JOBS:-2}
folder=examples/recipes
[ -d $folder ] || { echo "reproduce.sh: $folder does not exist; run the script from the top of the source tree" >&2; exit 2; }
[ -x "$qgrad" ] || { echo "reproduce.sh: $qgrad does not exist; build it with make" >&2; exit 2; }
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE QGRAD_CPU      # they affect speed and bits
end=${MINUTES:+$(($(date +%s) + MINUTES * 60))}

[ $# -gt 0 ] || set -- $(grep -l '^reproduces' $folder/*.toml | sed 's,.*/,,; s,\.toml$,,')
for row; do
    [ -e "$folder/$row.toml" ] || { echo "reproduce.sh: $folder/$row.toml does not exist" >&2; exit 2; }
done
work=$(mktemp -d) || exit 1

source_of() { sed -n 's/^init-recipe = "\(.*\)"$/\1/p' "$folder/$1.toml"; }
finished() { grep -q '"complete":true' "$1/result.json" 2>/dev/null; }

# Without this check, a recipe that changed after its run would be noticed only when the table is written, hours
# from now.  A removed line is still noticed only then.
for seed in $seeds; do
    for row; do
        dir=runs/$row/seed-$seed
        finished "$dir" || continue
        "$qgrad" train --recipe "$row" --seed "$seed" --out "$dir" --resume --json ${OPTIONS:-} \
            >"$work/said" 2>&1 && continue
        echo "reproduce.sh: $dir is finished, but its recipe has changed since; rename the directory" >&2
        tail -n 1 "$work/said" >&2
        rm -rf "$work"
        exit 1
    done
done

keep() { "$qgrad" results --add "$1" >/dev/null || : >"$work/failed"; }

# train ROW SEED: trains to the end or until the time is up, then copies the logs of a finished run to results/.
train() {
    dir=runs/$1/seed-$2
    if finished "$dir"; then keep "$dir"; return; fi
    set -- "$1" "$2" --recipe "$1" --seed "$2" --out "$dir" --threads 1 --resume --json
    from=$(source_of "$1")
    if [ -n "$from" ]; then
        if ! finished "runs/$from/seed-$2"; then
            echo "$dir: waiting for runs/$from/seed-$2"
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
    echo "$dir: training"
    "$qgrad" train "$@" ${OPTIONS:-} >"$log" 2>"$log.err" &
    echo $! >"$log.pid"
    [ -e "$work/stop" ] && kill -TERM $!
    wait $!
    status=$?
    rm -f "$log.pid"
    case $status in
    0 | 3) ;;                                   # 3: the time is up
    130 | 143) : >"$work/stop" ;;               # a signal arrived; train wrote a checkpoint if it had begun
    *) echo "$dir: status $status"; tail -n 1 "$log.err"; : >"$work/failed"; return ;;
    esac
    if finished "$dir"; then
        keep "$dir"
        echo "$dir: $(sed -n 's/.*"test_accuracy":\([0-9.]*\).*/test accuracy \1/p' "$dir/result.json")"
    fi
}

# Takes one job after another from the list.  Creating the directory claims the job.
worker() {
    while read -r row seed; do
        [ -e "$work/stop" ] && return
        mkdir "$work/taken-$row-$seed" 2>/dev/null && train "$row" "$seed"
    done <"$work/list"
}

# Forwards the signal to the runs, which write their checkpoints and end.  Then the workers end.
stop() {
    : >"$work/stop"
    for file in "$work"/*.pid; do
        [ -e "$file" ] && kill -TERM "$(cat "$file")" 2>/dev/null
    done
}
trap stop INT TERM

# Float nets come first; runs that start from their weights come in the second round.
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
        while kill -0 "$pid" 2>/dev/null; do wait "$pid"; done      # a signal interrupts wait
    done
done

left=0
for seed in $seeds; do
    for row; do finished "runs/$row/seed-$seed" || left=$((left + 1)); done
done
status=0
[ -e "$work/failed" ] && status=1
[ -e "$work/waiting" ] && [ -z "$end" ] && status=1      # no run of this call provides it
[ -e "$work/stop" ] && status=130
rm -rf "$work"
"$qgrad" results || status=1
echo "unfinished runs: $left"
exit $status
