#!/bin/sh
# docs/course/: each chapter has a question, a figure, programs of at most 60 lines, exercises and answers; and what its programs
# print is what the page shows.  A block ```text has the output of the command before it.
#     check_course.sh --write    writes the blocks
export LC_ALL=C
build=${BUILD:-build}
case $build in /*) ;; *) build=$PWD/$build ;; esac
root=$PWD
status=0
fail() { echo "error: $*"; status=1; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
QGRAD_SHARE=$root
export QGRAD_SHARE
ln -s "$build" "$dir/build"

for program in examples/course/*.c; do
    [ "$(wc -l <"$program")" -le 60 ] || fail "$program has more than 60 lines"
    ${CC:-cc} -std=c11 -I. -Wall -Wextra -Wpedantic -Wshadow -Werror -fsyntax-only "$program" || fail "$program does not compile"
    grep -q "/${program##*/})" docs/course/*.md || fail "no chapter has $program"
done

# Without images, and with a number that is too small, a program fails and says why.
mkdir "$dir/empty"
for command in homework order 'learned 0' 'moons 0'; do
    (cd "$dir/empty" && QGRAD_SHARE=. "$build/examples/course/"$command >out 2>&1) && fail "$command succeeds"
    grep -Eq '^(usage|homework|order): ' "$dir/empty/out" || fail "$command: $(cat "$dir/empty/out")"
done

# Runs the commands of a page; the page with what they print now is in $dir/page.
run() {
    command='' block='' more=''
    while IFS= read -r line; do
        case $more$line in
        '    build/'* | yes*) command=${more:+$command}${line#    }"
"; case $line in *'\') more=yes ;; *) more='' ;; esac ;;
        '```text'*)
            printf '%s\n' "$line"
            block=yes
            (cd "$dir" && sh -c "$command" 2>err) || { fail "$1: $command: $(cat "$dir/err")" >&2; } ;;
        '```') block='' ;;
        esac
        [ "$block" ] || printf '%s\n' "$line"
    done <"$1"
}

for page in docs/course/[1-9]-*.md docs/course/homework.md; do
    run "$page" >"$dir/page" || status=1
    [ "${1:-}" != --write ] || cat "$dir/page" >"$page"
    diff "$page" "$dir/page" || fail "$page differs from what its commands print; sh tests/checks/check_course.sh --write writes it anew"
    # A number of a program in the prose, in backquotes, is one that a block has.
    awk '/^```/ { on = !on; next } on' "$page" >"$dir/printed"
    for number in $(awk '/^```/ { on = !on; next } !on' "$page" | grep -oE '`-?[0-9.]+( %)?`' | tr -d '` %'); do
        grep -qE -- "(^|[^0-9.])$number([^0-9.]|\$)" "$dir/printed" || fail "$page: no command prints $number"
    done
    case $page in *homework.md) continue ;; esac
    for part in '**The question.**' '## One idea' '## Try it' '## Exercises' '## Where it stands in the code' '## Answers' '](README.md)'; do
        grep -qF -- "$part" "$page" || fail "$page has no $part"
    done
    [ "$(grep -c '^[0-9]\. ' "$page")" -ge 2 ] || fail "$page has no two exercises"
    grep -q '^!\[.*](.*\.svg)$' "$page" || fail "$page has no figure"
    grep -qF "(${page##*/})" docs/course/README.md || fail "docs/course/README.md lacks $page"
done
# The page to play with (tests/staircase.py opens it): one small file that loads nothing.
page=docs/course/staircase.html
[ "$(wc -c <"$page")" -le 80000 ] || fail "$page has more than 80000 bytes"
! grep -nE '<(link|script|img)[^>]*(href|src)="[^d]|url\(|@import|fetch\(|XMLHttpRequest|import\(' "$page" || fail "$page loads something"
for link in $(sed -n 's/.*href="\([^"]*\.[a-z]*\)".*/\1/p' "$page"); do
    [ -e "docs/course/$link" ] || fail "$page: $link does not exist"
done
for chapter in README 1-staircase 6-dynamics; do
    grep -qF '](staircase.html)' "docs/course/$chapter.md" || fail "docs/course/$chapter.md has no link to $page"
done
# The figures that no training decides.
if command -v python3 >/dev/null; then
    python3 docs/course/figures.py "$build" "$dir" 12378 || fail "docs/course/figures.py failed"
    for figure in "$dir"/*.svg; do
        cmp "$figure" "docs/course/${figure##*/}" || fail "python3 docs/course/figures.py draws another ${figure##*/}"
    done
fi
exit $status
