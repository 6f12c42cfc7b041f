#!/bin/sh
# The public headers are those that qgrad.h names.  Each compiles alone and includes only public ones; `make install`
# installs these and no others; and a user's program compiles against them with the strictest flags, as C11 and C++17,
# and runs.
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cc=${CC:-cc}
build=${BUILD:-build}
strict='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror'
status=0
fail() { echo "error: $*"; status=1; }

public=$(sed -n 's/^#include "\(.*\)"$/\1/p' qgrad.h)
for header in $public; do
    for included in $(sed -n 's/^#include "\(.*\)".*/\1/p' "$header"); do
        echo "$public" | grep -qx "$included" || fail "$header includes $included, which qgrad.h does not"
    done
    printf '#include "%s"\nextern int unused;\n' "$header" >"$dir/alone.c"
    $cc -std=c11 $strict -I. -fsyntax-only "$dir/alone.c" || fail "$header does not compile alone"
done

stage=$dir/stage
make -s install-files BUILD="$build" DESTDIR="$stage" PREFIX=/opt/qgrad >"$dir/log" 2>&1 || fail "make install: $(cat "$dir/log")"
include=$stage/opt/qgrad/include/qgrad
[ "$(cd "$include" && find . -type f | sed 's,^\./,,' | sort)" = "$(printf '%s\n' qgrad.h $public | sort)" ] ||
    fail "make install installs other headers than qgrad.h names: $(cd "$include" && find . -type f)"

cat >"$dir/user.c" <<'C'
#include "qgrad.h"

int main(void)
{
    const qg_net_spec spec = { 1, 1, 1, 0, false, 0, 0, 0 };
    qg_net           *net  = qg_net_new(spec);
    qg_net_relu(net);
    const int failed = qg_net_build(net) ? 0 : qg_report("user");
    qg_net_free(net);
    return failed;
}
C
if command -v pkg-config >/dev/null; then
    export PKG_CONFIG_PATH="$stage/opt/qgrad/lib/pkgconfig"
    config() { pkg-config --define-variable=prefix="$stage/opt/qgrad" "$1" qgrad; }
    # With SANITIZE, since a library with sanitizers cannot be linked without them.
    $cc -std=c11 $strict $(config --cflags) $SANITIZE -o "$dir/user" "$dir/user.c" $(config --libs) && "$dir/user" ||
        fail "a program with qgrad.h does not compile, link or run as C11"
fi
if command -v "${CXX:-c++}" >/dev/null; then
    "${CXX:-c++}" -std=c++17 $strict -I"$include" -x c++ -c -o "$dir/cc.o" "$dir/user.c" &&
        nm -u "$dir/cc.o" | grep -q ' qg_net_build$' || fail 'qgrad.h does not compile as C++17'
fi
exit $status
