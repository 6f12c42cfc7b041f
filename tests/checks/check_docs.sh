#!/bin/sh
# Every ```c block of the README and of docs/ compiles on its own after #include "qgrad.h", every file
# that the README names exists, docs/README.md lists every page, results/every-scheme.md has the rows of its script, and
# CITATION.cff the version.
# Every run that a command reads is made on the page, and every name qg_.. in headers, pages and comments exists.
export LC_ALL=C               # of sort, tr and [a-z]
cc=${CC:-cc}
build=${BUILD:-build}
dir=$build/tests/docs
status=0
rm -rf "$dir" && mkdir -p "$dir"
pages="README.md CONTRIBUTING.md $(echo docs/*.md docs/course/*.md results/*.md results/*/README.md)"
for page in $pages; do
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
[ "$blocks" -gt 0 ] || { echo "error: no C block was found"; status=1; }
for page in $pages; do
    for link in $(grep -ohE '\]\((\.\./)*[A-Za-z#][A-Za-z0-9_/.#-]*\)' "$page" | tr -d '()]'); do
        path=${link%%#*} heading=${link#"${link%%#*}"}
        to=$page
        [ -z "$path" ] || to=$(dirname "$page")/$path
        [ -e "$to" ] || { echo "$page: error: $path does not exist"; status=1; continue; }
        [ -z "$heading" ] || sed -n 's/^#* //p' "$to" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9\n-' | grep -qx -e "${heading#\#}" ||
            { echo "$page: error: $to has no heading $heading"; status=1; }
    done
done
for page in docs/*.md; do
    [ "$page" = docs/README.md ] || grep -qF "(${page#docs/})" docs/README.md || { echo "docs/README.md: error: lacks $page"; status=1; }
done
# A command reads a run that another one of the page has made, or that a recipe makes.
for page in $pages; do
    for run in $(grep -ohE '(--run|--init|--teacher|inspect|report|eval|export|quantize|--resume --out) runs/[A-Za-z0-9_/=.-]+' "$page" | sed 's,.* ,,; s,[.]$,,' | sort -u); do
        within=$run
        while [ "$within" != runs ] && ! grep -qF -e "--out $within" -e "\"$within\"" "$page"; do within=$(dirname "$within"); done
        name=${run#runs/}
        [ "$within" != runs ] || [ "$name" = NAME ] || [ -e "examples/recipes/${name%%/*}.toml" ] ||
            { echo "$page: error: no command makes $run"; status=1; }
    done
done
# The options and values of every command exist: with --help at its end, what stands before is read and nothing is run.
for page in $pages examples/README.md; do
    awk '/^```/ { fenced = !fenced; next }
         fenced || /^    / || more {
             command = (more ? command : "") $0
             more    = sub(/\\$/, "", command)
             n       = more ? 0 : split(command, part, / *(&&|;|[|]) */)
             for (i = 1; i <= n; i++)
                 if (sub(/^ *(build\/)?qgrad /, "", part[i]) && part[i] !~ /^[a-z-]+:/) print part[i]
         }' "$page" | sed 's/ *#.*//; s/ [0-9]*>.*//; s/ &$//' | sort -u |
        while read -r command; do
            sh -c "\"\$1\" $command --help" sh "${QGRAD:-$build/qgrad}" >/dev/null 2>"$dir/said" ||
                { echo "$page: error: qgrad $command: $(head -n 1 "$dir/said")"; touch "$dir/wrong"; }
        done
done
[ ! -e "$dir/wrong" ] || status=1
# Names that only comments and pages have.
names() { grep -ohE '(qg|QG)_[A-Za-z0-9_]+' "$@" | grep -vE '_$|NAME' | sort -u; }
find core quant layers optim datasets train infer cli tools tests examples qgrad.h -name '*.[ch]' >"$dir/sources"
awk '{
    line = $0; code = ""
    while (line != "") {
        i = index(line, inside ? "*/" : "/*")
        if (!inside) code = code (i ? substr(line, 1, i - 1) : line)
        line = i ? substr(line, i + 2) : ""
        if (i) inside = !inside
    }
    print code }' $(cat "$dir/sources") | names - >"$dir/code"
unknown=$(names $(cat "$dir/sources") README.md CONTRIBUTING.md SECURITY.md docs/*.md docs/course/*.md | comm -23 - "$dir/code")
[ -z "$unknown" ] || { echo "error: comments or pages name what does not exist: $(echo $unknown)"; status=1; }
for bench in $("${QGRAD:-$build/qgrad}" bench --help | sed -n 's/^  bench \([a-z]*\) .*/\1/p'); do
    grep -q "^    build/qgrad bench $bench" docs/performance.md || { echo "docs/performance.md: error: has no bench $bench"; status=1; }
done
rows() { sed -n "$1" "$2" | sort; }
[ "$(rows 's/^row \([^ ]*\) .*/\1/p' examples/every_scheme.sh)" = \
    "$(rows '/^| net /d; /^|---/d; s/^| \([^ ]*\) | `.*/\1/p' results/every-scheme.md)" ] ||
    { echo "results/every-scheme.md: error: has other rows than examples/every_scheme.sh"; status=1; }
grep -qx "version: $(sed -n 's/^#define QGRAD_VERSION "\(.*\)"/\1/p' qgrad.h)" CITATION.cff ||
    { echo "CITATION.cff: error: has another version than qgrad.h"; status=1; }
exit $status
