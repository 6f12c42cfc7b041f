#!/bin/sh
# exports.sh LIBRARY.a HEADER.. — a version script that exports the functions and constants of the library that the public
# headers name, and nothing else.  No macro marks them, so none can be forgotten.
export LC_ALL=C
library=$1; shift
named=$(cat "$@" | grep -ohwE 'qg_[a-z0-9][a-zA-Z0-9_]*' | sort -u)
defined=$(${NM:-nm} -g --defined-only "$library" | awk 'NF == 3 { print $3 }' | sort -u)
echo 'QGRAD {'
echo 'global:'
printf '%s\n%s\n' "$named" "$defined" | sort | uniq -d | sed 's/.*/    &;/'
echo 'local:'
echo '    *;'
echo '};'
