#!/bin/sh
# Includes point down: a room may include itself and the rooms that its line names, nothing else.
#     cli, examples -> everything      datasets, optim -> core      layers -> quant, core      quant -> core
status=0
allow() {
    room=$1 legal=$2
    for file in "$room"/*.[ch]; do
        [ -e "$file" ] || continue
        for b in $(sed -n 's/^#include "\([^"]*\)".*/\1/p' "$file" | grep -Ev "^($legal)"); do
            echo "missing permission: $file includes $b (legal: $legal)"
            status=1
        done
    done
}
core='core/([a-z_]*\.h|ops/|kernels/|io/)'
allow core/kernels    'core/kernels/'
allow core/io         'core/(status|rng|params|arena)\.h|core/io/'
allow core            'core/[a-z_]*\.h|core/kernels/|core/io/(hash|array|number)\.h'
allow core/ops        'core/[a-z_]*\.h|core/kernels/|core/io/hash\.h|core/ops/'
# quant.h takes the words of rules from the schemes that have them.
allow quant           "$core|quant/[a-z_]*\.h|quant/schemes/(ttq|xnor|fake_quant)\.h"
allow quant/schemes   "$core|quant/[a-z_]*\.h|quant/schemes/"
allow quant/reference "$core|quant/[a-z_]*\.h|quant/reference/"
allow layers          "$core|quant/|layers/"
allow layers/models   "$core|quant/|layers/"
allow optim           "$core|optim/"
allow datasets        "$core|datasets/"
exit $status
