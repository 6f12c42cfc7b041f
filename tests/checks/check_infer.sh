#!/bin/sh
# The library of the engine needs the C library for a few functions and nothing else: no heap, no BLAS, no threads, no files.
# It has no writable data.  Its headers compile alone, as C11 and C++17.
export LC_ALL=C
build=${BUILD:-build}
status=0
fail() { echo "error: $*"; status=1; }
library=$build/libqgrad_infer.a
if [ -z "$SANITIZE" ]; then
    # What other compilers and -fstack-protector, _FORTIFY_SOURCE and the choice of the instruction set add is harmless.
    allowed='mem(cpy|set|move|cmp)|str(cmp|len)|getenv|rintf|__(stack_chk_fail|mem(cpy|set|move)_chk|cpu_(model|features2|indicator_init)|popcountdi2)'
    defined=$(nm "$library" | awk 'NF == 3 && $2 ~ /[A-Z]/ { print $3 }' | sort -u)
    needed=$(nm -u "$library" | awk 'NF == 2 { print $2 }' | sort -u | grep -vx "$defined" | grep -Evx "$allowed|_GLOBAL_OFFSET_TABLE_")
    [ -z "$needed" ] || fail "$library needs $(echo $needed)"
    written=$(nm "$library" | awk '$2 ~ /^[bBC]$/ || ($2 ~ /^[dD]$/ && $3 !~ /^qg__.*_kernels_/) { print $3 }')
    [ -z "$written" ] || fail "$library has variables: $(echo $written)"
fi
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
strict='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror'
for header in infer/*.h infer/kernels/*.h; do
    case $header in */lanes.h | */find.h | */int8_weights.h | */winograd.h) continue ;; esac     # of kernels only
    [ -e "$header" ] || continue
    printf '#include "%s"\nextern int unused;\n' "$header" >"$dir/alone.c"
    ${CC:-cc} -std=c11 $strict -I. -fsyntax-only "$dir/alone.c" || fail "$header does not compile alone"
    if command -v "${CXX:-c++}" >/dev/null; then
        "${CXX:-c++}" -std=c++17 $strict -I. -x c++ -fsyntax-only "$dir/alone.c" || fail "$header does not compile as C++17"
    fi
done
# A C++ program links it, and nothing else of the library.
if [ -z "$SANITIZE" ] && command -v "${CXX:-c++}" >/dev/null; then
    printf '%s\n' '#include <cstddef>' '#include "infer/infer.h"' 'int main() {' '    std::size_t bytes;' \
        '    return qg_infer_size("text", 4, &bytes) != QG_INFER_EFORMAT || !*qg_infer_message(QG_INFER_EFORMAT);' '}' >"$dir/program.cc"
    "${CXX:-c++}" -std=c++17 $strict -I. -o "$dir/program" "$dir/program.cc" "$library" -lm && "$dir/program" || fail "a C++ program does not run with $library"
fi
exit $status
