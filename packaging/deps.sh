#!/bin/sh
# deps.sh: installs what is missing for building and testing, with apt-get, or says what to install.  Prints nothing if
# everything is there.  CHECK=1 adds what make check needs.  CC and BLAS_LIB are those of the Makefile.
#     deps.sh fuzz    only tells whether clang can build fuzz targets
CC=${CC:-cc} CHECK=${CHECK:-}
has() { command -v "$1" >/dev/null 2>&1; }

fuzzes() { printf 'int LLVMFuzzerTestOneInput(void) { return 0; }\n' | clang -fsanitize=fuzzer,address,undefined -x c -o /dev/null - 2>/dev/null; }

builds() {
    $CC $(pkg-config --cflags-only-I openblas 2>/dev/null) -x c -o /dev/null - ${BLAS_LIB:--lopenblas} -lpng -ljpeg -lz -lcmocka -lcjson 2>/dev/null <<'C'
#include <cblas.h>
#if __has_include(<stb/stb_image.h>)
#include <stb/stb_image.h>
#else
#include <stb_image.h>
#endif
#include <stdio.h>
#include <jpeglib.h>
#include <png.h>
#include <zlib.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <cjson/cJSON.h>
int main(void) { return openblas_get_num_threads() < 0 || !*zlibVersion() || !png_access_version_number() || !jpeg_std_error(0); }
C
}

checks() { [ ! "$CHECK" ] || { fuzzes && { ! has apt-get || { has chromium && has python3 && has valgrind && has localedef && has mpirun && pkg-config --exists mpi-c; }; }; }; }

# Installs Debian packages, for all of which there is one message.
install() {
    update="${sudo}apt-get update -qq"
    install="${sudo}env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $*"
    if [ "$sudo" ] && ! has sudo; then
        printf '%s\n' "Some packages that qgrad needs are missing, and there is no sudo.  Install them as root with" "  ${update#sudo }" "  ${install#sudo }"
        exit 1
    fi
    printf '%s\n' "Some packages that qgrad needs are missing.  Installing them with" "  $update" "  $install"
    $update && $install >/dev/null
}

# Without these, make check skips what needs them, so each is installed if it can be.
install_more() {
    for program in musl-gcc aarch64-linux-gnu-gcc qemu-aarch64 cmake doxygen groff; do has $program || missing=$program; done
    /usr/bin/python3 -c 'import numpy, torch, ensurepip, nbclient, ipykernel, matplotlib' >/dev/null 2>&1 || missing=torch
    [ "$missing" ] || return 0
    set -- shellcheck musl-tools gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user cmake doxygen python3-numpy python3-torch python3-venv groff-base \
        python3-nbclient python3-ipykernel python3-matplotlib
    echo "make check would run more checks with $*.  Installing them"
    for package; do
        ${sudo}env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $package >/dev/null 2>&1 ||
            echo "  $package cannot be installed here"
    done
}

if [ "${1:-}" = fuzz ]; then fuzzes; exit; fi
missing='' sudo=''
[ "$(id -u)" = 0 ] || sudo='sudo '
if ! { builds && checks; }; then
    if ! has apt-get; then
        more=${CHECK:+ clang compiler-rt}
        echo "qgrad needs a C compiler, OpenBLAS, libpng, libjpeg-turbo, stb, zlib, cmocka and cJSON${CHECK:+; make check needs clang with compiler-rt}.  Install one of"
        echo "  dnf install gcc make pkgconf-pkg-config openblas-devel libpng-devel libjpeg-turbo-devel stb_image-devel zlib-devel libcmocka-devel cjson-devel curl$more"
        echo "  pacman -S base-devel openblas libpng libjpeg-turbo stb zlib cmocka cjson curl$more"
        echo "  brew install pkg-config openblas libpng jpeg-turbo zlib cmocka cjson   (and stb_image.h in the include path)"
        exit 1
    fi
    install build-essential pkg-config libopenblas-dev libpng-dev libjpeg-dev libstb-dev zlib1g-dev libcmocka-dev libcjson-dev curl ca-certificates \
        ${CHECK:+clang libclang-rt-dev valgrind locales chromium python3 libopenmpi-dev openmpi-bin} || exit
fi
[ ! "$CHECK" ] || ! has apt-get || install_more
