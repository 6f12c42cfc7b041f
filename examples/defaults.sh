#!/bin/sh
# Trains every scheme with its defaults, alone and in the usual pairs, and prints the test accuracies as a Markdown table:
# LeNet-5 (MNIST, two epochs), an MLP of three layers of 512 units (MNIST, two epochs), VGG-7 at an eighth of its width
# (CIFAR-10, one epoch) and ResNet-20 (CIFAR-10, two epochs), each with its own recipe or with Adam at 0.001.  Resumes when
# started again.
#     SEEDS='1 2 3' NETS='lenet5 mlp vgg7 resnet20' OPTIMIZERS='sgd adam' RULE=paper sh examples/defaults.sh [RUNS_DIR]
# RULE=paper trains with as=paper, quantized ends and running statistics instead, as older versions did.
set -eu
export LC_ALL=C
dir=${1:-runs/defaults}
qgrad=${QGRAD:-build/qgrad}
said=$(mktemp)
trap 'rm -f "$said"' EXIT

# ruled SCHEME: the scheme as RULE says.
ruled() {
    case ${RULE:-default},$1 in
    paper,float) echo float ;;
    paper,*:*) echo "${1%%:*}:as=paper,${1#*:}" ;;
    paper,*) echo "$1:as=paper" ;;
    *) echo "$1" ;;
    esac
}

# cell NET OPTIMIZER WEIGHT INPUT: the mean over the seeds, and the least of them if there are several.
cell() {
    net=$1 optimizer=$2
    case $net in
    lenet5) set -- --model lenet5 --data mnist --epochs 2 --weight "$3" --input "$4" ;;
    mlp) set -- --model mlp:width=512 --data mnist --epochs 2 --weight "$3" --input "$4" ;;
    vgg7) set -- --model vgg7:width=0.125 --data cifar10 --normalise channel --epochs 1 --weight "$3" --input "$4" ;;
    resnet20) set -- --model resnet20 --data cifar10 --normalise channel --augment pad=4,flip --epochs 2 --weight "$3" --input "$4" ;;
    esac
    [ "$optimizer" = sgd ] || set -- "$@" --optimizer adam --lr 0.001
    [ "${RULE:-default}" = default ] || set -- "$@" --first-last quantized --reestimate-batchnorm off
    name=$(echo "$*" | tr -cs 'a-z0-9\n' '-')
    accuracies=''
    for seed in ${SEEDS:-1 2 3}; do
        json=$($qgrad train "$@" --seed "$seed" --out "$dir/$name$seed" --resume --json ${THREADS:-} 2>"$said") ||
            { tail -n 1 "$said" >&2; exit 1; }
        accuracies="$accuracies $(echo "$json" | sed -n 's/.*"test_accuracy": *\([0-9.e-]*\).*/\1/p')"
    done
    echo "$accuracies" | awk '{
        for (i = 1; i <= NF; i++) { a = 100 * $i; sum += a; if (i == 1 || a < least) least = a }
        if (NF > 1) printf "%.2f (%.2f)", sum / NF, least; else printf "%.2f", sum }'
}

for net in ${NETS:-}; do
    case $net in
    lenet5 | mlp | vgg7 | resnet20) ;;
    *) echo "unknown net $net; available: lenet5, mlp, vgg7, resnet20" >&2; exit 2 ;;
    esac
done
echo "| net | optimizer | weights | inputs | mean (least) of seeds ${SEEDS:-1 2 3} |"
echo '|---|---|---|---|---|'
for net in ${NETS:-lenet5 mlp vgg7 resnet20}; do
    for optimizer in ${OPTIMIZERS:-sgd adam}; do
        [ "$net $optimizer" != 'mlp adam' ] || continue     # its own recipe is that
        for pair in float fake_quant twn ste-tern ttq binary binary-channel xnor dorefa:bits=1 dorefa magnitude-aware binaryconnect \
            bnn lsq unit qdq xnor+xnor bnn+sign dorefa:bits=1+dorefa:bits=1 dorefa:bits=1+dorefa dorefa+dorefa lsq+lsq dorefa+pact \
            unit+unit; do
            weight=$(ruled "${pair%%+*}") input=float
            case $pair in *+*) input=$(ruled "${pair#*+}") ;; esac
            accuracy=$(cell "$net" "$optimizer" "$weight" "$input")
            echo "| $net | $optimizer | \`$weight\` | \`$input\` | $accuracy |"
        done
    done
done
