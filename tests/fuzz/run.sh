#!/bin/sh
# run.sh BUILD SECONDS [RUNS [TARGET]]: runs the fuzz programs of BUILD, JOBS at a time (default: 2), in SECONDS in all or
# for RUNS executions each.  Prints a row per target; a finding ends its target, and its input stays in BUILD.  The status
# is 0 if there is none.
build=$1 seconds=$2 runs=$3 only=$4
JOBS=${JOBS:-2}
targets=$(for source in tests/fuzz/fuzz_*.c; do name=${source##*/fuzz_}; echo "${name%.c}"; done)
if [ -n "$only" ]; then
    [ -e "tests/fuzz/fuzz_$only.c" ] || { echo "fuzz: unknown target '$only'; available:" $targets; exit 2; }
    targets=$only
fi
count=$(echo "$targets" | wc -l)
[ "$count" -ge "$JOBS" ] || JOBS=$count
share=$(((seconds * JOBS + count - 1) / count))

# Files that the targets write are read back at once, so they are in memory where there is such a place.
TMPDIR=$(mktemp -d /dev/shm/qg_fuzz_XXXXXX 2>/dev/null || mktemp -d) || exit 1
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 1' HUP INT TERM
export TMPDIR build runs share

# Limits for one input.  They turn an input of a few kilobytes that asks for too much into a finding:
#   malloc_limit_mb  64 at once, ten thousand times the input: no reader of text comes near.  An image may have 2^26 pixels
#                    of three bytes (datasets/image.h).  A net may be declared as large as its author wants, but finds no
#                    more than 32 MiB at once.
#   rss_limit_mb     several of these, and what the sanitizer and libFuzzer keep themselves.
#   timeout          30 s.  The slowest legal input, a text of ten bytes for a net of 4,096 layers, takes one; the rest is
#                    for busy machines.
export OPENBLAS_NUM_THREADS=1
# The stacks of allocations cost time; whoever reproduces a finding gets them.
export ASAN_OPTIONS="malloc_context_size=0:quarantine_size_mb=4:allocator_release_to_os_interval_ms=-1:detect_stack_use_after_return=0:allocator_may_return_null=1"
export UBSAN_OPTIONS="print_stacktrace=1"
echo "$targets" | xargs -P "$JOBS" -n 1 sh -c '
    name=$1 malloc=64 rss=512 length=4096
    case $name in
    image | predict) malloc=256 rss=1024 ;;
    net) length=512 ASAN_OPTIONS=$ASAN_OPTIONS:max_allocation_size_mb=32 ;;
    checkpoint) length=8192 ;;
    keys | model | preprocess | quantizers | reference | scheme | schedule) length=512 ;;
    esac
    limit=-max_total_time=$share
    [ -z "$runs" ] || limit=-runs=$runs
    mkdir -p "$build/corpus/$name"
    touch "$build/$name.log.began"
    rm -f "$build/$name.status"         # of an earlier round, which would pass for this one if it is killed
    "$build/tests/fuzz/fuzz_$name" "$limit" -max_len=$length -timeout=30 -rss_limit_mb=$rss -malloc_limit_mb=$malloc \
        -print_final_stats=1 -artifact_prefix="$build/$name-" "$build/corpus/$name" "tests/fuzz/corpus/$name" \
        >"$build/$name.log" 2>&1
    echo $? >"$build/$name.status"' sh

printf '%-12s %12s %10s %8s  %s\n' target executions per-second edges findings
total=0 findings=0
for name in $targets; do
    log=$build/$name.log
    n=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    total=$((total + ${n:-0})) found=none
    if [ "$(cat "$build/$name.status" 2>/dev/null)" != 0 ]; then
        findings=$((findings + 1))
        found=$(sed -n "s/^.*Test unit written to //p" "$log" | tail -n 1)
        # A target that was mute at that moment has not said so.
        found=${found:-$(find "$build" -name "$name-*-*" -newer "$log.began" | head -n 1)}
        found=${found:-see $log}
    fi
    printf '%-12s %12d %10d %8d  %s\n' "$name" "${n:-0}" "${rate:-0}" "${edges:-0}" "$found"
done
echo "$total executions, $findings findings"
[ "$findings" -eq 0 ] && [ "$total" -gt 0 ]
