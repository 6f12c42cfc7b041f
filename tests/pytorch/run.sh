#!/bin/sh
# run.sh DIR BUILD: check.py in the Python environment DIR, which is made first if it is not there: the packages of PYTHON
# (/usr/bin/python3, with Debian's python3-torch), and safetensors.  Says why if there can be none.
dir=$1 build=$2
python=${PYTHON:-/usr/bin/python3}
skip() { echo "nothing was compared with PyTorch: $*"; exit 0; }
"$python" -c 'import numpy, torch' 2>/dev/null || skip "$python has none (python3-torch)"
[ -x "$dir/bin/python3" ] || "$python" -m venv --system-site-packages "$dir" >/dev/null || skip "no environment in $dir (python3-venv)"
"$dir/bin/python3" -c 'import safetensors.torch' 2>/dev/null ||
    "$dir/bin/python3" -m pip install -q --disable-pip-version-check 'safetensors>=0.4' || skip "safetensors cannot be installed"
QGRAD_LIB=$build exec "$dir/bin/python3" "$(dirname "$0")/check.py" "$build/qgrad"
