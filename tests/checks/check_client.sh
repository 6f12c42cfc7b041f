#!/bin/sh
# The command line is a client of the library: what its objects need, libqgrad.so exports, or the objects of eight internal headers
# on text, files and time have, which it may share.  So whatever `qgrad` does a C program can do, too.
build=${BUILD:-build}
export LC_ALL=C
shared='core/io/json_write core/io/number core/io/utf8 core/io/paths core/io/file core/clock'

# core/io/grow.h and hash.h have no symbols.
headers='core/io/grow core/io/hash'

objects=$(find cli -name '*.c' | sed "s,\(.*\)\.c,$build/\1.o,")
for object in $shared; do objects="$objects $build/$object.o"; done
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
${NM:-nm} -u $objects | sed -n 's/^ *[Uw] _\{0,1\}\(qg_[A-Za-z0-9_]*\)$/\1/p' | sort -u >"$work/needed"
${NM:-nm} --defined-only $objects | awk 'NF == 3 { print $3 }' | sort -u >"$work/own"
sed -n 's/^ *\(qg_[A-Za-z0-9_]*\);$/\1/p' "$build/libqgrad.exports" | sort -u >"$work/exported"
sort -u "$work/own" "$work/exported" | comm -23 "$work/needed" - >"$work/internal"
[ -s "$work/needed" ] && [ -s "$work/exported" ] || { echo "$build: error: has no objects of cli/ or no libqgrad.exports"; exit 1; }
for name in $(cat "$work/internal"); do
    echo "$(grep -rlw "$name" cli --include='*.c' | tr '\n' ' '): error: calls $name, which libqgrad.so does not export"
done

cat $(find cli -name '*.[ch]') | sed -n 's/^#include "\([^"]*\)\.h".*/\1/p' | grep -v '^cli/' | sort -u >"$work/included"
{ sed -n 's/^#include "\([^"]*\)\.h".*/\1/p' qgrad.h; printf '%s\n' qgrad infer/infer $shared $headers; } | sort -u >"$work/public"
comm -23 "$work/included" "$work/public" >"$work/inside"
for header in $(cat "$work/inside"); do echo "$(grep -rl "\"$header\.h\"" cli | tr '\n' ' '): error: includes $header.h, which is internal"; done
[ ! -s "$work/internal" ] && [ ! -s "$work/inside" ]
