# Doxygen's input filter: comments of the headers become documentation, with formulas and tables as they stand.
#     /* before a declaration */     /** .. */        after one on its line: /**< .. */
# Lines that are indented are set in type of one width.  "Shapes   w [o,kh,kw,i]" and so on become paragraphs with a title.

# A dot that begins a line, or is left of two, would end a list.
function escaped(s) { gsub(/[\\@<>#%&$]/, "\\\\&", s); gsub(/[.][.]/, "\\.\\.", s); sub(/^ *[.]/, "\\.", s); return s }

# The text of one line of a comment.
function emit(s,    indent, title) {
    match(s, /^ */)
    indent = RLENGTH
    if (s ~ /^ *$/) { leave(); titled = 0; print ""; return }
    if (match(s, /^(Shapes|Range|Memory|Fails|Paper|Differs)  +/)) {
        leave()
        title = s
        sub(/ .*/, "", title)
        print "\\par " title
        print escaped(substr(s, RLENGTH + 1))
        titled = 1
        return
    }
    if (indent >= 4 && !(titled && indent >= 9)) {
        if (!verbatim) print "\\verbatim"
        verbatim = 1
        print s
        return
    }
    leave()
    print escaped(s)
}

function leave() { if (verbatim) print "\\endverbatim"; verbatim = 0 }

function close_comment() { leave(); print "*/"; inside = titled = 0 }

# s follows the opening of a comment.
function begin(opening, s,    at) {
    print opening
    inside = 1
    at = index(s, "*/")
    if (at) {
        emit(trimmed(substr(s, 1, at - 1)))
        close_comment()
        if (substr(s, at + 2) !~ /^ *$/) print substr(s, at + 2)
    } else emit(trimmed(s))
}

function trimmed(s) { sub(/^ /, "", s); sub(/ *$/, "", s); return s }

inside {
    line = $0
    sub(/^ *\*( |$)/, "", line) || sub(/^ */, "", line)
    if (line ~ /^ *\*?\/ *$/) { close_comment(); next }
    at = index(line, "*/")
    if (at) { emit(trimmed(substr(line, 1, at - 1))); close_comment() }
    else emit(line)
    next
}
FNR == 1 && /^\/\*/ { begin("/** \\file", substr($0, 3)); next }
/^ *\/\* ---/ { print; next }
/^ *\/\*/ { sub(/^ *\/\*/, ""); begin("/**", $0); next }
/\/\*/ && !/^#/ {
    at = index($0, "/*")
    printf "%s ", substr($0, 1, at - 1)
    begin("/**<", substr($0, at + 2))
    next
}
{ print }
