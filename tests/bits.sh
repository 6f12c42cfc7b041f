#!/bin/sh
# Short trainings that together use every scheme in every role, with each of its options, every family of
# models, folded and unfused nets, every optimizer, normalisation, augmentation, dropout, and a resume in the middle.
# Prints the kernels, the name, the digest of the weights and the last loss of each: a change that must not affect any
# bit must not change this list.
#     sh tests/bits.sh [NAME..] > after && diff before after
# QGRAD is the program (build/qgrad).  CPUS is a list of instruction sets; those that the machine lacks are skipped.
# OpenBLAS adds in a different order on each CPU core type, so the script selects one.
set -eu
qgrad=${QGRAD:-build/qgrad}
only="$*"
export OPENBLAS_CORETYPE=Haswell LC_ALL=C
unset OPENBLAS_L2_SIZE
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM

# noise COUNT BYTES LABELS: COUNT records of LABELS label bytes and BYTES - LABELS others, in octal for printf.
noise() {
    awk -v n="$1" -v bytes="$2" -v labels="$3" 'BEGIN {
        x = 1
        for (i = 0; i < n; i++)
            for (b = 0; b < bytes; b++) {
                x = (x * 75 + 74) % 65537
                printf "\\%03o", b < labels ? i % 10 : int(x / 257)
            }
    }'
}
put() { printf "$(cat)"; }
pictures() { printf '\000\000\010\003\000\000\000'"$1"'\000\000\000\034\000\000\000\034'; noise "$2" 784 0 | put; }
labels() { printf '\000\000\010\001\000\000\000'"$1"; noise "$2" 1 1 | put; }
mkdir "$dir/digits" "$dir/photos"
pictures '\170' 120 >"$dir/digits/train-images-idx3-ubyte"
pictures '\036' 30 >"$dir/digits/t10k-images-idx3-ubyte"
labels '\170' 120 >"$dir/digits/train-labels-idx1-ubyte"
labels '\036' 30 >"$dir/digits/t10k-labels-idx1-ubyte"
for file in data_batch_1 data_batch_2 data_batch_3 data_batch_4 data_batch_5 test_batch; do
    noise 12 3073 1 | put >"$dir/photos/$file.bin"
done

# t NAME OPTIONS..: one training.
t() {
    name=$1
    shift
    case " $only " in '  ' | *" $name "*) ;; *) return 0 ;; esac
    json=$(QGRAD_CPU=$cpu $qgrad train --seed 5 --epochs 2 --batch 24 "$@" --out "$dir/$name" --resume --json 2>"$dir/said") ||
        { echo "$name: $(tail -n 1 "$dir/said")" >&2; failed=1; return 0; }
    field() { echo "$json" | sed -n 's/.*"'"$1"'":"\{0,1\}\([^",}]*\).*/\1/p'; }
    [ "$(field cpu_path)" = "$cpu" ] || return 0
    echo "$cpu $name $(field digest) $(field train_loss)"
    rm -rf "$dir/$name"
}

# The same, stopped wherever a growing budget ends; the position must not matter.
stopped() {
    case " $only " in '  ' | *" $1 "*) ;; *) return 0 ;; esac
    name=$1
    shift
    for budget in 0 0.02 0.04 0.06 0.1 0.15 0.2 0.4; do
        QGRAD_CPU=$cpu $qgrad train --seed 5 --epochs 2 --batch 24 "$@" --out "$dir/$name" --resume --budget ${budget}s --json \
            >"$dir/said" 2>&1 || [ $? = 3 ] || { echo "$name: $(tail -n 1 "$dir/said")" >&2; failed=1; return 0; }
    done
    t "$name" "$@"
}

all() {
    L="--model lenet5 --data mnist --data-dir $dir/digits"
    C="--data cifar10 --data-dir $dir/photos"
    S="--model lenet5 --data sample --epochs 1 --batch 500"

    t float $L
    t float-threads $L --threads 1
    t sample $S --weight twn

    # Weights, with each option.
    t twn $L --weight twn
    t twn-channel $L --weight twn:threshold=0.5,per-channel=yes,surrogate=clip,surrogate-arg=0.5
    t ste-tern $L --weight ste-tern --first-last quantized
    t ste-tern-relative $L --weight ste-tern:relative=yes,threshold=0.6,surrogate=approx-sign --first-last quantized
    t ttq $L --weight ttq
    t ttq-scaled $L --weight ttq:gradient=scaled
    t ttq-channel $L --weight ttq:per-channel=yes
    t dorefa-channel $L --weight dorefa:bits=3,per-channel=yes,max=through
    t dorefa-16 $L --weight dorefa:bits=16
    t ttq-printed $L --weight ttq:threshold=0.1,rule=as-printed,start=weights,decay=0.01,surrogate=identity
    t binary $L --weight binary
    t binary-swish $L --weight binary:surrogate=swish,surrogate-arg=4
    t binary-channel $L --weight binary-channel:surrogate=tanh,surrogate-arg=2
    t dorefa-w1 $L --weight dorefa:bits=1
    t dorefa-w3 $L --weight dorefa:bits=3,max=through
    t dorefa-w2-clip $L --weight dorefa:bits=2,surrogate=clip
    t xnor-exact $L --weight xnor
    t xnor-paper $L --weight xnor:rule=paper
    t xnor-authors $L --weight xnor:rule=authors,latent=centred --first-last float
    t xnor-authors-adam $L --weight xnor:rule=authors-adam --optimizer adam --lr 0.001
    t xnor-identity $L --weight xnor:rule=identity,surrogate=annealed-tanh
    t magnitude-aware $L --weight magnitude-aware
    t binaryconnect $L --weight binaryconnect --first-last quantized
    t binaryconnect-stoch $L --weight binaryconnect:draw=stoch,eval=float,start=unit,glorot-lr=sgd --first-last quantized
    t bnn $L --weight bnn
    t bnn-unit $L --weight bnn:start=unit,glorot-lr=adam --optimizer adam --lr 0.001
    t bop $L --weight bop --optimizer bop --gamma 0.01 --threshold 1e-7
    t lsq-w4 $L --weight lsq:bits=4
    t lsq-w2-clip $L --weight lsq:bits=2,surrogate=clip
    t unit-w1 $L --weight unit:bits=1 --first-last quantized
    t unit-w2 $L --weight unit:bits=2 --first-last quantized
    t unit-w3-odd $L --weight unit:bits=3,zero=no --first-last quantized
    t fake-current $L --weight fake_quant:range=current,bits=4
    t fake-current-channel $L --weight fake_quant:range=current,bits=4,per-channel=yes
    t fake-learned $L --weight fake_quant:range=learned,bits=3
    t fake-learned-given $L --weight fake_quant:range=learned,bits=3,min=-0.3,max=0.25
    t fake-learned-channel $L --weight fake_quant:range=learned,bits=4,per-channel=yes,narrow-range=yes
    t fake-observed $L --weight fake_quant:range=observed,decay=0.9,freeze-after=7
    t fake-percentile $L --weight fake_quant:range=percentile,percentile=99,per-channel=yes
    t fake-fixed $L --weight fake_quant:range=fixed,min=-0.2,max=0.3,bits=5,narrow-range=yes
    t qdq $L --weight qdq:bits=4
    t qdq-channel $L --weight qdq:bits=3,per-channel=yes,narrow-range=yes,ties=up
    t qdq-given $L --weight qdq:bits=4,range=given,min=-0.2,max=0.3

    # The rules of the sources, where the defaults differ.
    for w in ste-tern ttq xnor magnitude-aware binaryconnect bnn unit fake_quant; do
        t "$w-as-paper" $L --weight "$w:as=paper" --first-last quantized --reestimate-batchnorm off
    done

    # Inputs.
    t in-sign $L --weight binary --input sign
    t in-sign-tanh $L --weight binary --input sign:surrogate=annealed-tanh
    t in-xnor $L --weight xnor --input xnor
    t in-xnor-unscaled $L --weight xnor --input xnor:scale=off,surrogate=clip,surrogate-arg=0.5
    t in-dorefa $L --weight dorefa:bits=1 --input dorefa:bits=2
    t in-dorefa-up $L --weight dorefa:bits=1 --input dorefa:bits=4,ties=up
    t in-dorefa-clip $L --input dorefa:bits=32
    t in-lsq $L --weight lsq:bits=2 --input lsq:bits=2
    t in-lsq-signed $L --input lsq:bits=3,signed=yes
    t in-pact $L --input pact:bits=4,alpha=4,decay=0.001
    t in-linear $L --input linear:bits=3,max-value=3
    t in-unit $L --weight unit:bits=2 --input unit:bits=2 --first-last quantized
    t in-unit-zero $L --input unit:bits=3,zero=yes --first-last quantized
    t in-fake-learned $L --input fake_quant:range=learned,bits=4
    t in-fake-learned-channel $L --input fake_quant:range=learned,bits=4,per-channel=yes
    t in-fake-observed $L --weight fake_quant:range=current --input fake_quant:range=observed --quantize-after 3
    t in-fake-percentile $L --input fake_quant:range=percentile,percentile=99.5,freeze-after=6
    t in-fake-fixed $L --input fake_quant:range=fixed,min=0,max=4,bits=3
    t in-qdq $L --weight qdq --input qdq:bits=4
    t in-qdq-unsigned $L --input qdq:bits=3,signed=no,per-channel=yes
    t in-qdq-given $L --input qdq:bits=3,signed=no,range=given,max=4,ties=up
    t in-qdq-straight $L --input qdq:bits=3,range=given,min=0,max=4,surrogate=identity

    # Gradients.
    t g-dorefa $L --weight dorefa:bits=1 --input dorefa:bits=2 --gradient dorefa:bits=6
    t g-dorefa-quiet $L --gradient dorefa:bits=4,noise=off

    # Nets.
    t lenet5-xnor --model lenet5-xnor --data mnist --data-dir "$dir/digits" --weight xnor --input xnor
    t mlp --model mlp:depth=2,width=96,dropout=0.5,input-dropout=0.2 --data mnist --data-dir "$dir/digits" --weight binaryconnect --first-last quantized
    t vgg7 --model vgg7:width=0.125 $C --weight twn
    t vgg-small --model vgg-small:width=0.125 $C --weight lsq:bits=3 --input lsq:bits=3 --first-last float
    t resnet20 --model resnet20 $C --weight ttq --first-last float --augment pad=4,flip
    t resnet20-pre --model resnet20:order=pre,shortcut=pool $C --weight dorefa:bits=1 --input dorefa:bits=2
    t resnet20-b --model resnet20:shortcut=B $C --weight fake_quant:range=current --input fake_quant:range=observed
    t resnet18 --model resnet18:width=0.0625 $C --weight twn --first-last float --epochs 1
    t birealnet18 --model birealnet18:width=0.0625 $C --epochs 1
    t mobilenet --model mobilenet:width=0.0625 $C --weight twn --first-last float --epochs 1
    t nin --model nin $C --epochs 1
    t pools --model 8C3-BN-R-MP3s2p1-8C3-R-AP3s2p1-BN-MP3s1p1-GAP-10 $C --weight ttq --epochs 1
    t resnet32 --model resnet32 $C --epochs 1
    t resnet44 --model resnet44 $C --epochs 1
    t resnet56 --model resnet56 $C --epochs 1 --weight twn
    t tfc --model tfc --data mnist --data-dir "$dir/digits"
    t sfc --model sfc --data mnist --data-dir "$dir/digits" --weight unit:bits=2 --input unit:bits=2,zero=yes
    t lfc --model lfc --data mnist --data-dir "$dir/digits"
    t cnv --model cnv $C

    # Other options of a run.
    t folded $L --weight fake_quant:range=current --fold-batchnorm
    t folded-frozen $L --weight fake_quant:range=current,per-channel=yes --input fake_quant:range=observed --fold-batchnorm --freeze-batchnorm-after 4
    t frozen $L --weight twn --freeze-batchnorm-after 4
    t layers $L --weight twn --layer conv1:weight=float --layer fc1:input=sign --layer fc2:gradient=dorefa:bits=5
    t adam $L --weight twn --optimizer adam --lr 0.002 --beta1 0.8 --beta2 0.99 --weight-decay 0.01
    t nesterov $L --weight twn --momentum 0.8 --nesterov --weight-decay 1e-3
    t plain-sgd $L --weight twn --momentum 0
    t groups $L --weight ttq --norm-decay 0.01 --norm-lr-scale 0.5 --quantizer-decay 0.02 --quantizer-lr-scale 0.1
    t hinge $L --weight binary --loss squared-hinge
    t cosine $L --weight twn --schedule cosine:factor=0.1,warmup=0.2
    t exponential $L --schedule exponential:factor=0.01
    t channel --model vgg7:width=0.0625 $C --normalise channel --augment pad=4,border=reflect,flip,cutout=8
    t pixel --model vgg7:width=0.0625 $C --normalise pixel --augment pad=2,border=repeat
    t range --model vgg7:width=0.0625 $C --normalise range:low=-1,high=1
    t whiten --model vgg7:width=0.0625 $C --normalise whiten
    t depthwise $C --model "16C3s2psame-BN-R-DW3-BN-R-32C1-BN-R-DW3s2psame-BN-R-24C3g4-BN-R-GAP-10" --weight twn:per-channel=yes
    t whole $L --weight ttq --input pact:bits=4 --optimizer adam --lr 0.001
    stopped resumed $L --weight ttq --input pact:bits=4 --optimizer adam --lr 0.001
}

failed=0
for cpu in ${CPUS:-baseline avx2 avx512}; do all; done
exit $failed
