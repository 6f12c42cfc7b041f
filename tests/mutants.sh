#!/bin/sh
# Makes one common mistake after another in a copy of the tree and checks that the tests notice.
#
#     sh tests/mutants.sh [NAME...]           default: all; NAME as in tests/mutants/NAME.patch
#
# A patch states which mistake it makes and which tests should find it.  Every line of the table is a
# mutant, with the programs that killed it and the number of cases or test functions that failed.  A
# mutant survives if no test kills it, or if it does not apply or compile.  The last line is "N killed,
# M survived"; the status is 0 if M is 0.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE QGRAD_CPU
top=$(pwd)
copy=$top/build/mutants
jobs=${JOBS:-2}
killed=0 survived=0

field() { sed -n "s/^$1: //p" "$2"; }

program() { for source in tests/*/"$1.c"; do echo "${source%.c}"; done; }

# Only files that differ are replaced in the copy, so make rebuilds only what depends on them.
refresh() {
    for file in "$@"; do
        cmp -s "$top/$file" "$copy/$file" && continue
        mkdir -p "$(dirname "$copy/$file")"
        cat "$top/$file" > "$copy/$file"
    done
}

# The sources of the tree or its copy, from the top of either.
sources() {
    find core quant layers optim datasets train infer cli tools examples tests -name '*.[ch]' -o -name '*.json'
}

# With the programs that tests start.
build() {
    programs=
    for test in $1; do
        source=$(program "$test")
        programs="$programs objects/$source"
        grep -q support/program.h "$source.c" && programs="$programs objects/qgrad objects/qgrad-bench"
        grep -q /examples/fit "$source.c" && programs="$programs objects/examples/fit"
    done
    make -s -C "$copy" -j"$jobs" BUILD=objects CFLAGS=-O2 $programs > "$copy/log" 2>&1
}

# The programs of $1 that fail, each with its number of failures.
killers() {
    for test in $1; do
        files=
        [ "$test" = conformance ] && files=tests/golden/*.json
        (cd "$copy" && QGRAD=objects/qgrad BUILD=objects timeout 300 "objects/$(program "$test")" $files > log 2>&1) && continue
        if [ "$test" = conformance ]; then
            n=$(sed -n 's/.* passed, \([0-9]*\) failed$/\1/p' "$copy/log")
        else
            n=$(sed -n 's/^\[  FAILED  \] \([0-9]*\) test.*/\1/p' "$copy/log" | head -n 1)
        fi
        printf '%s%s %s' "$separator" "$test" "${n:-died}"
        separator=', '
    done
}

# row PATCH RESULT
row() {
    printf '%-34s  %-3s %-72s  %s\n' "$(basename "$1" .patch)" "$(field Mistake "$1" | cut -d, -f1)" \
        "$(field Mistake "$1" | cut -d, -f2- | cut -c2-)" "$2"
}

mutate() {
    changed=$(sed -n 's|^+++ b/||p' "$1")
    tests=$(field Tests "$1")
    result=
    # A patch may change the flags, so objects built without it must not be reused with it.
    [ -z "$(field Rebuild "$1")" ] || build "$tests"
    if ! (cd "$copy" && patch -s -p1 -F0 < "$1" > log 2>&1); then
        result='-  (does not apply)'
    else
        for file in $(field Rebuild "$1"); do touch "$copy/$file"; done
        if ! build "$tests"; then
            result='-  (does not compile)'
        else
            result=$(separator= killers "$tests")
        fi
    fi
    case $result in
    '' | -*) survived=$((survived + 1)) ;;
    *) killed=$((killed + 1)) ;;
    esac
    row "$1" "${result:--  (survived)}"
    for file in $changed $(field Rebuild "$1"); do
        cat "$top/$file" > "$copy/$file"
        rm -f "$copy/$file.orig" "$copy/$file.rej"
    done
}

# The tests of all mutants must compile and pass on the unpatched tree.
check() {
    if ! build "$all"; then
        cat "$copy/log"
        echo "the tree does not compile $1"
        exit 1
    fi
    broken=$(separator= killers "$all")
    [ -z "$broken" ] && return
    echo "the tests fail $1: $broken"
    exit 1
}

patches=
if [ $# -gt 0 ]; then
    for name in "$@"; do patches="$patches $top/tests/mutants/$name.patch"; done
else
    patches=$(ls "$top"/tests/mutants/*.patch)
fi

mkdir -p "$copy"
refresh Makefile packaging/*.mk packaging/*.sh tests/tests.mk qgrad.h $(sources)
for file in $(cd "$copy" && sources); do            # what was renamed or deleted since the last call
    [ -e "$top/$file" ] || rm "$copy/$file"
done
for data in datasets/sample tests/golden/safetensors; do ln -sfn "$top/$data" "$copy/$data"; done
all=$(for patch in $patches; do field Tests "$patch"; done | tr ' ' '\n' | sort -u)
check 'without a mutant'
printf '%-34s  %-3s %-72s  %s\n' mutant no. mistake 'killed by'
for patch in $patches; do mutate "$patch"; done
check 'once the last mutant is gone'
echo "$killed killed, $survived survived"
[ "$survived" -eq 0 ] && [ "$killed" -gt 0 ]
