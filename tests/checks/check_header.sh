#!/bin/sh
# The public headers are those that qgrad.h names.  Each compiles alone with the strictest flags and includes only public
# ones.  No macro or inline function of theirs uses a function that a shared library does not export.
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cc=${CC:-cc}
strict='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror'
status=0
fail() { echo "error: $*"; status=1; }

public=$(sed -n 's/^#include "\(.*\)"$/\1/p' qgrad.h)
for header in $public; do
    for included in $(sed -n 's/^#include "\(.*\)".*/\1/p' "$header"); do
        echo "$public" | grep -qx "$included" || fail "$header includes $included, which qgrad.h does not"
    done
    # The macros of cpu.h are for the library's own kernels.
    hidden=$(awk '/^#define/ { on = 1 } on && match($0, /qg__[a-z_]*\(/) { print substr($0, RSTART, RLENGTH) } !/\\$/ { on = 0 }' "$header")
    [ -z "$hidden" ] || [ "$header" = core/kernels/cpu.h ] || fail "$header: a macro calls $hidden"
    printf '#include "%s"\nextern int unused;\n' "$header" >"$dir/alone.c"
    $cc -std=c11 $strict -I. -fsyntax-only "$dir/alone.c" || fail "$header does not compile alone"
done
# A file that includes two headers with one guard gets only the first.
twice=$(find . -name '*.h' ! -path './build/*' -exec sed -n 's/^#ifndef \(.*_H\)$/\1/p' {} + | sort | uniq -d)
[ -z "$twice" ] || fail "the guard $twice is that of two headers"
# Compilers for other machines stop at one message, whatever is compiled first.
for header in qgrad.h infer/infer.h core/io/file.c infer/load.c cli/eval.c; do
    printf '#include "%s"\n' "$header" >"$dir/other.c"
    for machine in __SIZEOF_POINTER__=4 __BYTE_ORDER__=__ORDER_BIG_ENDIAN__; do
        $cc -std=c11 -D_POSIX_C_SOURCE=200809L -w -I. "-U${machine%%=*}" "-D$machine" -fsyntax-only "$dir/other.c" 2>"$dir/said" &&
            fail "$header compiles with $machine"
        [ "$(grep -c 'error: ' "$dir/said")" = 2 ] && grep -q 'error: .*qgrad is for little-endian machines of 64 bits' "$dir/said" ||
            fail "$header: $machine: $(cat "$dir/said")"
    done
done
echo '#include "qgrad.h"' >"$dir/all.c"
if $cc -std=c11 -O0 -fkeep-static-functions -I. -w -c -o "$dir/all.o" "$dir/all.c" 2>/dev/null; then
    hidden=$(nm -u "$dir/all.o" | grep -o 'qg__.*')
    [ -z "$hidden" ] || fail "an inline function of a header calls $(echo $hidden)"
fi
exit $status
