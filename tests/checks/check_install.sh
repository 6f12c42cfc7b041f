#!/bin/sh
# `make install` installs what a program needs: into a staging directory, whose name may need quotes, and which is then moved.  Two programs are built against
# it, by pkg-config and by CMake, one of them in C++; the installed qgrad finds its recipes and its sample from another
# directory; and `make uninstall` removes everything.
export LC_ALL=C
cc=${CC:-cc}
cxx=${CXX:-c++}
build=${BUILD:-build}
case $build in /*) ;; *) build=$(pwd)/$build ;; esac
here=$(pwd)
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
status=0
fail() { echo "error: $*"; status=1; }
has() { command -v "$1" >/dev/null 2>&1; }
unset QGRAD_SHARE
strict='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror'
make() { MAKEFLAGS= command make -s BUILD="$build" PREFIX=/opt/qgrad "$@" >"$dir/log" 2>&1 || fail "make $*: $(cat "$dir/log")"; }

# What a shell would interpret in a prefix is refused before anything is made or removed.
echo kept >"$dir/v"
for prefix in "$dir/v it" "$dir/v'it" "$dir/v\"it" "$dir/v;it" "$dir/v#it"; do
    for target in all install-files uninstall; do
        (MAKEFLAGS= command make -s BUILD="$dir/none" PREFIX="$prefix" $target 2>&1) | grep -q '\*\*\* PREFIX and LIBDIR may not contain' ||
            fail "make $target with the prefix $prefix is not refused"
    done
done
[ "$(ls "$dir")" = v ] && [ "$(cat "$dir/v")" = kept ] || fail "make with a refused prefix has left $(ls "$dir")"
(MAKEFLAGS= HOME=$dir command make -n PREFIX='~/it' uninstall 2>&1) | grep -qF "$dir/it/bin/qgrad " || fail 'the prefix ~/it is not in the home'
(MAKEFLAGS= command make -n PREFIX=it/ install-files 2>&1) | grep -qF "'$(pwd)/it/bin " || fail 'the prefix it/ is not completed'

stage="$dir/it's a stage"
make install-files DESTDIR="$stage"
mv "$stage/opt/qgrad" "$dir/moved it"
root="$dir/moved it"
ln -s "moved it" "$dir/root"                    # pkg-config takes no spaces
lib=$dir/root/lib

# --- headers and symbols ---
public=$(sed -n 's/^#include "\(.*\)"$/\1/p' qgrad.h)
[ "$(cd "$root/include/qgrad" && find . -type f | sed 's,^\./,,' | sort)" = "$(printf '%s\n' qgrad.h infer/infer.h $public | sort)" ] ||
    fail "other headers are installed than qgrad.h names: $(cd "$root/include/qgrad" && find . -type f)"

# Functions whose names begin with qg__ are internal.  The compiler lists what the headers declare; only gcc does.
names() { sed -n 's,^/\* [^ ]*[/ ]include/qgrad/[^ ]* \*/ extern .*[ *]\(qg_[a-z0-9][a-zA-Z0-9_]*\) (.*,\1,p' | sort -u; }
if [ -e "$lib/libqgrad.so" ]; then
    exported=$(nm -D --defined-only "$lib/libqgrad.so" | awk 'NF == 3 && $2 !~ /A/ { print $3 }' | sed 's/@.*//' | sort)
    others=$(echo "$exported" | grep -v '^qg_[a-z0-9]')
    [ -z "$others" ] || fail "libqgrad.so exports $(echo $others)"
    printf '#include "qgrad.h"\n#include "infer/infer.h"\n' >"$dir/all.c"
    if $cc -std=c11 -I"$root/include/qgrad" -aux-info "$dir/all.txt" -fsyntax-only "$dir/all.c" 2>/dev/null && [ -s "$dir/all.txt" ]; then
        sed "s,$root/include,/include," "$dir/all.txt" | names >"$dir/declared"
        [ "$(wc -l <"$dir/declared")" -gt 300 ] || fail "found only $(wc -l <"$dir/declared") functions in the headers"
        echo "$exported" >"$dir/exported"
        lost=$(comm -23 "$dir/declared" "$dir/exported")
        [ -z "$lost" ] || fail "libqgrad.so lacks $(echo $lost), which headers declare"
    fi
    has readelf && { readelf -d "$lib/libqgrad.so" | grep -q 'SONAME.*\[libqgrad\.so\.[0-9]*\]' || fail 'libqgrad.so has no soname'; }
fi

# --- programs ---
cat >"$dir/user.c" <<'C'
#include <stdio.h>
#include "qgrad.h"

int main(void)
{
    const qg_net_spec spec = { 1, 1, 4, 0, false, 0, 0, 0, false, QG_INITIAL_GLOROT };
    qg_net           *net  = qg_net_new(spec);
    qg_net_relu(net);
    const int failed = qg_net_build(net) ? 0 : qg_print_error("user");
    qg_net_free(net);
    const char version[] = QGRAD_VERSION;
    if (!failed) puts(version);
    return failed;
}
C
cat >"$dir/engine.c" <<'C'
#include <stdio.h>
#include "infer/infer.h"

int main(void)
{
    size_t bytes = 1;
    return qg_infer_size("", 0, &bytes) == QG_INFER_OK || puts(qg_infer_message(QG_INFER_EFORMAT)) < 0;
}
C
# A program that loads a library, uses it and unloads it, again and again, as a plug-in host does.
cat >"$dir/host.c" <<'C'
#include <dlfcn.h>
#include <stdio.h>
#include "qgrad.h"
#include "infer/infer.h"

enum { CYCLES = 200, N = 4 * 16384 };      /* several blocks, so that the library starts threads */

static float x[N], y[N];

static int quantizes(void *library)
{
    qg_quantizer *(*parse)(const char *, qg_role, qg_shape);
    qg_status (*forward)(qg_quantizer *, qg_mode, const float *, float *);
    void (*end)(qg_quantizer *);
    void (*set_threads)(int);
    *(void **)&parse       = dlsym(library, "qg_quantizer_parse");
    *(void **)&forward     = dlsym(library, "qg_quantizer_forward");
    *(void **)&end         = dlsym(library, "qg_quantizer_free");
    *(void **)&set_threads = dlsym(library, "qg_set_threads");
    if (!parse || !forward || !end || !set_threads) return 0;
    set_threads(4);
    qg_quantizer *z    = parse("twn", QG_WEIGHT, (qg_shape){ 256, 2, 2, 64 });
    const int     done = z && !forward(z, QG_TRAIN, x, y);
    end(z);
    return done;
}

static int infers(void *library)
{
    qg_infer_status (*size)(const void *, size_t, size_t *);
    size_t bytes;
    *(void **)&size = dlsym(library, "qg_infer_size");
    return size && size("", 0, &bytes) == QG_INFER_EFORMAT;
}

int main(int argc, char **argv)
{
    for (int i = 0; i < N; i++) x[i] = (float)(i % 17) - 8;
    for (int i = 0; argc == 3 && i < CYCLES; i++) {
        void *training = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL), *engine = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
        if (!training || !engine || !quantizes(training) || !infers(engine) || dlclose(training) || dlclose(engine))
            return fprintf(stderr, "cycle %d: %s\n", i, dlerror()), 1;
    }
    return 0;
}
C
if [ -e "$lib/libqgrad.so" ]; then
    $cc -std=c11 $strict -I"$root/include/qgrad" $SANITIZE -o "$dir/host" "$dir/host.c" -ldl &&
        timeout 60 "$dir/host" "$lib/libqgrad.so" "$lib/libqgrad_infer.so" ||
        fail 'a program cannot load and unload the shared libraries many times'
fi
if has pkg-config; then
    export PKG_CONFIG_PATH="$lib/pkgconfig"
    config() { pkg-config --define-variable=prefix="$dir/root" "$@"; }
    # With SANITIZE, since a library with sanitizers cannot be linked without them.
    $cc -std=c11 $strict $(config --cflags qgrad) $SANITIZE -o "$dir/shared" "$dir/user.c" $(config --libs qgrad) &&
        [ "$(LD_LIBRARY_PATH="$lib" "$dir/shared")" = "$(config --modversion qgrad)" ] ||
        fail 'a program in C11 does not compile, link or run with the shared library'
    # The line of docs/installing.md, with which the program starts without further ado.
    line=$(sed -n 's/^    cc \(mine\.c .*pkg-config.*-rpath.*\)$/\1/p' docs/installing.md)
    mkdir "$dir/mine" && cp "$dir/user.c" "$dir/mine/mine.c"
    [ "$line" ] && (pkg_config() { command pkg-config --define-variable=prefix="$dir/root" "$@"; } && cd "$dir/mine" &&
        eval "$cc $SANITIZE $(echo "$line" | sed 's/pkg-config/pkg_config/g')" && ./mine >/dev/null) ||
        fail "docs/installing.md: cc $line: the program does not start"
    $cc -std=c11 $strict $(config --cflags qgrad) $SANITIZE -o "$dir/static" "$dir/user.c" "$lib/libqgrad.a" \
        $(config --static --libs qgrad | sed 's/ -lqgrad\( \|$\)/ /') && "$dir/static" >/dev/null ||
        fail 'a program in C11 does not compile, link or run with the static library'
    $cc -std=c11 $strict $(config --cflags qgrad_infer) $SANITIZE -o "$dir/engine" "$dir/engine.c" "$lib/libqgrad_infer.a" \
        $(config --static --libs qgrad_infer | sed 's/ -lqgrad_infer\( \|$\)/ /') && "$dir/engine" >/dev/null ||
        fail 'a program does not compile, link or run with libqgrad_infer.a'
else
    echo 'no pkg-config: no program built by it'
fi
if has "$cxx"; then
    for std in 11 14 17 20; do
        $cxx -std=c++$std $strict -I"$root/include/qgrad" -x c++ -fsyntax-only "$dir/user.c" || fail "qgrad.h does not compile as C++$std"
    done
fi
if has cmake && has "$cxx"; then
    mkdir "$dir/project"
    cp "$dir/user.c" "$dir/project/user.cc"
    cp "$dir/engine.c" "$dir/project"
    cat >"$dir/project/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.12)
project(outside C CXX)
set(CMAKE_CXX_STANDARD 11)
find_package(qgrad 0.2 REQUIRED)
add_executable(user user.cc)
target_link_libraries(user qgrad::qgrad)
add_executable(engine engine.c)
target_link_libraries(engine qgrad::qgrad_infer)
CMAKE
    { CC=$cc CXX=$cxx cmake -S "$dir/project" -B "$dir/project/out" -DCMAKE_PREFIX_PATH="$root" -DCMAKE_CXX_FLAGS="$SANITIZE" \
        -DCMAKE_C_FLAGS="$SANITIZE" && cmake --build "$dir/project/out" && "$dir/project/out/user" &&
        "$dir/project/out/engine"; } >"$dir/log" 2>&1 || fail "by CMake: $(cat "$dir/log")"
    finds() {           # whether CMake finds this version
        mkdir -p "$dir/project/$1" && printf '%s\n' 'cmake_minimum_required(VERSION 3.16)' 'project(finds C)' \
            "find_package(qgrad $1 REQUIRED)" >"$dir/project/$1/CMakeLists.txt" &&
            CC=$cc cmake -S "$dir/project/$1" -B "$dir/project/$1/out" -DCMAKE_PREFIX_PATH="$root" >/dev/null 2>&1
    }
    finds 0.2 || fail 'CMake does not find version 0.2'
    ! finds 99 || fail 'CMake takes this version for version 99'
else
    echo 'no cmake or no C++ compiler: no program built by CMake'
fi

# --- the program, from another directory ---
qgrad=$root/bin/qgrad
mkdir "$dir/elsewhere" && cd "$dir/elsewhere" || exit 1
"$qgrad" train --recipe bnn-pynq-tfc-1w1a --data sample --epochs 1 --out run >"$dir/log" 2>&1 && [ -s run/result.json ] ||
    fail "training from another directory: $(cat "$dir/log")"
"$qgrad" summary --config examples/recipes/demo.toml >/dev/null 2>"$dir/log" || fail "--config of an installed recipe: $(cat "$dir/log")"
"$qgrad" --version | grep -q "^share .*/moved it/share/qgrad" || fail "--version says $("$qgrad" --version)"
"$qgrad" train --recipe none 2>&1 | grep -q 'available: .*demo' || fail 'the available recipes are not those that are installed'
"$qgrad" train --model tfc --data mnist 2>&1 | grep -q "sh .*/share/qgrad/datasets/fetch.sh mnist fetches it" || fail 'no way to get MNIST is given'
QGRAD_SHARE=$dir "$qgrad" summary --recipe demo >/dev/null 2>&1 && fail 'QGRAD_SHARE is ignored'
QGRAD_SHARE=$here "$build/qgrad" summary --recipe demo >/dev/null 2>"$dir/log" || fail "QGRAD_SHARE=$here: $(cat "$dir/log")"
"$build/qgrad" summary --recipe demo >/dev/null 2>&1 && fail 'recipes are found although nothing is installed'
mkdir -p examples/recipes && echo 'model = "tfc"' >examples/recipes/demo.toml
"$qgrad" summary --recipe demo --json | grep -q '"model": *"tfc"' || fail 'a recipe of the working directory does not come first'
"$qgrad" bench peak 2>&1 | grep -q 'qgrad-bench: not found; it is not installed' || fail 'bench does not say that it is not installed'
cd "$here" || exit 1

if has groff; then
    groff -man -ww -z "$root/share/man/man1/qgrad.1" >"$dir/log" 2>&1
    [ ! -s "$dir/log" ] || fail "qgrad.1: $(head -5 "$dir/log")"
fi
grep -q '^.B .*\\-\\-quantize\\-after' "$root/share/man/man1/qgrad.1" || fail 'qgrad.1 lacks options'
if has bash; then
    completes() {
        bash -c 'compopt() { :; }; . "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _qgrad; echo "${COMPREPLY[*]}"' \
            bash "$root/share/bash-completion/completions/qgrad" "$@"
    }
    [ "$(completes qgrad quant)" = quantize ] || fail "completion of qgrad quant: $(completes qgrad quant)"
    [ "$(completes qgrad train --quantize-w)" = --quantize-weights-after ] || fail 'completion of an option'
    [ "$(completes qgrad train --weight tt)" = ttq ] || fail 'completion of a scheme'
    [ "$(completes qgrad bench pea)" = peak ] || fail 'completion of a benchmark'
fi

# --- uninstall ---
mv "$dir/moved it" "$stage/opt/qgrad"
make uninstall DESTDIR="$stage"
left=$(find "$stage" ! -type d; find "$stage" -type d -path '*qgrad/*qgrad*')
[ -z "$left" ] || fail "make uninstall leaves $left"
exit $status
