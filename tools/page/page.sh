#!/bin/sh
# make page RUN=DIR: a page in which the net of a run reads what one draws (page.html), as one file.
#     sh tools/page/page.sh BUILD RUN
set -eu
build=$1 run=$2 dir=$1/page
fail() { echo "make page: $*" >&2; exit 1; }
for tool in clang wasm-ld; do command -v $tool >/dev/null || fail "$tool is not installed (Debian: clang and lld)"; done
mkdir -p "$dir"
"$build/qgrad" export --run "$run" --to c --out "$dir/net.c" >/dev/null
grep -q 'NET_CHANNELS = 1,' "$dir/net.c" || fail "the net of $run reads images of several channels, but the page draws in grey"
clang --target=wasm32 -std=c99 -O2 -Wall -Wextra -nostdlib -fno-builtin -DNET="\"$(cd "$dir" && pwd)/net.c\"" -Wl,--no-entry -Wl,--strip-all \
    -Wl,-z,stack-size=16384 -o "$dir/net.wasm" tools/page/page.c
base64 <"$dir/net.wasm" | tr -d '\n' >"$dir/net.base64"
awk -v net="$dir/net.base64" '{ at = index($0, "@WASM@"); if (!at) { print; next }
    getline wasm <net; print substr($0, 1, at - 1) wasm substr($0, at + 6) }' tools/page/page.html >"$dir/page.html"
echo "$dir/page.html: $(($(wc -c <"$dir/page.html"))) bytes"
