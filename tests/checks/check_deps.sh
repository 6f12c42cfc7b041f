#!/bin/sh
# `make test` says at once what it has to install, and how, before it does so; without sudo, another user than root is told.
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
status=0
make=$(command -v make)
tool() { printf '#!/bin/sh\n%s\n' "$2" >"$dir/$1" && chmod +x "$dir/$1"; }
# expect NAME TEXT: what make test said as NAME contains the text.
expect() { grep -qF "$2" "$dir/$1" || { echo "error: make test $1: no '$2' in: $(cat "$dir/$1")"; status=1; }; }

# Nothing else is in the path, and no program compiles.
tool cc 'exit 1'
tool apt-get 'echo "apt-get $*" >&2; exit 1'
tool id 'echo 1000'
try() { PATH=$dir MAKEFLAGS= "$make" -s test CC=cc BUILD="$dir/build" >"$dir/$1" 2>&1 && { echo "error: make test $1 succeeds"; status=1; }; }

try without-sudo
expect without-sudo 'there is no sudo.  Install them as root with'
expect without-sudo '  apt-get update -qq'
tool sudo 'echo "called: sudo $*" >&2; exit 1'
try with-sudo
expect with-sudo 'Some packages that qgrad needs are missing.  Installing them with'
expect with-sudo '  sudo apt-get update -qq'
expect with-sudo 'called: sudo apt-get update -qq'
tool id 'echo 0'
try as-root
expect as-root 'apt-get update -qq'
[ ! -e "$dir/build/core" ] || { echo "error: make test builds before it has installed what is missing"; status=1; }
exit $status
