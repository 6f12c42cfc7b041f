#!/bin/sh
# Trainings on several ranks over MPI end in the bytes of one process: for any number of ranks times any number of threads,
# when a rank is killed and the run goes on with another number of ranks, or none, and after SIGTERM.  Ranks that differ
# refuse to begin.  Ends with "N passed, M failed".
#     sh tests/ranks.sh            a minute, with the sample in datasets/: part of `make check`
#     sh tests/ranks.sh full       LeNet-5 with TTQ on MNIST for two epochs, and thirty steps of ResNet-20 (W1A2G6, augmented)
#                                  on CIFAR-10, on 1, 2, 4 and 8 ranks with 1 and 2 threads; ten kills.  IMAGES=4096 uses
#                                  only the first images of MNIST
#     sh tests/ranks.sh hosts      two hosts, which are network namespaces with a cable between them, also one of 1 Gbit/s and 0.2 ms
#                                  and one of 10 Gbit/s and 0.05 ms; needs root and iproute2
#     sh tests/ranks.sh links      measures training on two such hosts beside the model (results/scaling.md), some minutes; NETS selects
# QGRAD, QGRAD_MPI and QGRAD_DELAY are the programs (build/qgrad, build/qgrad-mpi, build/qgrad-mpi-delay), MNIST and CIFAR10 the directories of the data.
set -u
qgrad=${QGRAD:-build/qgrad} mpi=${QGRAD_MPI:-build/qgrad-mpi} delay=${QGRAD_DELAY:-build/qgrad-mpi-delay}
mnist=${MNIST:-datasets/mnist} cifar=${CIFAR10:-datasets/cifar10}
case ${1:-} in '' | full | hosts | links) ;; *) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 2 ;; esac
dir=$(mktemp -d)
cleanup() {
    rm -rf "$dir"
    [ ! "${hosts:-}" ] || { ip netns del "$hosts-1"; ip netns del "$hosts-2"; } 2>/dev/null
}
trap cleanup EXIT
trap 'exit 130' INT TERM
# More ranks than cores, and as root, as in containers.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none
export LC_ALL=C
passed=0 failed=0
pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); echo "error: $*"; }

# train RANKS THREADS OUT OPTIONS..: 0 ranks is the program without MPI.
train() {
    r=$1 threads=$2 out=$3
    shift 3
    if [ "$r" -eq 0 ]; then set -- "$qgrad" train "$@"; else set -- mpirun -n "$r" "$mpi" train "$@"; fi
    "$@" --threads "$threads" --out "$out" --json >"$dir/json" 2>"$dir/said"
}

# What a run must have in common with another: its checkpoint, its best weights and its metrics without the times.
digest() {
    { cat "$1/last.safetensors" "$1/best.safetensors"; cut -d, -f1-6,9 "$1/metrics.csv"; } 2>/dev/null | sha256sum | cut -c1-16
}
same() { [ "$(digest "$1")" = "$want" ]; }
# What its page says of the test images.
counted() { grep -o '[0-9,]* of [0-9,]* test images' "$1/report.html"; }

# grid NAME RANKS THREADS OPTIONS..
grid() {
    name=$1 ranks=$2 threads_list=$3
    shift 3
    train 0 1 "$dir/one" "$@" || fail "$name on one process: $(tail -n 1 "$dir/said")"
    want=$(digest "$dir/one")
    echo "$name $want"
    for r in $ranks; do
        for k in $threads_list; do
            if train "$r" "$k" "$dir/many" "$@" && same "$dir/many" && [ "$(counted "$dir/many")" = "$(counted "$dir/one")" ]; then pass
            else fail "$name, $r ranks, $k threads: $(digest "$dir/many") instead of $want; $(tail -n 1 "$dir/said")"; fi
            rm -rf "$dir/many"
        done
    done
}

# The process of a rank of the job whose mpirun is $1: the $2-th of its children and theirs.
ranks_of() {
    for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do
        case $(cat /proc/"$child"/cmdline 2>/dev/null | tr '\0' ' ') in *qgrad-mpi*) echo "$child" ;; *) ranks_of "$child" ;; esac
    done
}

random() { echo $(($(od -An -N2 -tu2 /dev/urandom) % $1)); }

# Starts a job of r ranks, and sends the signal to one of them some time after the first checkpoint, or if epochs is 1 after the
# first epoch.  false: the run was over before.
interrupt() {
    rm -rf "$dir/killed"
    mpirun -n "$r" "$mpi" train "$@" --threads 1 --out "$dir/killed" --resume --json >/dev/null 2>"$dir/said" &
    job=$!
    while kill -0 $job 2>/dev/null; do
        [ -s "$dir/killed/last.safetensors" ] && [ "$(grep -c '^[0-9]' "$dir/killed/metrics.csv")" -ge "$epochs" ] && break
        sleep 0.02
    done 2>/dev/null
    sleep "0.$(random 4)"
    victim=$(ranks_of $job | sed -n "$(($(random "$r") + 1))p")
    [ -n "$victim" ] && kill -"$signal" "$victim" 2>/dev/null
    wait $job
    code=$?
    [ -n "$victim" ] && [ "$code" -ne 0 ] && ! grep -q '"complete": *true' "$dir/killed/result.json" 2>/dev/null
}

# kill_rank NAME R SIGNAL EPOCHS NEXT OPTIONS..: a job of R ranks ends in the middle, and goes on with NEXT.
kill_rank() {
    name=$1 r=$2 signal=$3 epochs=$4 next=$5
    shift 5
    for attempt in 1 2 3 4 5 6; do interrupt "$@" && break; done ||
        fail "$name: six times no rank of $r could be stopped in the middle, exit code $code"
    if [ "$signal" = TERM ] && ! grep -q '"ended": *"stop"' "$dir/killed/result.json"; then fail "$name: SIGTERM left no checkpoint"; fi
    lines=$(grep -c . "$dir/said")
    echo "    $name: rank process $victim of $r got $signal in epoch $(($(grep -c '^[0-9]' "$dir/killed/metrics.csv") + 1)), exit code $code, $lines lines; goes on with $next"
    train "$next" 1 "$dir/killed" --resume "$@" || fail "$name, resumed with $next: $(tail -n 1 "$dir/said")"
    if same "$dir/killed"; then pass; else fail "$name, $signal on $r ranks, resumed with $next: $(digest "$dir/killed") instead of $want"; fi
    rm -rf "$dir/killed"
}

# Ranks that differ, each in its own way; the message names both sides.
refuses() {
    what=$1
    shift
    if "$@" --out "$dir/refused" >/dev/null 2>"$dir/said"; then fail "ranks with different $what began"
    elif ! grep -q "ranks do not agree: rank 1 has '.*', but rank 0 has '.*'" "$dir/said"; then fail "$what: $(cat "$dir/said")"
    elif [ -e "$dir/refused" ]; then fail "$what: a directory was left"
    elif [ "$(grep -c 'qgrad train:' "$dir/said")" -ne 1 ]; then fail "$what: more than one line: $(cat "$dir/said")"
    else pass; fi
    rm -rf "$dir/refused"
}

if [ "${1:-}" = full ]; then
    images=${IMAGES:-60000}
    mkdir "$dir/digits" "$dir/photos"
    octal() { printf "\\\\%03o\\\\%03o" $(($1 / 256)) $(($1 % 256)); }
    for part in "train $images" "t10k $((images < 10000 ? images : 10000))"; do
        set -- $part
        { printf "\000\000\010\003\000\000$(octal "$2")\000\000\000\034\000\000\000\034"
          tail -c +17 "$mnist/$1-images-idx3-ubyte" | head -c $(($2 * 784)); } >"$dir/digits/$1-images-idx3-ubyte"
        { printf "\000\000\010\001\000\000$(octal "$2")"; tail -c +9 "$mnist/$1-labels-idx1-ubyte" | head -c "$2"; } \
            >"$dir/digits/$1-labels-idx1-ubyte"
    done
    # Thirty batches of 128, and a short test.
    for k in 1 2 3 4 5; do head -c $((768 * 3073)) "$cifar/data_batch_$k.bin" >"$dir/photos/data_batch_$k.bin"; done
    head -c $((100 * 3073)) "$cifar/test_batch.bin" >"$dir/photos/test_batch.bin"
    lenet="--model lenet5 --weight ttq --data mnist --data-dir $dir/digits --epochs 2 --batch 256 --seed 1"
    resnet="--model resnet20 --weight dorefa:bits=1 --input dorefa:bits=2 --gradient dorefa:bits=6 --first-last float
            --data cifar10 --data-dir $dir/photos --normalise channel --augment pad=4,flip --epochs 1 --batch 128 --seed 1"
    grid "ResNet-20 W1A2G6, 30 steps" "1 2 4 8" "1 2" $resnet
    rm -rf "$dir/one"
    grid "LeNet-5 TTQ, 2 epochs of $images images" "1 2 4 8" "1 2" $lenet
    set -- 2 4 8 4 2 8 2 4 2 4
    for next in 4 0 2 1 8 4 1 2 0 8; do
        kill_rank "LeNet-5 TTQ" "$1" KILL "$(random 2)" "$next" $lenet
        shift
    done
elif [ "${1:-}" = hosts ] || [ "${1:-}" = links ]; then
    hosts=qgrad-$$
    ip netns add "$hosts-1" && ip netns add "$hosts-2" &&
        ip link add cable netns "$hosts-1" type veth peer name cable netns "$hosts-2" || exit 1
    for h in 1 2; do
        ip -n "$hosts-$h" addr add "10.77.0.$h/24" dev cable
        ip -n "$hosts-$h" link set lo up
        ip -n "$hosts-$h" link set cable up
    done
    # What mpirun calls instead of ssh: HOST COMMAND..
    printf '#!/bin/sh\nnumber=${1##*.}\nshift\nexec ip netns exec "%s-$number" /bin/sh -c "$*"\n' "$hosts" >"$dir/agent"
    chmod +x "$dir/agent"
    on_hosts() {
        ip netns exec "$hosts-1" mpirun --mca plm_rsh_agent "$dir/agent" --host 10.77.0.1,10.77.0.2 --mca pml ob1 --mca btl tcp,self \
            --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 -x QGRAD_LINK -n 2 "$@"
    }
    # link MICROSECONDS GBITS: the cable itself where the kernel has netem, else the program of `make mpi-delay`.
    link() {
        slow="qdisc replace dev cable root netem delay $1us rate $2gbit limit 100000"
        if ip netns exec "$hosts-1" tc $slow 2>/dev/null && ip netns exec "$hosts-2" tc $slow; then
            program=$mpi how=netem
            return
        fi
        program=$delay how="a delay inside the program, since this kernel has no netem"
        export QGRAD_LINK="latency=$1,gbits=$2"
    }
    program=$mpi how="as fast as possible" QGRAD_LINK=
    if [ "$1" = links ]; then
        for speed in "200 1" "50 10"; do
            link $speed
            for net in ${NETS:-lenet5:28x28x1:256 resnet20:32x32x3:128 vgg7:32x32x3:64}; do
                echo "$net over a cable of ${speed#* } Gbit/s and ${speed% *} us ($how)"
                on_hosts "$program" bench scaling --model "${net%%:*}" --weight ttq --image "$(echo "$net" | cut -d: -f2)" --batch "${net##*:}" \
                    --threads 1 --seconds "${SECONDS_EACH:-3}" 2>"$dir/said" && pass || fail "$net: $(tail -n 1 "$dir/said")"
            done
        done
    else
        small="--model lenet5 --weight ttq --data sample --epochs 1 --batch 100 --seed 3"
        train 0 1 "$dir/one" $small || fail "one process: $(tail -n 1 "$dir/said")"
        want=$(digest "$dir/one")
        for speed in "" "200 1" "50 10"; do
            [ "$speed" ] && link $speed
            on_hosts "$program" train $small --threads 1 --out "$dir/many" >/dev/null 2>"$dir/said"
            if same "$dir/many"; then pass; else fail "two hosts, $how: $(digest "$dir/many") instead of $want; $(tail -n 1 "$dir/said")"; fi
            echo "two hosts${speed:+, ${speed#* } Gbit/s and ${speed% *} us}, $how: $(digest "$dir/many")"
            rm -rf "$dir/many"
        done
        echo "bytes sent by host 1: $(ip netns exec "$hosts-1" cat /sys/class/net/cable/statistics/tx_bytes 2>/dev/null)"
    fi
else
    small="--model lenet5 --weight ttq --input lsq:bits=4 --data sample --epochs 2 --batch 100 --seed 3"
    grid "LeNet-5 with TTQ and LSQ" "1 2" "1 2" $small
    kill_rank "LeNet-5 with TTQ and LSQ" 2 KILL 0 0 $small
    kill_rank "LeNet-5 with TTQ and LSQ" 2 TERM 1 4 $small
    same="$mpi train --model lenet5 --weight twn --data sample --epochs 1"
    rm -rf "$dir/one"
    # Norms that are not synchronised: the same bytes for any number of threads, others than on one rank, and none on other ranks.
    apart="--model 8C3-BN-R-MP2-10 --data sample --epochs 1 --batch 100 --seed 3 --norm-sync off"
    train 2 1 "$dir/one" $apart || fail "norm-sync off: $(tail -n 1 "$dir/said")"
    want=$(digest "$dir/one")
    if train 2 2 "$dir/many" $apart && same "$dir/many"; then pass; else fail "norm-sync off: two threads end in other bytes"; fi
    if train 1 1 "$dir/alone" $apart && ! same "$dir/alone"; then pass; else fail "norm-sync off: one rank ends in the bytes of two"; fi
    if train 4 1 "$dir/one" --resume --epochs 2; then fail "norm-sync off: two ranks went on as four"
    elif grep -q 'norm-sync off: the run began on 2 ranks' "$dir/said"; then pass
    else fail "norm-sync off: $(cat "$dir/said")"; fi
    # What is not made for ranks.
    for command in "eval --run $dir/one" "sweep --model lenet5 --data sample --epochs 1" "bench peak"; do
        mpirun -n 2 "$mpi" $command >"$dir/json" 2>"$dir/said"
        if [ $? -eq 2 ] && [ "$(grep -c 'runs in one process, but mpirun has started 2' "$dir/said")" -eq 1 ] && [ ! -s "$dir/json" ]; then pass
        else fail "$command on two ranks: $(cat "$dir/said" "$dir/json")"; fi
    done
    refuses kernels mpirun -n 1 env QGRAD_CPU=baseline $same : -n 1 env QGRAD_CPU=avx2 $same
    refuses seeds mpirun -n 1 $same --seed 1 --out "$dir/refused" : -n 1 $same --seed 2
    if mpirun -n 3 $same --out "$dir/three" >/dev/null 2>"$dir/said"; then fail "three ranks began"
    elif [ "$(grep -c 'qgrad train: 3 ranks do not divide' "$dir/said")" -eq 1 ]; then pass
    else fail "three ranks: $(cat "$dir/said")"; fi
    # 1, 2 and 4 of the four ranks, first with one batch for all and then with one for each.
    mpirun -n 4 "$mpi" bench scaling --model lenet5 --weight ttq --image 16x16x1 --batch 32 --threads 1 --seconds 0.01 --json \
        >"$dir/json" 2>"$dir/said"
    if [ "$(grep -o '"ranks":[0-9]*' "$dir/json" | cut -d: -f2 | tr '\n' ' ')" = "1 2 4 1 2 4 " ]; then pass
    else fail "bench scaling: $(cat "$dir/said" "$dir/json")"; fi
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
