#!/bin/sh
# A sweep as a job array: each task trains one combination of the lists, on one node.  A task that is interrupted goes on from its
# checkpoint, and tasks whose run is complete end at once, so the same command with longer lists trains only what is new.
#     build/qgrad sweep --model lenet5 --lr 0.1,0.03 --seed 1..3 --out runs/lr --list      prints the combinations: here 6
#     sbatch --array=1-6 examples/slurm/sweep.sh --model lenet5 --lr 0.1,0.03 --seed 1..3 --out runs/lr
#     build/qgrad runs runs/lr                                                             shows the results
#SBATCH --job-name=qgrad-sweep
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=4
#SBATCH --time=01:00:00
#SBATCH --requeue
# Two minutes before the limit, Slurm sends SIGTERM to the training; it finishes its step and writes a checkpoint.
#SBATCH --signal=TERM@120
set -u
export OMP_NUM_THREADS="${SLURM_CPUS_PER_TASK:-1}"
if [ -z "${SLURM_ARRAY_TASK_ID:-}" ]; then
    echo "$0: submit it as a job array, as in sbatch --array=1-6 $0 .." >&2
    exit 2
fi
srun --ntasks=1 "${QGRAD:-build/qgrad}" sweep "$@" --array "$SLURM_ARRAY_TASK_ID"
status=$?
# 143: SIGTERM ended it, so this task waits for a node again and then goes on.
[ "$status" -ne 143 ] || scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
exit "$status"
