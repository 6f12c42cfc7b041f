#!/bin/sh
# manual.sh QGRAD: the manual page, made of what QGRAD --help and QGRAD COMMAND --help all print.  `make docs` writes it to
# packaging/qgrad.1, which `make install` installs; tests/checks/check_manual.sh compares the two.
set -eu
export LC_ALL=C
qgrad=$1

# The help of each command after a line "@COMMAND", then all lists of names that options may take.
helps() {
    for command in $("$qgrad" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
        if [ "$command" = bench ]; then
            "$qgrad" bench --help | sed -n 's/^  \(bench [a-z]*\)  .*/\1/p'
        else echo "$command"; fi
    done | while read -r command; do
        echo "@$command"
        "$qgrad" $command --help all </dev/null     # one word or two
    done
    echo '@'
    "$qgrad" train --help all
}

cat <<ROFF
.TH QGRAD 1 "" "$("$qgrad" --version | head -n 1)" "User Commands"
.SH NAME
qgrad \\- train, measure and inspect quantized neural networks
.SH SYNOPSIS
.B qgrad
.I COMMAND
[options]
.br
.B qgrad
.I COMMAND
.BR "\\-\\-help " [ all ]
.br
.B qgrad \\-\\-version
.SH DESCRIPTION
qgrad trains binary, ternary and low\\-bit neural networks on the CPU, stores each training in a run directory, and measures,
quantizes and inspects what it has trained.
.SH COMMANDS
The benchmarks and
.B qgrad results
need a source tree: they are not installed.
ROFF

helps | awk '
    function roff(text) {
        gsub(/\\/, "\\e", text)
        gsub(/-/, "\\-", text)
        return text ~ /^[.\x27]/ ? "\\&" text : text
    }
    # Ends an option.  What several commands say of it in the same words is one entry.
    function end_option(  key) {
        if (head == "") return
        sub(/ \[as in the run\]$/, "; default: as in the run", text)
        if (sub(/ \[[^][]*\]$/, "@&", text)) { sub(/@ \[/, "; default ", text); sub(/\]$/, "", text) }
        key = head SUBSEP text
        if (!(key in of)) { heads[++n] = head; texts[n] = text; of[key] = command }
        else if (of[key] !~ command "$") of[key] = of[key] ", " command
        if (!(command in seen)) { seen[command]; commands++ }
        head = ""
    }
    function options(  i) {
        print ".SH OPTIONS\nThe commands that take an option follow it, unless all do.  A configuration file has the same options"
        print "as lines\n.IR \"name = value\" ,\na subset of TOML."
        for (i = 1; i <= n; i++) {
            print ".TP\n.B " roff(heads[i]) "\n" roff(texts[i]) "."
            if (split(of[heads[i] SUBSEP texts[i]], words, ", ") < commands) print "(" of[heads[i] SUBSEP texts[i]] ")"
        }
    }
    function section(name, listed) {
        if (lists) print ".fi"
        print ".SH " name
        if (listed) print ".nf"
        lists = listed
        blank = 0
    }
    /^@/ { end_option(); command = substr($0, 2); sub(/ .*/, "", command); part = command == "" ? "last" : "head"; next }
    part == "head" && /^usage: / { print ".TP\n.B " roff(substr($0, 8)); next }
    part == "head" && $0 != "" { print roff($0); next }
    part == "head" { part = "options"; next }
    part == "options" && /^  --/ {
        end_option()
        head = substr($0, 3, 30); text = substr($0, 34)
        if (substr($0, 33, 1) != " ") { head = $1 " " $2; text = substr($0, length(head) + 4) }
        sub(/ +$/, "", head)
        next
    }
    part == "options" && /^ / { sub(/^ +/, ""); text = text "\n" $0; next }
    part == "options" { end_option(); part = "" }
    part == "last" && /^Models/ {
        options()
        while ((getline line < "/dev/fd/3") > 0) print line
        part = "lists"
        section("MODELS", 1)
    }
    part != "lists" { next }
    /^Schemes\./ { section("SCHEMES", 1) }
    /^Data sets/ { section("DATA", 1) }
    /^Extending/ { section("EXTENDING A RUN", 0) }
    /^Exit status/ { if (lists) print ".fi"; exit }
    $0 == "" { blank = 1; next }
    { if (blank) print ""; blank = 0; print roff($0) }
' 3<<'ROFF'
.SS In files only
.TP
.B reproduces TEXT
the paper or replication whose result a recipe reproduces.
.TP
.B reported TEXT
the test accuracy in % reported there.
.TP
.B provenance paper|code|replication|memory
where that number was read.
.TP
.B deviations TEXT
what differs from the source.
.TP
.B init\-recipe NAME
the recipe that trains the initial weights; \-\-init must name one of its runs.
.TP
.B defaults N
version of the schemes' defaults.
.PP
Runs also note the digests of what they began with
.RB ( data\-digest ,
.BR class\-digest ,
.BR init\-digest ,
.BR teacher\-digest ),
the number of steps of an epoch if a delay counts epochs
.RB ( epoch\-steps ),
and with norm\-sync off the number of ranks
.RB ( ranks ).
ROFF

cat <<'ROFF'
.SH ENVIRONMENT
.TP
.B QGRAD_SHARE
the directory with recipes and sample, in place of share/qgrad beside the program's directory.
.TP
.B QGRAD_CPU
avx512, avx2 or baseline: a lower instruction set than that of the machine.
.TP
.B QGRAD_PRODUCTS
bits or bytes: how the engine multiplies codes of at most 4 bits, in place of the faster way.
.TP
.B OMP_NUM_THREADS
the number of threads, unless \-\-threads sets it.
.SH EXIT STATUS
0 success, 1 failure, 2 usage error, 3 stopped by
.BR \-\-budget ,
128 + N after signal N, as in 143 after SIGTERM.
ROFF
