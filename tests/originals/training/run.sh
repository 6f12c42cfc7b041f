#!/bin/sh
# run.sh PYTHON PROGRAMS SEEDS: Larq's and Brevitas' examples against qgrad's programs, from the same weights.
python=$1 programs=$2 seeds=$3
[ -x "$python" ] || { echo "no $python with Larq and Brevitas"; exit 1; }
status=0
for script in "larq_mnist.py" "brevitas_mnist.py" "brevitas_mnist.py --eps 1e-4"; do
    "$python" tests/originals/training/$script --programs "$programs" --seeds "$seeds" || status=1
done
exit $status
