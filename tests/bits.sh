#!/bin/sh
# Short trainings that together use every scheme in every role, with each of its options, every family of models, every option
# of a run and every kind of data, and what each command prints of some of these runs.  tests/bits.txt has the list as it was
# recorded: a change that must not affect any bit must not change a line of it.
#     sh tests/bits.sh check [NAME..]     prints the lines that differ from it; exit status 1: some do
#     sh tests/bits.sh record [NAME..]    writes it, or these lines of it
#     sh tests/bits.sh [NAME..]           prints the list
# NAMEs may be patterns such as 'in-*'.  A line begins with the instruction set, or with any where all that the call computes
# agree, and with the name of its row.  That of a training has the digest of its weights and its last loss, then hashes of the
# files in its run directory, without times, and of its packed file.  A line of a command has a hash of its output and of what it
# writes, in which times, speeds, memory, the commit and checksums are masked; with KEEP=DIRECTORY these texts are kept, so that
# `diff -r` shows what two builds print.
# QGRAD is the program (build/qgrad), OWN_NET that of tests/own_net.c (build/tests/own_net).  CPUS is a list of instruction
# sets, and may be empty; those that the machine lacks are skipped.  Only the matrix of --normalise whiten comes from OpenBLAS,
# which rounds otherwise on each CPU core type and in each version: the script selects one, and the list begins with the other.
set -euf
case ${1:-} in
check | record) mode=$1 && shift ;;
-*) sed -n '2,17s/^# \{0,1\}//p' "$0" && exit 2 ;;
*) mode=list ;;
esac
top=$(pwd) list=$(pwd)/tests/bits.txt
absolute() { case $1 in /*) echo "$1" ;; *) echo "$top/$1" ;; esac; }
qgrad=$(absolute "${QGRAD:-build/qgrad}") own_net=$(absolute "${OWN_NET:-build/tests/own_net}")
[ ! "${KEEP:-}" ] || KEEP=$(absolute "$KEEP")
for program in "$qgrad" "$own_net"; do [ -x "$program" ] || { echo "no $program: make all test-programs" >&2; exit 2; }; done
only="$*"
export OPENBLAS_CORETYPE=Haswell OMP_NUM_THREADS=2 LC_ALL=C
unset OPENBLAS_L2_SIZE
# Trainings flush many files, which costs nothing in memory.
dir=$(mktemp -d /dev/shm/qgrad-bits.XXXXXX 2>/dev/null) || dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
cd "$dir"

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
mkdir digits photos arrays folder folder/train folder/test
pictures '\170' 120 >digits/train-images-idx3-ubyte
pictures '\036' 30 >digits/t10k-images-idx3-ubyte
labels '\170' 120 >digits/train-labels-idx1-ubyte
labels '\036' 30 >digits/t10k-labels-idx1-ubyte
for file in data_batch_1 data_batch_2 data_batch_3 data_batch_4 data_batch_5 test_batch; do
    noise 12 3073 1 | put >photos/$file.bin
done
# array SHAPE COUNT BYTES LABELS: bytes as NumPy saves them, after 128 bytes of header.
array() {
    printf '\223NUMPY\001\000v\000%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': ($1), }"
    noise "$2" "$3" "$4" | put
}
array '48, 12, 12, 3' 48 432 0 >arrays/x.npy
array '48,' 48 1 1 >arrays/y.npy
array '20, 12, 12, 3' 20 432 0 >arrays/x-test.npy
array '20,' 20 1 1 >arrays/y-test.npy
# Pictures of 11 x 12 in BMP; each of a class has other pixels.
for image in train/cat/1 train/cat/2 train/cat/3 train/dog/1 train/dog/2 train/dog/3 test/cat/1 test/cat/2 test/dog/1; do
    mkdir -p "folder/${image%/*}"
    {
        printf 'BM\306\001\000\000\000\000\000\000\066\000\000\000\050\000\000\000\014\000\000\000\013\000\000\000\001\000\030\000'
        printf '%24s' '' | tr ' ' '\000'
        echo "$image" | cksum | awk '{ x = $1 % 65537; for (i = 0; i < 396; i++) { x = (x * 75 + 74) % 65537; printf "\\%03o", int(x / 257) } }' | put
    } >"folder/$image.bmp"
done

# wanted NAME
wanted() {
    [ "$only" ] || return 0
    for pattern in $only; do case $1 in $pattern) return 0 ;; esac; done
    return 1
}

# lost NAME: its command has failed.
lost() {
    echo "$cpu $1: $(tail -n 1 said)" >&2
    touch "$dir/failed"
}

short() { sha256sum | cut -c1-16; }

# The runs and files that others begin with, learn from or read, made when the first word that names one is seen.
prepare() {
    for word; do
        case $word in
        runs/float) set -- $L ;;
        runs/coded) set -- $S --weight twn --input lsq:bits=2 --first-last quantized ;;
        runs/wide) set -- $S --weight fake_quant:range=current --input fake_quant:range=observed --fold-batchnorm ;;
        runs/halted) set -- $S --budget 0 ;;
        runs/own) "$own_net" runs/own 2 >/dev/null 2>said || lost "$word"
            continue ;;
        runs/*.qg) base=${word%.qg}
            prepare "$base"
            [ -f "$base.qg" ] || "$qgrad" export --run "$base" -o "$base.qg" >/dev/null 2>said || lost "$base.qg"
            continue ;;
        *) continue ;;
        esac
        [ -d "$word" ] || "$qgrad" train --seed 5 --batch 24 --epochs 2 "$@" --out "$word" --json >said 2>&1 || [ $? = 3 ] || lost "$word"
    done
}

# CSV without the columns that are times.
untimed() {
    awk -F, '/(^|,)seconds/ { split("", drop); n = NF; for (i = 1; i <= n; i++) if ($i ~ /^(images_per_second|seconds.*)$/) drop[i] = 1 }
        NF != n { print; next }
        { for (i = 1; i <= n; i++) printf "%s", (i in drop ? "_" : $i) (i < n ? "," : "\n") }'
}

# The files of a run, but for result.json.
files_of() { cat "$1/config.toml" "$1/last.safetensors" "$1/best.safetensors" && untimed <"$1/metrics.csv"; }

# line NAME RUN OPTIONS..: the line of a training, whose run is removed.
line() {
    name=$1 run=$2
    shift 2
    json=$("$qgrad" train "$@" --out "$run" --resume --json 2>said) || { lost "$name" && return 0; }
    field() { echo "$json" | sed -n 's/.*"'"$1"'":"\{0,1\}\([^",}]*\).*/\1/p'; }
    "$qgrad" export --run "$run" -o packed >/dev/null 2>said && packed=$(short <packed) || packed=-
    echo "$cpu $name $(field digest) $(field train_loss) $(files_of "$run" | short) $packed"
    rm -rf "$run" packed
}

# t NAME OPTIONS..: one training.
t() {
    wanted "$1" || return 0
    prepare "$@"
    name=$1
    shift
    line "$name" "$name" --seed 5 --epochs 2 --batch 24 "$@"
}

# The same, stopped wherever a growing budget ends; the position must not matter.
stopped() {
    wanted "$1" || return 0
    name=$1
    shift
    for budget in 0 0.02 0.04 0.06 0.1 0.15 0.2 0.4; do
        "$qgrad" train --seed 5 --epochs 2 --batch 24 "$@" --out "$name" --resume --budget ${budget}s --json >said 2>&1 ||
            [ $? = 3 ] || { lost "$name" && return 0; }
    done
    t "$name" "$@"
}

# own NAME RUN ARGUMENTS..: a training by own_net.
own() {
    name=$1
    shift
    wanted "$name" || return 0
    prepare "$@"
    digest=$("$own_net" "$@" 2>said) || { lost "$name" && return 0; }
    echo "$cpu $name $digest $(files_of "$1" | short) -"
    rm -rf "$1"
}

# What differs between two runs of the same program.
masked() {
    untimed | sed -E "s,$qgrad,qgrad,g" | sed -E 's/"(seconds[a-z_]*|images_per_second|peak_rss_bytes|commit|checksum|cpu_path|weight_bytes|context_bytes)":("[^"]*"|[-+.e0-9]+)/"\1":_/g
        s/[0-9.]+ (images\/s|images per second)/_ \1/g; s/commit [0-9a-f]{12}(-dirty)?/commit _/g; s/ +[0-9.]+ s($|,)/ _ s\1/
        s/(kernels|threads?,) (avx512|avx2|baseline)/\1 _/g
        s,>[0-9]+:[0-9:]+<,>_<,g; s,(images per second</small><b>)[0-9]+,\1_,g
        s/  +[0-9]+\.[0-9]( ± [0-9]+\.[0-9])?$/ _/
        s,^(runs/.*  )[0-9]+\.[0-9](  |$),\1_\2,
        s/^(runs\/([^,]*,){9})[0-9.]+,/\1_,/'
}

# says NAME COMMAND..: what it prints, and the file or run that it writes as out.
says() {
    name=$1
    shift
    wanted "$name" || return 0
    prepare "$@"
    status=0
    "$qgrad" "$@" >text 2>said || status=$?
    [ $status -le 3 ] || lost "$name"
    {
        echo "exit status $status"
        cat text said
        if [ -f out/config.toml ]; then files_of out | short; elif [ -d out ]; then find out -type f | sort | xargs cat
        elif [ -f out ]; then case $name in export*) short <out ;; *) cat out ;; esac; fi
    } | masked >kept
    [ ! "${KEEP:-}" ] || { mkdir -p "$KEEP/$cpu" && cp kept "$KEEP/$cpu/$name"; }
    echo "$cpu $name $(short <kept)"
    rm -rf out
}

# What depends on the kernels.
trainings() {
    L="--model lenet5 --data mnist --data-dir ../digits"
    C="--data cifar10 --data-dir ../photos"
    S="--model lenet5 --data sample --epochs 1 --batch 500"
    A="--data arrays:train=x.npy,train-labels=y.npy,test=x-test.npy,test-labels=y-test.npy --data-dir ../arrays"

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
    t dorefa-max $L --weight dorefa:scale=max
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
    t irnet $L --weight irnet --input sign:surrogate=annealed-tanh
    t adabin $L --weight adabin
    t recu $L --weight recu --input sign:surrogate=approx-sign
    t lsq-w4 $L --weight lsq:bits=4
    t lsq-channel $L --weight lsq:bits=3,per-channel=yes
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

    # The rules of the sources, and each option whose default is not theirs.
    for w in twn binary binary-channel ste-tern ttq dorefa xnor magnitude-aware binaryconnect bnn irnet adabin recu fake_quant lsq unit qdq; do
        t "$w-as-paper" $L --weight "$w:as=paper" --first-last quantized --reestimate-batchnorm off
    done
    for x in sign xnor dorefa fake_quant lsq pact linear unit qdq; do
        t "in-$x-as-paper" $L --weight twn --input "$x:as=paper" --first-last quantized --reestimate-batchnorm off
    done
    t ste-tern-plain $L --weight ste-tern:gradient=plain,relative=no --first-last quantized
    t ttq-as-was $L --weight ttq:gradient=sum,straight=no,scale-lr=1
    t binaryconnect-plain $L --weight binaryconnect:gradient=plain --first-last quantized
    t bnn-plain $L --weight bnn:gradient=plain
    t magnitude-aware-plain $L --weight magnitude-aware:gradient=plain
    t fake-sum $L --weight fake_quant:gradient=sum --input fake_quant:gradient=sum
    t unit-absolute $L --weight unit:bits=2,relative=no --first-last quantized
    t first-last-float $L --weight twn --first-last float
    t he $L --weight twn --initial-weights he

    # Inputs.
    t in-sign $L --weight binary --input sign
    t in-sign-tanh $L --weight binary --input sign:surrogate=annealed-tanh
    t in-xnor $L --weight xnor --input xnor
    t in-adabin $L --weight adabin --input adabin
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
    t g-stochastic $L --weight twn --input fake_quant:range=observed --gradient stochastic
    t g-stochastic-clip $L --gradient stochastic:bits=3,percentile=99
    t g-stochastic-quiet $L --gradient stochastic:noise=off

    # Nets.
    t lenet5-xnor --model lenet5-xnor --data mnist --data-dir ../digits --weight xnor --input xnor
    t mlp --model mlp:depth=2,width=96,dropout=0.5,input-dropout=0.2 --data mnist --data-dir ../digits --weight binaryconnect --first-last quantized
    t vgg7 --model vgg7:width=0.125 $C --weight twn
    t vgg-small --model vgg-small:width=0.125 $C --weight lsq:bits=3 --input lsq:bits=3 --first-last float
    t resnet20 --model resnet20 $C --weight ttq --first-last float --augment pad=4,flip
    t resnet20-bireal --model resnet20:order=bireal $C --weight irnet --input sign
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
    t tfc --model tfc --data mnist --data-dir ../digits
    t sfc --model sfc --data mnist --data-dir ../digits --weight unit:bits=2 --input unit:bits=2,zero=yes
    t lfc --model lfc --data mnist --data-dir ../digits
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
    t warp $L --weight twn --augment rotate=20,scale=0.1,pad=2,border=repeat
    t range --model vgg7:width=0.0625 $C --normalise range:low=-1,high=1
    t whiten --model vgg7:width=0.0625 $C --normalise whiten
    t depthwise $C --model "16C3s2psame-BN-R-DW3-BN-R-32C1-BN-R-DW3s2psame-BN-R-24C3g4-BN-R-GAP-10" --weight twn:per-channel=yes
    t init $L --weight twn --init runs/float
    t whiten-patches $L --layer conv1:weight=float --whiten-patches conv1
    t init-except $L --weight lsq:bits=4 --init runs/float --init-except fc2 --freeze conv1
    t teacher $L --weight binary --teacher runs/float
    t teacher-distil $L --weight twn --input lsq:bits=2 --teacher runs/float --distil temperature=2,weight=0.5
    t ema $L --weight twn --ema 0.9
    t clip-norm $L --weight dorefa:bits=1 --clip-norm 0.5
    t label-smoothing $L --weight twn --label-smoothing 0.1
    t validation $L --weight twn --validation 20
    t validation-share $L --validation 10% --patience 1 --epochs 3
    t weights-late $L --weight twn --quantize-weights-after 4
    t both-late $L --weight lsq:bits=2 --input lsq:bits=2 --quantize-weights-after 1epochs --quantize-after 7
    t all-late $L --weight ttq --input pact --quantize-weights-after 3 --quantize-after 5 --ema 0.9 --validation 20 --clip-norm 1 --epochs 3
    t own-statistics $L --weight twn --reestimate-batchnorm off
    t classes --model lenet5 --data mnist:classes=1+3+7 --data-dir ../digits --weight twn
    t prelu $C --model "8C3-BN-PR-MP2-8C3-BN-PR(start=0.1,shared)-MP2-8C3-RPR-GAP-10" --weight twn
    t prelu-coded $C --model "8C3-BN-PR-MP2-8C3-BN-RPR-GAP-10" --weight binary --input sign
    t activations $C --model "8C3-BN-HT-AP2-8C3-SG-D0.3-16FC-TH-AF(scale=2,shift=-1)-10" --weight lsq:bits=4 --input lsq:bits=4,signed=yes
    t folder --model "8C3-BN-R-MP2-GAP-2" --data folder:12x12x3 --data-dir ../folder --weight twn --batch 2
    t folder-grey --model "8C3-BN-R-MP2-GAP-2" --data folder:8x9x1 --data-dir ../folder --normalise channel --augment flip --batch 4 --cache 0.001M
    t arrays $A --model "8C3-BN-R-MP2-GAP-10" --weight ttq
    t arrays-whiten $A --model "8C3-BN-R-MP2-GAP-10" --weight ttq --normalise whiten --validation 12 --batch 12

    t whole $L --weight ttq --input pact:bits=4 --optimizer adam --lr 0.001
    stopped resumed $L --weight ttq --input pact:bits=4 --optimizer adam --lr 0.001

    # A net, a scheme and images of a program's own.
    own own-net mine 3
    own own-net-taught mine 2 0 runs/own

    # Runs in tests/earlier are read and evaluated, and others begin with them; none goes on.
    says earlier-eval eval --run trained --json
    says earlier-predict predict --run taught --best datasets/sample/test.png
    says earlier-inspect inspect unfinished --json
    says earlier-inspect-own inspect own-unfinished --json
    says earlier-report report trained unfinished taught own --out out
    says earlier-resume train --resume --out trained --json
    says earlier-refuses train --resume --out unfinished
    t earlier-init $S --model 4C3s2-BN-R-8C3s2-BN-R-GAP-10 --weight twn --init unfinished
    t earlier-teacher $S --model 4C3s2-BN-R-8C3s2-BN-R-GAP-10 --weight twn --teacher trained
    own earlier-own-teacher mine 2 0 own

    # What the commands print.
    says train-table train $L --seed 5 --batch 24 --epochs 2 --weight twn --watch --out out
    says train-refuses train --model lenet6
    says eval eval --run runs/coded
    says eval-tta eval --run runs/coded --tta
    says eval-tables eval --run runs/coded --per-class --confusion --worst 3
    says eval-json eval --run runs/coded --best --worst 2 --json
    says eval-own eval --run runs/own
    says predict predict --run runs/coded datasets/sample/test.png --top 2
    says predict-json predict --packed runs/coded.qg datasets/sample/test.png datasets/sample/README.md --json
    says quantize quantize --run runs/float --weight fake_quant:range=current --input fake_quant:range=observed --data-dir ../digits --out out
    says quantize-json quantize --run runs/float --weight twn --calibrate 50 --fold-batchnorm --data-dir ../digits --out out --json
    says sweep-list sweep $L --weight twn,ttq --lr 0.1,0.01 --seed 1..2 --list
    says sweep sweep $L --weight twn,binary --seed 1..2 --epochs 1 --jobs 1 --out sweep
    says sweep-csv sweep $L --weight twn,binary --seed 1..2 --epochs 1 --jobs 1 --out sweep --csv
    says sweep-json sweep $L --weight twn,binary --seed 1..2 --epochs 1 --jobs 1 --out sweep --json
    if wanted runs || wanted runs-csv || wanted runs-json; then prepare runs/halted runs/own runs/coded runs/float runs/wide; fi
    says runs runs runs
    says runs-csv runs runs --csv --sort run
    says runs-json runs runs --json
    says export export --run runs/coded -o out
    says export-json export --run runs/wide --best -o out --json
    says infer infer --packed runs/coded.qg
    says infer-json infer --packed runs/coded.qg --run runs/coded --json
    says infer-wide infer --packed runs/wide.qg --run runs/wide --json
    says infer-tflite infer --packed runs/wide.qg --run runs/wide --requantize tflite --json
    says inspect inspect runs/coded --histogram
    says inspect-json inspect runs/wide --json
    says inspect-own inspect runs/own
    says report report runs/coded --out out
    says report-two report runs/coded runs/wide --out out
    says report-own report runs/own --out out
    says report-json report runs/coded --out out --json
}

# Commands that say the same on all.
texts() {
    for model in lenet5 lenet5-xnor mlp vgg7 vgg-small resnet20 resnet56 resnet18 birealnet18 mobilenet nin tfc cnv; do
        says "summary-$model" summary --model $model --image 32x32x3 --weight twn --input dorefa --json
    done
    says summary summary --model lenet5 --weight ttq --input sign
    says summary-text summary --model "16C3-BN-R-2*({16C3-BN-R-16C3-BN}:A-R)-GAP-10" --input sign --image 16x16x1
    says explain explain
    says explain-twn explain twn
    says explain-all explain --markdown
    says explain-json explain --json
    says plot plot fake_quant:range=fixed,min=-1,max=1 --role weight
    says plot-csv plot ttq --csv
    says plot-json plot lsq --role input --json
    says plot-all plot --out out
    says gradcheck gradcheck --paper
    says gradcheck-json gradcheck --json
}

# Lines in which all instruction sets of this call agree become one, which begins with any.
collapsed() {
    awk -v sets="$sets" 'BEGIN { n = split(sets, unused) - 1 }
        { line = $0; sub(/^[^ ]* /, "", line); count[line]++; all[NR] = $0; of[NR] = line; any[NR] = $1 == "any" }
        END { for (i = 1; i <= NR; i++) if (any[i] || count[of[i]] < n) print all[i]; else if (!printed[of[i]]++) print "any " of[i] }'
}

# Instruction sets that this machine has.
has() { QGRAD_CPU=$1 "$qgrad" --version 2>/dev/null | grep -qE "^kernels +$1\$" || { echo "no kernels for $1 here" >&2 && return 1; }; }
# begin NAME KERNELS FUNCTION: runs it in the background, in a directory of its own.
begin() {
    sets="$sets $1"
    (
        cpu=$1
        export QGRAD_CPU="$2"
        mkdir "$cpu" "$cpu/runs" && cd "$cpu" && ln -s "$top/datasets" .
        cp -R "$top/tests/earlier/." .
        "$3"
    ) >"$1.list" &
}
sets=
begin any baseline texts
for cpu in ${CPUS-baseline avx2 avx512}; do ! has "$cpu" || begin "$cpu" "$cpu" trainings; done
wait
for cpu in $sets; do cat "$cpu.list"; done | collapsed >got
# recorded these|others: the lines of the list that this call computes, or the others.
recorded() {
    grep -v '^#' "$list" | while read -r cpu name rest; do
        case " $sets " in *" $cpu "*) wanted "$name" && mine=these || mine=others ;; *) mine=others ;; esac
        [ $mine != "$1" ] || echo "$cpu $name $rest"
    done
}
sort got >now
case $mode in
list) cat got ;;
record)
    if [ ! -e failed ]; then
        if [ -e "$list" ]; then recorded others >>now; fi
        {
            echo "# $("$qgrad" --version | sed -n 's/^built *by \([^,]*\),.*/\1/p'), OpenBLAS $(pkg-config --modversion openblas), $(getconf GNU_LIBC_VERSION)"
            sort now
        } >new
        cp new "$list"
    fi ;;
check)
    recorded these | collapsed | sort >want
    diff want now >differ || { grep '^[<>]' differ; exit 1; }
    echo "$(grep -c . now) lines, all as recorded" ;;
esac
[ ! -e failed ]
