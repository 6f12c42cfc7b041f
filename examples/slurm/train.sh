#!/bin/sh
# One training on several nodes, with one rank per node.  It ends in the same bytes however often it is interrupted and on
# whatever number of nodes it goes on: 1, 2, 4, 8 or 16.
#     sbatch --nodes 4 examples/slurm/train.sh --model resnet20 --data cifar10 --weight ttq --out runs/resnet20-ttq
#SBATCH --job-name=qgrad
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=04:00:00
#SBATCH --requeue
# Two minutes before the limit, Slurm sends SIGTERM to the ranks; they finish their step and rank 0 writes a checkpoint.
#SBATCH --signal=TERM@120
set -u
export OMP_NUM_THREADS="${SLURM_CPUS_PER_TASK:-1}"
# Clusters whose Slurm knows MPI start ranks with `srun`; elsewhere mpirun finds the nodes itself.
srun --mpi="${SLURM_MPI_TYPE:-pmix}" "${QGRAD_MPI:-build/qgrad-mpi}" train --resume "$@"
status=$?
# 143: SIGTERM ended it, so the job waits for nodes again and then goes on.
[ "$status" -ne 143 ] || scontrol requeue "$SLURM_JOB_ID"
exit "$status"
