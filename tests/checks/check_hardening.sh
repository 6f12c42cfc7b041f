#!/bin/sh
# build/qgrad has what SECURITY.md says: stack protection, fortified calls, addresses that are chosen at random, and
# relocations that are read-only.  Builds with a sanitizer or with HARDEN= have none of it.
export LC_ALL=C
build=${BUILD:-build}
status=0
fail() { echo "error: $build/qgrad $*"; status=1; }
[ -z "$SANITIZE" ] && [ "${HARDEN-default}" = default ] && command -v readelf >/dev/null || exit 0
readelf -hW "$build/qgrad" >/dev/null 2>&1 || exit 0            # not ELF

symbols=$(readelf -W --dyn-syms "$build/qgrad")
echo "$symbols" | grep -q ' __stack_chk_fail' || fail 'has no stack protection'
case " $CFLAGS " in
*' -O0 '*) ;;
*) echo "$symbols" | grep -q ' __[a-z]*_chk@' || fail 'has no fortified calls' ;;
esac
readelf -hW "$build/qgrad" | grep -q 'Type: *DYN' || fail 'is not a position-independent executable'
readelf -lW "$build/qgrad" | grep -q GNU_RELRO || fail 'has no relocations that become read-only'
readelf -dW "$build/qgrad" | grep -q 'BIND_NOW\|FLAGS.*NOW' || fail 'binds some symbols late, so their table stays writable'

# The flags of a distribution stay.  The commands are not run.
flags() { MAKEFLAGS= make -n BUILD="$build/none" "$@" "$build/none/core/rng.o" 2>/dev/null | grep ' -c ' | tr ' ' '\n' | grep -c "$level"; }
level=_FORTIFY_SOURCE
[ "$(flags CFLAGS='-O2 -D_FORTIFY_SOURCE=3')" = 1 ] && [ "$(flags CPPFLAGS='-D_FORTIFY_SOURCE=1')" = 1 ] ||
    fail 'would be built with another _FORTIFY_SOURCE than CFLAGS or CPPFLAGS ask for'
[ "$(flags HARDEN=)" = 0 ] && [ "$(flags CFLAGS=-O0)" = 0 ] || fail 'would be fortified with HARDEN= or without optimization'
exit $status
