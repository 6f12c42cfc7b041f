#!/bin/sh
# Prints the table of docs/reproducing.md that says what has moved since the runs in results/: for each row the commits of its logs,
# and the later commits after which the same training ends in other weights, or a test of the same weights says something else.
# Needs the history.  With --write, the page gets the table.
set -eu
page=docs/reproducing.md
# Found by training the nets and options of all rows with the commits before and after, on a few images.
weights='6caa5a0 36dfbea'
tests='40b99f7'

# later LIST: those of the list that one of the commits does not contain.
later() {
    for change in $1; do
        for commit in $commits; do
            git merge-base --is-ancestor "$change" "$commit" 2>/dev/null || { printf '%s\n' "$change"; break; }
        done
    done | paste -s -d, - | sed 's/,/, /g; s/^$/none/'
}
table() {
    echo '| row | its commits | other weights since | other tests since |'
    echo '|---|---|---|---|'
    for row in results/*/; do
        commits=$(sed -n 's/.*"commit": *"\([^"]*\)".*/\1/p' "$row"seed-*/result.json | tr -s ', ' '\n' | sed 's/-dirty$//' | cut -c1-7 | sort -u)
        echo "| \`$(basename "$row")\` | $(echo "$commits" | paste -s -d, - | sed 's/,/, /g') | $(later "$weights") | $(later "$tests") |"
    done
}
if [ "${1:-}" = --write ]; then
    table >"$page.table"
    awk -v table="$page.table" '
        /^<!-- up to here -->/ { skip = 0 }
        !skip { print }
        /^<!-- written by tests\/moved.sh -->/ { skip = 1; print ""; while ((getline line < table) > 0) print line; print "" }' "$page" >"$page.new"
    mv "$page.new" "$page"
    rm "$page.table"
else
    table
fi
