#!/bin/sh
# docs/tour.md: its twelve stops have files that exist and open with what they are, and sizes that are true to a tenth.
#     check_tour.sh --write    writes the sizes
status=0 total=0 stops=0
fail() { echo "docs/tour.md: error: $*" >&2; status=1; }
page=$(mktemp) || exit 1
trap 'rm -f "$page"' EXIT
while IFS= read -r line; do
    case $line in '| ['*)
        stops=$((stops + 1)) lines=0
        for file in $(echo "$line" | grep -o '`[^`]*`' | tr -d '`'); do
            [ -f "$file" ] || { fail "$file does not exist"; continue; }
            case $(head -n 1 "$file") in '/*'*) ;; *) fail "$file does not open with what it is" ;; esac
            lines=$((lines + $(wc -l <"$file")))
        done
        said=$(echo "$line" | sed 's/.*| \([0-9]*\) |$/\1/')
        if [ "${1:-}" = --write ]; then line="${line%| * |}| $lines |"
        elif [ $((10 * (lines > said ? lines - said : said - lines))) -gt $((lines + 50)) ]; then
            fail "a stop has $lines lines, not $said; sh tests/checks/check_tour.sh --write writes the sizes: $line"
        fi
        total=$((total + lines)) ;;
    esac
    printf '%s\n' "$line"
done <docs/tour.md >"$page"
[ "${1:-}" != --write ] || cat "$page" >docs/tour.md
[ "$stops" -eq 12 ] || fail "has $stops stops"
[ "$total" -le 4800 ] || fail "its files have $total lines, more than 4,800"
exit $status
