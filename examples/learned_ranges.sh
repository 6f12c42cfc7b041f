#!/bin/sh
# Compares learned ranges of fake_quant with ranges that follow the tensor (weights: current, inputs: observed) on
# LeNet-5 (MNIST, two epochs), VGG-7 at an eighth of its width (CIFAR-10, one epoch) and ResNet-20 (CIFAR-10, two
# epochs), each with its own recipe or with Adam at 0.001.  Prints a Markdown table.  Resumes when started again.
#     SEEDS='1 2 3 4 5' NETS='lenet5 vgg7 resnet20' sh examples/learned_ranges.sh [RUNS_DIR]
set -eu
export LC_ALL=C
dir=${1:-runs/learned-ranges}
qgrad=${QGRAD:-build/qgrad}
said=$(mktemp)
trap 'rm -f "$said"' EXIT

# accuracies OPTIONS..: prints the test accuracy of every seed in percent, on one line.
accuracies() {
    name=$(echo "$*" | tr -cs 'a-z0-9\n' '-')
    all=''
    for seed in ${SEEDS:-1 2 3 4 5}; do
        json=$($qgrad train "$@" --seed "$seed" --out "$dir/$name$seed" --resume --json ${THREADS:-} 2>"$said") ||
            { tail -n 1 "$said" >&2; exit 1; }
        all="$all $(echo "$json" | sed -n 's/.*"test_accuracy": *\([0-9.e-]*\).*/\1/p')"
    done
    echo "$all" | awk '{ for (i = 1; i <= NF; i++) $i = sprintf("%.2f", 100 * $i); print }'
}

# row NET OPTIMIZER OPERAND BITS OTHER-RANGE MORE OPTIONS..: prints a row with learned ranges and the other kind.
row() {
    net=$1 optimizer=$2 operand=$3 bits=$4 other=$5 more=$6
    shift 6
    case $operand in weight*) role=weight ;; *) role=input ;; esac
    learned=$(accuracies "$@" "--$role" "fake_quant:bits=$bits,range=learned$more")
    follows=$(accuracies "$@" "--$role" "fake_quant:bits=$bits,range=$other$more")
    printf '%s\n%s\n' "$learned" "$follows" | awk -v head="| $net | $optimizer | $operand | $bits |" '
        { n = NF; sum = least = 0
          for (i = 1; i <= n; i++) { sum += $i; if (i == 1 || $i < least) least = $i }
          text = text sprintf(" %.2f (%.2f) |", sum / n, least) }
        END { print head text " " n " |" }'
}

for net in ${NETS:-}; do
    case $net in
    lenet5 | vgg7 | resnet20) ;;
    *) echo "unknown net $net; available: lenet5, vgg7, resnet20" >&2; exit 2 ;;
    esac
done
echo '| net | optimizer | quantized | bits | learned: mean (least) | current or observed: mean (least) | seeds |'
echo '|---|---|---|---|---|---|---|'
for net in ${NETS:-lenet5 vgg7 resnet20}; do
    case $net in
    lenet5) set -- --model lenet5 --data mnist --epochs 2 ;;
    vgg7) set -- --model vgg7:width=0.125 --data cifar10 --normalise channel --epochs 1 ;;
    resnet20) set -- --model resnet20 --data cifar10 --normalise channel --augment pad=4,flip --epochs 2 ;;
    esac
    for optimizer in sgd adam; do
        [ "$net $optimizer" = 'resnet20 adam' ] && continue
        for bits in 2 4 8; do
            [ "$net $bits" = 'resnet20 8' ] && continue
            adam=
            [ $optimizer = sgd ] || adam='--optimizer adam --lr 0.001'
            row $net $optimizer 'weights' $bits current '' "$@" $adam
            row $net $optimizer 'weights, per channel' $bits current ,per-channel=yes "$@" $adam
            row $net $optimizer 'inputs' $bits observed '' "$@" $adam
        done
    done
done
