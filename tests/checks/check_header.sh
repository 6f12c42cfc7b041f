#!/bin/sh
# qgrad.h as the strictest user compiles it, alone in a program: as C11, and as C++, where the names it
# asks the linker for must be those of the library.
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cat >"$dir/user.c" <<'C'
#include "qgrad.h"

int main(void)
{
    const qg_net_spec spec = { 1, 1, 1, 0, false, 0 };
    qg_net           *net  = qg_net_new(spec);
    qg_net_relu(net);
    return qg_net_build(net) ? 0 : qg_report("user");
}
C
strict='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -I.'
status=0
${CC:-cc} -std=c11 $strict -c -o "$dir/c.o" "$dir/user.c" || { echo 'qgrad.h: FAILED as C11'; status=1; }
if command -v "${CXX:-c++}" >/dev/null; then
    "${CXX:-c++}" -std=c++17 $strict -x c++ -c -o "$dir/cc.o" "$dir/user.c" &&
        nm -u "$dir/cc.o" | grep -q ' qg_net_build$' || { echo 'qgrad.h: FAILED as C++17'; status=1; }
fi
exit $status
