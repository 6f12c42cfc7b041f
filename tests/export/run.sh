#!/bin/sh
# Nets of every scheme, model and kind of layer as ONNX, in ONNX Runtime and onnxruntime-web, compared with the
# engine; writes the tables of docs/export.md.
#     sh tests/export/run.sh BUILD [IMAGES]
# The environment is made in BUILD/export when it is missing: it needs python3 with venv, pip, node, npm and the network.
set -e
dir=$1/export
if [ ! -x "$dir/bin/python" ]; then
    python3 -m venv "$dir"
    "$dir/bin/pip" install --quiet numpy onnx onnxruntime
fi
if [ ! -d "$dir/web/node_modules/onnxruntime-web" ]; then
    mkdir -p "$dir/web"
    (cd "$dir/web" && npm install --silent --ignore-scripts onnxruntime-web)
fi
"$dir/bin/python" -u tests/export/compare.py "$@"
