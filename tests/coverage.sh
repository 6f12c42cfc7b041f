#!/bin/sh
# coverage.sh BUILD: the share of lines and branches per room that the tests reached, for a build with --coverage whose
# tests have run.  A line or branch of several objects, such as that of a kernel or a header, is reached if one of them
# reached it.  Code that ends with a signal, an abort or _exit is not recorded.
build=${1:-build/coverage}
rooms='core quant layers optim datasets train infer cli tools'
gcov=${GCOV:-gcov}
for room in $rooms; do
    [ -d "$build/$room" ] && find "$build/$room" -name '*.gcno'
done | while read -r notes; do
    # Several sources may have the same name, so every object is read separately.
    "$gcov" -b -c -t -r "$notes" 2>/dev/null
done | awk -v rooms="$rooms" '
    /^ *-: *0:Source:/ { sub(/^.*Source:/, ""); file = $0; room = file; sub(/\/.*/, "", room); next }
    /^branch/ {
        key = file SUBSEP line SUBSEP $2
        if (!(key in branch)) { branch[key] = 0; branches[room]++ }
        if ($0 !~ /never executed/ && $4 > 0 && !branch[key]) { branch[key] = 1; taken[room]++ }
        next
    }
    /^(call|function|unconditional|-----)/ { next }
    {
        split($0, part, ":")
        count = part[1]; line = part[2] + 0
        gsub(/[ *]/, "", count)
        if (line == 0 || count == "-") next
        key = file SUBSEP line
        if (!(key in seen)) { seen[key] = 0; lines[room]++ }
        if (count !~ /^[#=]/ && !seen[key]) { seen[key] = 1; reached[room]++ }
    }
    function row(name, n, of, b, ofb) {
        printf "%-10s %7d %8d %6.1f %%   %8d %8d %6.1f %%\n", name, of, n, 100 * n / (of ? of : 1), ofb, b, 100 * b / (ofb ? ofb : 1)
    }
    END {
        printf "%-10s %7s %8s %8s   %8s %8s %8s\n", "room", "lines", "reached", "", "branches", "taken", ""
        n = split(rooms, name, " ")
        for (i = 1; i <= n; i++) {
            r = name[i]
            row(r, reached[r], lines[r], taken[r], branches[r])
            a += reached[r]; b += lines[r]; c += taken[r]; d += branches[r]
        }
        row("all", a, b, c, d)
        exit b == 0
    }'
