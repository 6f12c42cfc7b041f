#!/bin/sh
# Trains ternary, binary, 2-bit, 4-bit and 8-bit LeNet-5 on MNIST: every scheme alone and the usual pairs, three epochs each.
# All rows use one recipe, except where their options say otherwise.  Prints a Markdown table.  Takes less than ten minutes on
# two cores with AVX-512, half an hour with AVX2.
#     sh examples/every_scheme.sh [RUNS_DIR]
set -eu
dir=${1:-runs/every-scheme}
qgrad=${QGRAD:-build/qgrad}
said=$(mktemp)
trap 'rm -f "$said"' EXIT
recipe='--model lenet5 --data mnist --epochs 3 --batch 64 --optimizer adam --lr 0.002 --schedule cosine:factor=0.01'

# row NAME OPTIONS..: trains the net unless its run is finished, and prints its line.
row() {
    name=$1
    shift
    sum=''
    for seed in ${seeds:-1}; do
        json=$($qgrad train $recipe --seed "$seed" --out "$dir/$name-$seed" --resume --json ${threads:-} "$@" 2>"$said") ||
            { tail -n 1 "$said" >&2; exit 1; }
        sum="$sum $(echo "$json" | sed -n 's/.*"test_accuracy": *\([0-9.e-]*\).*/\1/p')"
    done
    bytes=$(echo "$json" | sed -n 's/.*"packed_bytes": *\([0-9]*\).*/\1/p')
    echo "$sum" | awk -v name="$name" -v options="$*" -v bytes="$bytes" '{
        for (i = 1; i <= NF; i++) m += 100 * $i / NF
        printf "| %s | `%s` | %.2f | %d | %d |\n", name, options, m, NF, bytes }'
}

echo '| net | options | test accuracy % (mean) | seeds | packed bytes |'
echo '|---|---|---|---|---|'
seeds='1 2 3'
row float --weight float
row int8-learned --weight fake_quant:range=learned --input fake_quant:range=learned
row int8-channel --weight fake_quant:range=current,per-channel=yes --input fake_quant:range=observed
seeds=1
row twn --weight twn
row twn-channel --weight twn:per-channel=yes
row ste-tern --weight ste-tern:relative=yes --first-last float
row ttq --weight ttq --first-last float
row binary --weight binary
row binary-channel --weight binary-channel
row xnor-weights --weight xnor --first-last float
row magnitude-aware --weight magnitude-aware --first-last float
row binaryconnect --weight binaryconnect --first-last float
row binaryconnect-stoch --weight binaryconnect:draw=stoch,start=unit,glorot-lr=adam --lr 0.003
row bnn --weight bnn --input sign --first-last float
row irnet --weight irnet --input sign --first-last float
row adabin --weight adabin --input adabin --first-last float
row recu --weight recu --input sign --first-last float
row dorefa-w1 --weight dorefa:bits=1 --first-last float
row dorefa-w2 --weight dorefa:bits=2 --first-last float
row bop --weight bop --optimizer bop --first-last float
row lsq-w2 --weight lsq:bits=2 --first-last float
row pact-a4 --weight float --input pact:bits=4 --first-last float
row int8-qdq --weight qdq:per-channel=yes --input qdq
row linear-a2 --weight float --input linear:bits=2 --first-last float
row w2a2-unit --weight unit:bits=2 --input unit:bits=2 --lr 0.02
row w1a1-xnor --weight xnor --input xnor --first-last float
row w1a2-dorefa --weight dorefa:bits=1 --input dorefa:bits=2 --first-last float
row w1a2g6-dorefa --weight dorefa:bits=1 --input dorefa:bits=2 --gradient dorefa:bits=6 --first-last float
row twn-a8g8 --weight twn --input fake_quant --gradient stochastic --first-last float
row w2a2-lsq --weight lsq:bits=2 --input lsq:bits=2 --first-last float
row w4a4-pact --weight dorefa:bits=4 --input pact:bits=4 --first-last float
