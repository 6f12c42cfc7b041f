#!/bin/sh
# The layout of C that CONTRIBUTING.md describes, as far as a machine can tell: no tabs, no spaces at the end of a line, and at most
# 110 characters, except in rows of a table: { .. }, or [INDEX] = { .. }.  Rooms that still have longer lines may have so many, and
# no more; a number that has become smaller is to be made smaller here, and a room that has none leaves the list.
allowed='core 454  quant 389  layers 180  train 428  cli 461  tools 156  tests 1304'
find core quant layers optim datasets infer train cli tools examples tests qgrad.h -name '*.[ch]' | sort | LC_ALL=C xargs awk -v allowed="$allowed" '
    function complain(text) { print "error: " FILENAME ":" FNR ": " text; failed = 1 }
    /\t/ { complain("a tab") }
    /[ \t]$/ { complain("spaces at the end of the line") }
    length($0) > 110 {
        line = $0
        gsub(/[\200-\277]/, "", line)           # bytes that continue a character
        if (length(line) <= 110 || line ~ /^ *(\[[^]]*\] *= *)?\{ .*[},;]( \\)?$/) next
        room = FILENAME
        sub(/\/.*/, "", room)
        long[room] = long[room] "\n" FILENAME ":" FNR ": " length(line) " characters"
        n[room]++
    }
    END {
        rooms = split(allowed, part, / +/)
        for (i = 1; i < rooms; i += 2) most[part[i]] = part[i + 1]
        for (room in n)
            if (n[room] > most[room] + 0) {
                print "error: " room ": " n[room] " lines with more than 110 characters, " most[room] + 0 " are allowed" long[room]
                failed = 1
            }
        exit failed
    }'
