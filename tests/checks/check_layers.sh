#!/bin/sh
# Includes point down: a file may include files of its own room and of the rooms named in its room's line, and no others.
# Tests and examples may include everything.
status=0
export LC_ALL=C               # a Turkish [a-z] has no i
allow() {
    room=$1 allowed=$2
    for file in "$room"/*.[ch]; do
        [ -e "$file" ] || continue
        for header in $(sed -n 's/^#include "\([^"]*\)".*/\1/p' "$file" | grep -Ev "^($allowed)"); do
            echo "$file: error: includes $header (allowed: $allowed)"
            status=1
        done
    done
}
core='core/([a-z_]*\.h|ops/|kernels/|io/)'
below="$core|quant/|layers/|optim/|datasets/"
dist='core/dist/'             # what knows of other processes
library="$below|train/|$dist"
tools='cli/print\.h|cli/svg\.h'
allow core/kernels    'core/kernels/|core/status\.h'
allow core/io         'core/(status|rng|tensor|arena)\.h|core/io/'
allow core            'core/[a-z_]*\.h|core/kernels/|core/io/(hash|array|number|utf8)\.h'
allow core/dist       'core/[a-z_]*\.h|core/kernels/|core/io/utf8\.h|core/dist/'
allow core/ops        'core/[a-z_]*\.h|core/kernels/|core/io/hash\.h|core/ops/'
allow quant           "$core|quant/[a-z_]*\.h"
allow quant/schemes   "$core|quant/[a-z_]*\.h|quant/schemes/"
allow quant/reference "$core|quant/[a-z_]*\.h|quant/schemes/formulas\.h|quant/reference/"
allow layers          "$core|quant/|infer/(product|kernels/[a-z0-9]*)\.h|layers/([a-z]*|export/[a-z]*)\.h"
# The writers know the formats of the engine.
allow layers/export   "$core|quant/|infer/(product|format)\.h|layers/[a-z]*\.h|layers/export/"
allow layers/models   "$core|quant/|layers/"
allow optim           "$core|optim/"
allow datasets        "$core|$dist|datasets/"
# The engine stands alone: it shares only the choice of the instruction set, registers, exp and tanh.
allow infer/kernels   'core/kernels/(cpu|simd|fma|conv_tile)\.h|infer/kernels/'
allow infer           'core/(kernels/(cpu|functions)|io/(hash|utf8))\.h|infer/'
allow train           "$below|$dist|train/"
allow cli/config      "$library|$tools|cli/config/"
allow cli/run         "$library|infer/infer\.h|$tools|cli/config/|cli/run/"
allow cli/predict     "$library|infer/infer\.h|$tools|cli/config/|cli/run/|cli/predict/"
allow cli/report      "$library|$tools|cli/config/|cli/run/|cli/report/"
allow cli/gradcheck   "$library|$tools|cli/config/|cli/gradcheck/"
allow cli             "$library|infer/infer\.h|qgrad\.h|cli/"
# Programs that are not installed, on what the command line shares.
shared="$tools|cli/start\.h|cli/config/|cli/run/"
allow tools           "$core|datasets/"
allow tools/bench     "$library|infer/|$shared|tools/bench/"
allow tools/results   "$library|$shared|tools/results/"

# Only core/dist knows that there may be several processes: ops know slices of a batch and sums over them (core/slices.h).
for file in core/tape.c core/gradients.c $(find core/ops core/kernels quant layers optim -name '*.[ch]'); do
    # Without comments.
    if sed -e ':a' -e 's,/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/,,g' -e '/\/\*/{N;ba' -e '}' "$file" |
        grep -qE 'core/dist/|\<qg_ranks?\>|\<qg_ranks_|\<qg__(ranks|pending|transfer)'; then
        echo "$file: error: knows of other processes, which only core/dist does"
        status=1
    fi
done

# One file calls MPI.
for file in $(grep -lE '<mpi\.h>|MPI_' $(find core quant layers optim datasets train infer cli tools -name '*.[ch]')); do
    [ "$file" = core/dist/ranks.c ] || { echo "$file: error: only core/dist/ranks.c calls MPI"; status=1; }
done

# All folders of cli/ may use print.h and svg.h, so these may not depend on one of the folders.
for file in cli/print.[ch] cli/svg.[ch]; do
    grep -q '^#include "cli/[a-z]*/' "$file" && { echo "$file: error: includes a folder of cli/"; status=1; }
done

# Only kernels, and the headers that only they include, have vector types and tiles.
for file in $(grep -lE 'vector_size|"core/kernels/(simd|fma|[a-z_]*_tile)\.h"' $(find core quant layers optim datasets train infer cli tools -name '*.[ch]')); do
    case $file in
    *_kernel.c | core/kernels/simd.h | core/kernels/fma.h | core/kernels/*_tile.h | infer/kernels/lanes.h | infer/kernels/find.h | infer/kernels/int8_weights.h) ;;
    *) echo "$file: error: has vectors or tiles, but is no *_kernel.c"; status=1 ;;
    esac
done

# Intrinsics and inline assembly are in three files.
for file in $(grep -lE 'intrin\.h|_mm[0-9]*_|__asm__' $(find core quant layers optim datasets train infer cli tools -name '*.[ch]')); do
    case $file in
    core/kernels/fma.h | core/kernels/simd.h | infer/kernels/lanes.h) ;;
    *) echo "$file: error: has intrinsics or assembly"; status=1 ;;
    esac
done
exit $status
