#!/bin/sh
# Includes point down: a folder may include itself and what stands to its right, nothing else.
#     cli, examples -> everything      datasets, optim -> core      layers -> quant, core
#     quant -> core                    quant/packed -> five files of core
status=0
allow() {
    folder=$1 legal=$2
    for file in $(find "$folder" -name '*.[ch]' 2>/dev/null | grep -v "${3:-^$}"); do
        bad=$(sed -n 's/^#include "\([^"]*\)".*/\1/p' "$file" | grep -Ev "^($legal)")
        [ -z "$bad" ] && continue
        for b in $bad; do echo "missing permission: $file includes $b (legal: $legal)"; done
        status=1
    done
}
allow core     'core/'
allow quant    'core/|quant/' '^quant/packed'
allow quant/packed 'quant/packed/|core/(status|tensor|arena|parallel|file)\.h'
allow layers   'core/|quant/|layers/'
allow optim    'core/|optim/'
allow datasets 'core/|datasets/'
exit $status
