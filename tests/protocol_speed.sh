#!/bin/sh
# protocol_speed.sh [BUILD] — writes results/protocol-speed.txt: images per second of the packed nets of one protocol
# (docs/reproducing.md), in the engine on one thread, in batches of 64, with random weights.  Each is the median of five
# measurements, taken in turns.  `qgrad results` draws it.  Let nothing else run meanwhile.
set -eu
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
build=${1:-build} list=$(mktemp)
trap 'rm -f "$list"' EXIT
for turn in 1 2 3 4 5; do
    for file in examples/recipes/resnet20-60-*.toml; do
        row=$(basename "$file" .toml)
        speed=$("$build/qgrad" bench packed --recipe "$row" --threads 1 --batch 64 --seconds 2 --json |
            sed -n 's/.*"images_per_second":\([0-9.]*\).*/\1/p')
        [ "$speed" ] || exit 1
        echo "$row $speed" >> "$list"
    done
done
sort -k1,1 -k2,2n "$list" | awk '{ if ($1 != row) n = 0; row = $1; n++ } n == 3 { printf "%s %.0f\n", $1, $2 }' \
    > results/protocol-speed.txt
cat results/protocol-speed.txt
