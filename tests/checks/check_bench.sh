#!/bin/sh
# tests/bench.py and tests/bench_infer.py measure a row, with and without a peer, and give the reason if something cannot be measured.
build=${BUILD:-build}
python=${PYTHON:-/usr/bin/python3}
[ -x "$python" ] || { echo "no $python: not checked"; exit 0; }
report=$build/tests/bench.md
rm -f "$report"
QGRAD_CPU=none QGRAD_PRODUCTS=none OPENBLAS_CORETYPE=none "$python" tests/bench.py --no-peer --busy --rounds 1 --seconds 0.01 \
    --rows '^LeNet-5 TWN$' --sections table,quantized,forward,batch,threads,program,beside --beside "${QGRAD:-$build/qgrad}" --qgrad "${QGRAD:-$build/qgrad}" \
    --data-dir /nowhere --out "$report" >/dev/null || { echo "bench.py: error: exit status $?"; exit 1; }
status=0
for part in '^| LeNet-5 TWN, 64 | [1-9][0-9]* |' '^| LeNet-5 TWN, 64 | 2.3 / 1.8 | 2.7 / 2.1 | 4 | 5 |' \
    '^| LeNet-5 TWN, 64 | [0-9.]* |$' '^| 2 | [1-9][0-9]* |' '1 thread | 2 threads' '^`qgrad --version` takes [0-9.]* ms' \
    '^| images/s at batch | 1 | 8 |' "commit $("${QGRAD:-$build/qgrad}" --version | sed -n 's/^commit *//p'),"; do
    grep -q "$part" "$report" || { echo "$report: error: no line with '$part'"; status=1; }
done
# A Python whose PyTorch has no compiler, and is fastest with channels_last.
peer=$build/tests/fake_peer
cat > "$peer" <<'END'
#!/bin/sh
[ "$1" = -c ] && { echo 9.8 1; exit; }
case "$*" in *--compile*) echo no compiler >&2; exit 1 ;; *--channels-last*) speed=600 ;; *) speed=500 ;; esac
echo '{}'
while read -r _; do echo "{\"images_per_second\": $speed, \"cpu_seconds\": 0, \"peak_rss_bytes\": 1048576}"; done
END
chmod +x "$peer"
"$python" tests/bench.py --peer "$peer" --peer /nowhere/python --busy --rounds 1 --seconds 0.01 --rows '^LeNet-5 TWN$' \
    --sections table,forward --qgrad "${QGRAD:-$build/qgrad}" --data-dir /nowhere --out "$report" > "$report.log" 2>&1 ||
    { echo "bench.py: error: exit status $? beside a peer"; status=1; }
for part in '| PyTorch 9.8 | its mode | x | bar |' '^| LeNet-5 TWN, 64 | [0-9]* | 600 | channels_last | [0-9.]* |' \
    '^| LeNet-5 TWN, 64 | PyTorch 9.8 | default | 500 | [0-9.]* |' '^| LeNet-5 TWN, 64 | [0-9]* | 600 | channels_last | [0-9]* |' \
    '^- LeNet-5 TWN, memory: 0.0[0-9]*, floor 4$' \
    '^| LeNet-5 TWN, 64 | PyTorch 9.8 | compile, channels_last | not measured: no compiler |'; do
    grep -q "$part" "$report" || { echo "$report: error: no line with '$part'"; status=1; }
done
grep -q '/nowhere/python has no PyTorch' "$report.log" || { echo "bench.py: error: a peer is missing and nothing says so"; status=1; }
"$python" tests/bench.py --no-peer --busy --rounds 1 --seconds 0.01 --rows '^LeNet-5 float$' --sections table \
    --qgrad /bin/false --out "$report" 2>&1 | grep -q 'bench.py: exit status 1' ||
    { echo "bench.py: error: a program that fails goes unnoticed"; status=1; }
# The engine beside peers that answer at once, and without any.
cat > "$peer" <<'END'
#!/bin/sh
case "$*" in *--list) echo '{"versions": {"onnxruntime": "9.8"}, "peers": ["onnxruntime-float", "onnxruntime-int8", "pytorch-slow", "pytorch-fast"]}'; exit ;; esac
case "$*" in *slow) speed=1 ;; *fast) speed=2 ;; *) speed=3 ;; esac
echo '{}'
while read -r _; do echo "{\"images_per_second\": $speed, \"median_us\": 1, \"p99_us\": 1}"; done
END
infer() {
    "$python" tests/bench_infer.py --busy --rounds 1 --seconds 0.01 --sections nets --nets LeNet-5 --cases 1x1 \
        --qgrad "${QGRAD:-$build/qgrad}" --out "$report" "$@" > "$report.log" 2>&1 || { echo "bench_infer.py: error: exit status $?"; status=1; }
}
infer --peer "$peer"
for part in '^| float | [0-9,]* | [1-9][0-9]* |' '^| int8, all | [0-9,]* | [1-9][0-9]* |' '^| pytorch-fast |  | 2 |' \
    '| float, batch 1, 1 | onnxruntime-int8, batch 1, 1 | pytorch-fast, batch 1, 1 | bar |' 'onnxruntime 9.8' \
    '^| W1A2 | `--weight dorefa:bits=1 --input dorefa:bits=2` |'; do
    grep -q "$part" "$report" || { echo "$report: error: no line with '$part'"; status=1; }
done
infer --peer /nowhere/python
grep -q 'no peers: make infer-peers' "$report" || { echo "bench_infer.py: error: peers are missing and nothing says so"; status=1; }
exit $status
