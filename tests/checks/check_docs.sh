#!/bin/sh
# Every ```c block of the README and of docs/ compiles on its own after #include "qgrad.h", every file
# that the README names exists, docs/every-scheme.md has the rows of its script, and the guide has examples/classify.c as it
# is.
export LC_ALL=C               # of sort, tr and [a-z]
cc=${CC:-cc}
build=${BUILD:-build}
dir=$build/tests/docs
status=0
rm -rf "$dir" && mkdir -p "$dir"
for page in README.md CONTRIBUTING.md docs/*.md; do
    awk -v stem="$dir/$(basename "$page" .md)" '
        /^```c$/ { n++; on = 1; file = stem "-" n ".c"; print "#include \"qgrad.h\"" > file; next }
        /^```/   { on = 0 }
        on       { print > file }' "$page"
done
blocks=0
for block in "$dir"/*.c; do
    [ -e "$block" ] || continue
    blocks=$((blocks + 1))
    $cc -std=c11 -D_POSIX_C_SOURCE=200809L -I. -Iexamples -Wall -Wextra -Wno-unused-function \
        -Wno-unused-variable -Wno-unused-const-variable -Werror -fsyntax-only "$block" || { echo "$block: error: does not compile"; status=1; }
done
same=
for block in "$dir"/guide-*.c; do
    sed 1d "$block" | cmp -s - examples/classify.c && same=yes
done
[ "$same" ] || { echo "docs/guide.md: error: does not have examples/classify.c as it is"; status=1; }
[ "$blocks" -gt 0 ] || { echo "error: no C block was found"; status=1; }
for page in README.md CONTRIBUTING.md docs/*.md; do
    for link in $(grep -ohE '\]\((\.\./)?[A-Za-z#][A-Za-z0-9_/.#-]*\)' "$page" | tr -d '()]'); do
        path=${link%%#*} heading=${link#"${link%%#*}"}
        to=$page
        [ -z "$path" ] || to=$(dirname "$page")/$path
        [ -e "$to" ] || { echo "$page: error: $path does not exist"; status=1; continue; }
        [ -z "$heading" ] || sed -n 's/^#* //p' "$to" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9\n-' | grep -qx -e "${heading#\#}" ||
            { echo "$page: error: $to has no heading $heading"; status=1; }
    done
done
rows() { sed -n "$1" "$2" | sort; }
[ "$(rows 's/^row \([^ ]*\) .*/\1/p' examples/every_scheme.sh)" = \
    "$(rows '/^| net /d; /^|---/d; s/^| \([^ ]*\) | `.*/\1/p' docs/every-scheme.md)" ] ||
    { echo "docs/every-scheme.md: error: has other rows than examples/every_scheme.sh"; status=1; }
exit $status
