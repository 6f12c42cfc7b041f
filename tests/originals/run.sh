#!/bin/sh
# run.sh DIR LIBRARY [OPTION..]: check.py in the Python environment DIR, which is made first if it is not
# there or not finished.  An environment that somebody else made is taken as it is.  PYTHON (python3) makes it;
# TensorFlow 2.15 wants 3.9 to 3.11.
dir=$1 library=$2
shift 2
here=$(dirname "$0")
wanted=$here/requirements.txt
python=${PYTHON:-python3}
command -v "$python" >/dev/null || { echo "no $python: nothing was compared"; exit 0; }

install() {
    echo "installing the originals into $dir: several gigabytes and minutes"
    mkdir -p "$dir" && : >"$dir/unfinished" || return
    "$python" -m venv "$dir" || return
    PIP_DISABLE_PIP_VERSION_CHECK=1
    export PIP_DISABLE_PIP_VERSION_CHECK
    "$dir/bin/python3" -m pip install -q -r "$wanted" >"$dir/pip.log" 2>&1 && cp "$wanted" "$dir/installed.txt" &&
        rm "$dir/unfinished" && return
    while read -r package; do           # whatever can be had
        "$dir/bin/python3" -m pip install -q "$package" >>"$dir/pip.log" 2>&1 ||
            echo "cannot be installed: $package ($dir/pip.log says why)"
    done <"$wanted"
}

if [ ! -x "$dir/bin/python3" ] || [ -e "$dir/unfinished" ] ||
    { [ -e "$dir/installed.txt" ] && ! cmp -s "$wanted" "$dir/installed.txt"; }; then
    install || echo "cannot make a Python environment in $dir"
fi
[ -x "$dir/bin/python3" ] && python=$dir/bin/python3
exec "$python" "$here/check.py" --library "$library" "$@"
