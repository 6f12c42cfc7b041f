#!/bin/sh
# make check-matrix: the tests under every compiler, sanitizer, instruction set, user, locale and number of cores that
# they must not depend on.  Prints a table and ends with "N passed, M failed", where N counts rows.
#     ROWS='gcc tsan nobody' sh tests/matrix.sh [BUILD]
# A row that this machine cannot run is skipped and says why; the logs are BUILD/matrix/ROW.log.
set -u
build=${1:-build}
every='gcc every clang compilers asan asan-clang tsan memcheck avx512 avx2 baseline sixteen aarch64 musl python api debian one-core nobody de_DE tr_TR other'
log=$build/matrix
passed=0 failed=0 scratch=
mkdir -p "$log"
trap 'rm -rf "$scratch"' EXIT
trap 'trap "" TERM; kill 0; exit 1' HUP INT TERM    # the rows that run beside, too

SANITIZERS='-fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=undefined,float-cast-overflow -fno-omit-frame-pointer'
# With -O2, compiling the kernels alone takes ten minutes, more than the tests gain from it.  Small frames: only lines of code are needed.
FLAGS='-O1 -g1'

skip() { echo "skipped: $*"; return 3; }
has() { command -v "$1" >/dev/null 2>&1; }
# digests BUILD: a few trainings, with kernels of each kind, end in the digests of tests/bits.txt.
some='twn ttq lsq-w4 fake-learned in-fake-learned-channel g-dorefa depthwise folded resnet20 adam'
digests() {
    kernels=${QGRAD_CPU:-$("$1/qgrad" --version | sed -n 's/^kernels *//p')}
    QGRAD=$1/qgrad OWN_NET=$1/tests/own_net CPUS=$kernels sh tests/bits.sh check $some
}
tests() { make --no-print-directory test && digests "$build"; }
# With other kernels, what computes with them is tested, but for tests that take the kernels of all instruction sets in turn
# anyway, and those of texts of nets and of memory.  That the command line trains with them, the digests show.
kernels() {
    QGRAD_CPU=$1 ROOMS='core quant layers optim infer train' \
        SKIP='test_fma test_conv_kernel test_dense_kernel test_depthwise_kernel test_kernels test_export test_evaluate
              test_canonical test_text test_heap test_exhausted' tests
}
# Tests with the compilers of this machine, in another build.
tests_in() { name=$1; shift; make --no-print-directory BUILD="$build/$name" "$@" test && digests "$build/$name"; }
# The tests that leave out combinations, with all of them; make check-c does so for nets in C.
every() {
    QGRAD_EVERY=1 ONLY=$(grep -lE 'every_combination|QGRAD_EVERY' tests/*/test_*.c tests/checks/*.sh | grep -v test_export_c |
        sed 's,.*/,,; s,\..*,,' | tr '\n' ' ') make --no-print-directory test
}
# sanitized NAME LESS VARIABLES..: without the tests LESS.  Three checks look at the speed and the output of programs that other
# tests run under the sanitizers as well.
sanitized() {
    name=$1 less=$2; shift 2
    SKIP="check_bench check_course check_nets $less" make --no-print-directory BUILD="$build/$name" CFLAGS="$FLAGS" "$@" test
}
# Every compiler, without and with each optimization, ends in the same digests.
compilers() {
    has clang || { skip 'no clang'; return; }
    for cc in gcc clang; do
        for level in 1 2 3; do
            at=$build/$cc-O$level
            make --no-print-directory -j"$(getconf _NPROCESSORS_ONLN)" BUILD="$at" CC=$cc CFLAGS=-O$level "$at/qgrad" "$at/tests/own_net" &&
                digests "$at" || return 1
        done
    done
}
cpu_has() { grep -qw "$1" /proc/cpuinfo 2>/dev/null; }

# in_locale NAME COMMAND..: makes the locale first, in a directory of its own, so that none has to be installed.
in_locale() {
    locale=$1; shift
    has localedef || { skip 'no localedef'; return; }
    [ -e "/usr/share/i18n/locales/$locale" ] || { skip "no definition of $locale (Debian: locales)"; return; }
    mkdir -p "$log/locale"
    [ -d "$log/locale/$locale.UTF-8" ] || localedef -i "$locale" -f UTF-8 "$log/locale/$locale.UTF-8" || return 1
    LOCPATH=$(cd "$log/locale" && pwd) LC_ALL=$locale.UTF-8 LANG=$locale.UTF-8 "$@"
}

# A copy, since another user may neither write here nor read the directories above.
as_nobody() {
    [ "$(id -u)" = 0 ] || { skip 'only root can become another user, and all other rows run as one'; return; }
    has setpriv || { skip 'no setpriv'; return; }
    scratch=$(mktemp -d) && chmod 755 "$scratch" || return 1
    git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -p -t "$scratch" || return 1
    [ ! -d "$build" ] || { mkdir -p "$scratch/build" && tar -C "$build" --exclude=./matrix --exclude=./test-log -cf - \
        ./core ./quant ./layers ./optim ./datasets ./infer ./cli ./tools ./tests ./examples ./qgrad ./qgrad-bench ./qgrad-results ./libqgrad.a ./libqgrad_infer.a ./cifar_sheets ./commit ./flags ./prefix ./train |
        tar -C "$scratch/build" -xf -; } || return 1
    chown -R nobody "$scratch"
    (cd "$scratch" && setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups env HOME="$scratch" "$@")
    status=$?
    rm -rf "$scratch"
    return $status
}

one_core() { has taskset || { skip 'no taskset'; return; }; taskset -c 0 "$@"; }

# A training, its resume, and steps of two larger nets.  OpenBLAS and the libraries below it keep what they allocated, so
# only what is lost counts.  With its variable set, the program does not restart itself, which valgrind would not follow.
memcheck() {
    has valgrind || { skip 'no valgrind'; return; }
    make --no-print-directory -j"$(getconf _NPROCESSORS_ONLN)" BUILD="$build" all || return 1
    scratch=$(mktemp -d) || return 1
    vg() {
        OPENBLAS_NUM_THREADS=1 valgrind -q --error-exitcode=9 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
            "$build/qgrad" "$@"
    }
    { vg train --model tfc --data sample --epochs 2 --budget 1s --threads 2 --out "$scratch/run" || [ $? = 3 ]; } &&
    vg train --resume --out "$scratch/run" --threads 2 &&
    vg eval --run "$scratch/run" --best &&
    vg inspect --run "$scratch/run" &&
    vg bench train --model resnet20 --image 32x32x3 --batch 3 --weight ttq --input dorefa:bits=2 --optimizer adam \
        --lr 0.001 --seconds 1 --threads 2 &&
    vg bench train --model lenet5 --data sample --batch 5 --weight twn --input fake_quant:range=learned \
        --seconds 1 --threads 2
    status=$?
    rm -rf "$scratch"
    return $status
}

# examples/tiny.c prints the same with another compiler, on images of noise: tiny_on NAME CC [EMULATOR..].
tiny_on() {
    at=$log/$1 cross=$2; shift 2
    native=-march=native
    head -c $((16 + 50 * 784)) datasets/sample/train.png >"$at/train-images-idx3-ubyte"
    LC_ALL=C tr -dc '\000-\011' <datasets/sample/train.png | head -c $((8 + 50)) >"$at/train-labels-idx1-ubyte"
    tiny_by() { "$@" -std=c11 -O2 -ffp-contract=off -o "$at/tiny" examples/tiny.c -lm; }
    tiny_by cc $native && here=$("$at/tiny" "$at" 2 ttq) || return 1
    [ $# -eq 0 ] || native=
    tiny_by "$cross" $native && there=$("$@" "$at/tiny" "$at" 2 ttq) || return 1
    [ "$here" = "$there" ] || { echo "examples/tiny.c: error: prints $there, not $here"; return 1; }
}

# All sources of the library compile with another compiler, the tests of the engine and of exp, log, .. run, and
# examples/tiny.c is the same: engine_on NAME CC CFLAGS [EMULATOR..].  What the headers of other libraries declare does not depend
# on the system, so those of this one serve; tests/support/small has what the tests need of cmocka.
engine_on() {
    name=$1 cross=$2 flags=$3; shift 3
    has "$cross" || { skip "no $cross"; return; }
    [ $# -eq 0 ] || has "$1" || { skip "no $1"; return; }
    mkdir -p "$log/$name/include"
    for header in png.h pngconf.h pnglibconf.h jpeglib.h jmorecfg.h jerror.h jconfig.h cblas.h openblas_config.h zlib.h zconf.h stb; do
        at=$(echo "#include <$header>" | cc $(pkg-config --cflags-only-I openblas) -M -x c - 2>/dev/null | tr ' ' '\n' | grep "/$header\$" | head -n 1)
        [ "$header" != stb ] || at=/usr/include/stb
        [ -z "$at" ] || ln -sf "$at" "$log/$name/include/"
    done
    tests_of_engine=$(for f in tests/infer/test_*.c tests/core/test_functions.c; do echo "$build/$name/${f%.c}"; done)
    make --no-print-directory -j"$(getconf _NPROCESSORS_ONLN)" CC="$cross" CFLAGS="$flags" BUILD="$build/$name" WERROR=-Werror BLAS_INC= \
        CPPFLAGS="-Itests/support/small -isystem $log/$name/include" CMOCKA= "$build/$name/libqgrad.a" "$build/$name/libqgrad_infer.a" $tests_of_engine || return 1
    for program in $tests_of_engine; do "$@" "$program" || return 1; done
    tiny_on "$name" "$cross" "$@"
}

aarch64() { engine_on aarch64 aarch64-linux-gnu-gcc '-O3 -g0' qemu-aarch64 -L "${SYSROOT:-/usr/aarch64-linux-gnu}"; }
musl() { engine_on musl musl-gcc '-O1 -g0 -Wno-maybe-uninitialized'; }       # of which -O1 has false alarms

# The Python package against NumPy's formulas and the command line.
python() {
    python=${PYTHON:-/usr/bin/python3}
    "$python" -c 'import numpy' 2>/dev/null || { skip "no NumPy for $python"; return; }
    make --no-print-directory -j"$(getconf _NPROCESSORS_ONLN)" BUILD="$build" all || return
    for t in package mistakes; do QGRAD_LIB="$build" "$python" "tests/python/test_$t.py" "$build/qgrad" || return; done
}

api() {
    has doxygen || { skip 'no doxygen'; return; }
    make --no-print-directory docs-api
}

# The packages build, and lintian finds no error.
debian() {
    has dpkg-buildpackage || { skip 'no dpkg-buildpackage (Debian: devscripts)'; return; }
    has lintian || { skip 'no lintian'; return; }
    scratch=$(mktemp -d) || return 1
    git clone -q . "$scratch/qgrad" && (cd "$scratch/qgrad" && dpkg-buildpackage -us -uc -b) && lintian --fail-on error "$scratch"/*.changes
    status=$?
    rm -rf "$scratch"
    return $status
}

row() {
    case $1 in
    gcc)        tests ;;
    every)      every ;;
    clang)      has clang || { skip 'no clang'; return; }   # what is in cli and checks, the row asan-clang runs
                ROOMS='core quant layers optim datasets train infer' tests_in clang CC=clang ;;
    asan)       sanitized asan 'check_examples test_cli_tiny' SANITIZE="$SANITIZERS" ;;     # a fifth of the time; asan-clang runs them
    asan-clang) has clang || { skip 'no clang'; return; }; sanitized asan-clang '' CC=clang SANITIZE="$SANITIZERS" ;;
    tsan)       sanitized tsan '' SANITIZE=-fsanitize=thread ;;
    memcheck)   memcheck ;;
    avx512)     cpu_has avx512bw || { skip 'this CPU has no AVX-512'; return; }; kernels avx512 ;;
    avx2)       cpu_has avx2 || { skip 'this CPU has no AVX2'; return; }
                cpu_has avx512bw || { skip 'this CPU has no AVX-512, so all other rows use AVX2'; return; }
                kernels avx2 ;;
    baseline)   kernels baseline ;;
    sixteen)    cpu_has avx2 || { skip 'this CPU has no AVX2'; return; }
                QGRAD_CPU=avx2 tests_in sixteen ISA_avx2='-mavx2 -mfma -DQG_SIXTEEN_LANES -Wno-psabi' ;;
    aarch64|musl|python|api|debian|compilers) "$1" ;;
    one-core)   one_core make --no-print-directory test ;;
    nobody)     as_nobody make --no-print-directory test ;;
    de_DE|tr_TR) in_locale "$1" make --no-print-directory test ;;
    other)      ROOMS='core datasets train cli checks' in_locale tr_TR as_nobody taskset -c 0 make --no-print-directory test ;;
    *)          echo "no row '$1'; available: $every"; return 2 ;;
    esac
}

# Runs rows in turn.  What a row prints last, and its status, are in files, since a lane is a process of its own.
lane() {
    for name; do
        began=$(date +%s)
        row "$name" >"$log/$name.log" 2>&1
        status=$?
        said=$(grep -E '^(skipped: .*|[0-9]+ passed, [0-9]+ failed|no row .*)$' "$log/$name.log" | tail -n 1)
        [ "$status" -eq 0 ] || [ "$status" -eq 3 ] || said="FAILED: ${said:-see $log/$name.log}"
        printf '%-12s %5d s  %s\n' "$name" $(($(date +%s) - began)) "${said:-passed}"
        [ "$status" -eq 0 ] || [ "$status" -eq 3 ] || tail -n 40 "$log/$name.log"
        echo "$status" >"$log/$name.status"
    done
}

# Rows that use one core most of the time, and not the log of the tests in BUILD, run beside the others.
make --no-print-directory -j"$(getconf _NPROCESSORS_ONLN)" BUILD="$build" all examples test-programs >"$log/build.log" 2>&1 ||
    { tail -n 40 "$log/build.log"; exit 1; }
wide= narrow=
for name in ${ROWS:-$every}; do
    rm -f "$log/$name.status"
    case $name in
    memcheck | aarch64 | musl | python | api | debian | other) narrow="$narrow $name" ;;
    *) wide="$wide $name" ;;
    esac
done
(trap 'rm -rf "$scratch"' EXIT; trap 'exit 1' HUP TERM; lane $narrow) &
lane $wide
wait
for name in ${ROWS:-$every}; do
    case $(cat "$log/$name.status" 2>/dev/null) in
    0) passed=$((passed + 1)) ;;
    3) ;;
    *) failed=$((failed + 1)) ;;
    esac
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
