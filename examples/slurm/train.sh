#!/bin/sh
# One training on several nodes, with one rank per node.  Submit it again until it is done: it goes on from its checkpoint,
# also with another number of nodes (1, 2, 4, 8 or 16), and ends in the same bytes.
#     sbatch --nodes 4 examples/slurm/train.sh --model resnet20 --data cifar10 --weight ttq --out runs/resnet20-ttq
#SBATCH --job-name=qgrad
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=04:00:00
# Two minutes before the limit, Slurm sends SIGTERM to the ranks; they finish their step and rank 0 writes a checkpoint.
#SBATCH --signal=TERM@120
set -eu
export OMP_NUM_THREADS="${SLURM_CPUS_PER_TASK:-1}"
# Clusters whose Slurm knows MPI start ranks with `srun`; elsewhere mpirun finds the nodes itself.
exec srun --mpi="${SLURM_MPI_TYPE:-pmix}" "${QGRAD_MPI:-build/qgrad-mpi}" train --resume "$@"
