#!/bin/sh
# Runs every test program of BUILD (default: build) and every check, from the top of the tree, one per
# core at a time (JOBS).  Prints the failures and ends with "N passed, M failed", where N counts test
# functions.  A file that a test leaves in the temporary directory is a failure, too.
# With QGRAD_CPU=avx2 or baseline, everything runs on those kernels.  ROOMS='core quant' runs the tests of these rooms,
# of which checks is one, ONLY='test_fma check_bench' runs these, and SKIP leaves some out.  With QGRAD_EVERY=1, tests take
# every combination (tests/support/environment.h).
build=${1:-build}
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
QGRAD=${QGRAD:-$build/qgrad}
BUILD=$build
CC=${CC:-cc}
log=$build/test-log
export QGRAD BUILD CC log
passed=0 failed=0
rm -rf "$log"
mkdir -p "$log"
# Trainings flush thousands of files, which costs nothing in memory.  Files go to the disk if TMPDIR is set, programs may not
# run from /dev/shm, or less than half a gigabyte is free there.
in_memory() {
    [ -z "${TMPDIR:-}" ] && df -Pk /dev/shm 2>/dev/null | awk 'END { exit !($4 > 524288) }' || return 1
    made=$(mktemp -d /dev/shm/qgrad-test.XXXXXX 2>/dev/null) && printf '#!/bin/sh\n' >"$made/run" && chmod +x "$made/run" &&
        "$made/run" 2>/dev/null && rm "$made/run" && return 0
    rm -rf "$made"
    return 1
}
made=
trap 'rm -rf "$made"' EXIT
trap 'exit 1' HUP INT TERM
in_memory || made=$(mktemp -d) || exit 1
chmod 711 "$made"               # tests that give up the rights of root find their files
TMPDIR=$made
# glibc keeps memory that a test has freed, and the next allocation finds it as it was left.
MALLOC_TRIM_THRESHOLD_=33554432 MALLOC_MMAP_THRESHOLD_=33554432
export TMPDIR MALLOC_TRIM_THRESHOLD_ MALLOC_MMAP_THRESHOLD_

# names GLOB..: of the tests that match, are in the rooms, and are not left out.
names() {
    for file; do
        room=$(basename "${file%/*}") name=$(basename "${file%.*}")
        case " ${ROOMS:-$room} " in *" $room "*) ;; *) continue ;; esac
        case " ${ONLY:-$name} " in *" $name "*) ;; *) continue ;; esac
        case " $(echo ${SKIP:-}) " in *" $name "*) ;; *) echo "$name" ;; esac
    done
}
sources=$(names tests/*/test_*.c)
checks=$(names tests/checks/check_*.sh)
conformance=$(names tests/quant/conformance.c)
twice=$(printf '%s\n' $sources $checks | sort | uniq -d)
[ -z "$twice" ] || { echo "tests/run.sh: error: two tests are called $twice"; exit 1; }

# Records the output and status of a program; a program that never ran has no status and has failed.  The longest begin, so
# that no core is idle in the end.
printf '%s\n' $conformance $checks $sources |
    awk '{ print !/^(test_(export|cli_sweep|cli_tiny|kernels|fit|cli_train|fetch|ranks)|check_(examples|course|install|bench))$/, $0 }' |
    sort -s -n -k 1,1 | cut -d ' ' -f 2 | xargs -P "${JOBS:-$(getconf _NPROCESSORS_ONLN)}" -n 1 sh -c '
    case $1 in
    conformance) "$BUILD/tests/quant/$1" tests/golden/*.json ;;
    check_*) sh "tests/checks/$1.sh" ;;
    *) "$BUILD"/tests/*/"$1" ;;
    esac >"$log/$1" 2>&1
    echo $? >"$log/$1.status"' sh

status_of() { cat "$log/$1.status" 2>/dev/null || echo 1; }

# add NAME PASSED FAILED: a program that crashes counts as at least one failure.
add() {
    f=$3
    [ "$(status_of "$1")" -ne 0 ] && [ "$f" -eq 0 ] && f=1
    passed=$((passed + $2))
    failed=$((failed + f))
    if [ "$f" -eq 0 ]; then
        printf '%-24s %4d passed\n' "$1" "$2"
    else
        printf '%-24s %4d passed, %d failed\n' "$1" "$2" "$f"
        grep -E '\[  (ERROR|FAILED)|Error|ERROR|failed|runtime error|FAIL|abort|Killed|(^|: )error:|missing' \
            "$log/$1" | head -n 40
    fi
}

for name in $sources; do
    p=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$log/$name" | head -n 1)
    f=$(sed -n 's/^\[  FAILED  \] \([0-9]*\) test.*/\1/p' "$log/$name" | head -n 1)
    add "$name" "${p:-0}" "${f:-0}"
done

for name in $conformance; do
    closing=$(tail -n 1 "$log/$name")
    p=$(echo "$closing" | sed -n 's/^\([0-9]*\) passed, [0-9]* failed$/\1/p')
    f=$(echo "$closing" | sed -n 's/^[0-9]* passed, \([0-9]*\) failed$/\1/p')
    add "$name" "${p:-0}" "${f:-0}"
done

for name in $checks; do
    ok=$(($(status_of "$name") == 0))
    add "$name" "$ok" $((1 - ok))
done

left=$(ls -A "$TMPDIR")
[ -z "$left" ] || { echo "left behind: $left"; failed=$((failed + 1)); }
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
