#!/bin/sh
# Opens the report of a short run in headless Chromium, at the widths of a desktop and of a phone: the page has its charts and
# pictures, logs no error, and is no wider than the window.  Then the page of the course (tests/staircase.py), and the page of
# the run's net (tests/drawn.py).  Part of `make check`.
#     sh tests/page.sh [BUILD]
set -eu
build=${1:-build}
browser=$(command -v chromium || command -v chromium-browser || true)
[ -n "$browser" ] || { echo "tests/page.sh: skipped: no chromium"; exit 0; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM

fail() { echo "tests/page.sh: error: $*"; exit 1; }

"$build/qgrad" train --model lenet5 --data sample --weight ttq --input dorefa:bits=2 --first-last quantized --epochs 2 --validation 10% \
    --out "$dir/run" >"$dir/out" 2>"$dir/err" || { cat "$dir/err"; fail "the run failed"; }

# The page itself has no scripts, so a copy gets one that measures it.
{
    cat "$dir/run/report.html"
    echo '<script>const d = document, all = s => [...d.querySelectorAll(s)];
        d.documentElement.dataset.measured = [d.documentElement.scrollWidth <= innerWidth, all("svg.qg path").length,
            all("svg.qg").length, all("img").length, all("img").filter(i => !i.naturalWidth).length].join(" ");</script>'
} >"$dir/measured.html"

# Nothing may be fetched, so the browser has no network at all; errors of the page are logged as CONSOLE.
for width in 1280 390; do
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync \
        --disable-component-update --proxy-server=127.0.0.1:9 --user-data-dir="$dir/profile" --window-size="$width",900 \
        --enable-logging=stderr --dump-dom "file://$dir/measured.html" >"$dir/dom" 2>"$dir/log" || fail "chromium failed at width $width"
    grep CONSOLE "$dir/log" && fail "the page logs errors at width $width"
    measured=$(sed -n 's/.*data-measured="\([^"]*\)".*/\1/p' "$dir/dom" | head -n 1)
    set -- $measured
    [ $# = 5 ] || fail "the page was not measured at width $width"
    [ "$1" = true ] || fail "the page is wider than a window of $width"
    [ "$2" -ge 100 ] && [ "$3" -ge 15 ] || fail "only $3 charts with $2 paths"
    [ "$4" -gt 0 ] && [ "$5" = 0 ] || fail "$5 of $4 pictures cannot be decoded"
    echo "tests/page.sh: width $width: $3 charts, $4 pictures, nothing logged"
done

command -v python3 >/dev/null || { echo "tests/staircase.py, tests/drawn.py: skipped: no python3"; exit 0; }
python3 tests/staircase.py "$build" "$browser"

command -v clang >/dev/null && command -v wasm-ld >/dev/null || { echo "tests/drawn.py: skipped: no clang or wasm-ld"; exit 0; }
sh tools/page/page.sh "$build" "$dir/run" >/dev/null || fail "make page failed"
python3 tests/drawn.py "$build" "$browser" "$dir/run"
