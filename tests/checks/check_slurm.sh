#!/bin/sh
# The scripts of examples/slurm/ with Slurm's variables and a srun and scontrol of their own: what they start, with which threads,
# when they put a job back into the queue, and which status they end with.  An interrupted array ends in the runs of a sweep.
qgrad=${QGRAD:-build/qgrad}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
status=0
wrong() { status=1; echo "$script: error: $*"; }

mkdir "$dir/bin"
# The options of srun end where the program begins.  $dir/ends has the statuses of the next calls, instead of running it.
cat >"$dir/bin/srun" <<END
#!/bin/sh
echo "srun OMP_NUM_THREADS=\$OMP_NUM_THREADS \$*" >>"$dir/calls"
end=\$(head -n 1 "$dir/ends" 2>/dev/null)
[ -z "\$end" ] || { sed -i 1d "$dir/ends"; exit "\$end"; }
while case \$1 in --*) ;; *) false ;; esac; do shift; done
exec "\$@"
END
printf '#!/bin/sh\necho "scontrol $*" >>"%s/calls"\n' "$dir" >"$dir/bin/scontrol"
chmod +x "$dir/bin/srun" "$dir/bin/scontrol"

# submit STATUS OPTIONS..: runs the script as Slurm would, and checks how it ends.
submit() {
    want=$1
    shift
    : >"$dir/calls"
    env PATH="$dir/bin:$PATH" QGRAD="$qgrad" QGRAD_MPI="$qgrad" SLURM_JOB_ID=77 SLURM_CPUS_PER_TASK=2 SLURM_ARRAY_JOB_ID=70 \
        sh "examples/slurm/$script" "$@" >"$dir/out" 2>&1
    got=$?
    [ "$got" -eq "$want" ] || wrong "exit status $got instead of $want: $(cat "$dir/out")"
}
called() { grep -qxF -e "$1" "$dir/calls" || wrong "no call '$1' among: $(cat "$dir/calls")"; }
requeued() { grep -c ^scontrol "$dir/calls"; }

net="--model 10 --data sample --epochs 1 --batch 100 --seed 4"
script=train.sh
unset SLURM_MPI_TYPE
for end in 0 1 3; do
    echo "$end" >"$dir/ends"
    submit "$end" --model lenet5
    called "srun OMP_NUM_THREADS=2 --mpi=pmix $qgrad train --resume --model lenet5"
    [ "$(requeued)" -eq 0 ] || wrong "status $end puts the job back into the queue"
done
echo 143 >"$dir/ends"
submit 143 $net --out "$dir/run"
called "scontrol requeue 77"
submit 0 $net --out "$dir/run"
[ "$(requeued)" -eq 0 ] && [ -s "$dir/run/result.json" ] || wrong "the run is not complete: $(cat "$dir/out")"

script=sweep.sh
lists="--lr 0.1,0.01"
submit 2 $net $lists --out "$dir/array"
grep -q 'as a job array' "$dir/out" || wrong "without an array: $(cat "$dir/out")"
export SLURM_ARRAY_TASK_ID=2
echo 143 >"$dir/ends"
submit 143 $net $lists --out "$dir/array"
called "scontrol requeue 70_2"
for SLURM_ARRAY_TASK_ID in 2 1 2; do
    submit 0 $net $lists --out "$dir/array"
    [ "$(requeued)" -eq 0 ] || wrong "a finished task is put back into the queue"
done
SLURM_ARRAY_TASK_ID=3
submit 2 $net $lists --out "$dir/array"
# The runs of one sweep, whose file names have the lists.
"$qgrad" sweep $net $lists --out "$dir/sweep" >/dev/null 2>&1
for run in "$dir"/sweep/*/; do
    name=$(basename "$run")
    cmp -s "$run/last.safetensors" "$dir/array/$name/last.safetensors" || wrong "$name differs from the run of a sweep"
done
[ "$(ls "$dir/array")" = "$(ls "$dir/sweep")" ] || wrong "the array has $(ls "$dir/array"), a sweep $(ls "$dir/sweep")"

script=examples/slurm
if command -v shellcheck >/dev/null; then
    shellcheck examples/slurm/*.sh || wrong "shellcheck"
fi
exit $status
