#!/bin/sh
# make check-c: nets in C (qgrad export --to c) compute on every machine what the engine computes.  Trains four nets, compares the codes and
# floats of all steps, the scores and labels with the engine on N images, and prints what the files need on microcontrollers.
#     sh tests/export/c.sh [BUILD]
# A compiler or an emulator that is missing is named and left out.  N: images for the comparison with the engine.  NETS: which nets.
set -u
build=${1:-build}
dir=$build/export/c
mkdir -p "$dir" && dir=$(cd "$dir" && pwd) || exit 1           # absolute, for #include
failed=0
nets=${NETS:-ternary w1a2 int8 reader}
images=datasets/mnist/t10k-images-idx3-ubyte N=${N:-10000} few=100
fail() { echo "FAILED: $*"; failed=$((failed + 1)); }
has() { command -v "${1%% *}" >/dev/null 2>&1; }

# net NAME OPTIONS..: trains, unless it is there, and exports.
net() {
    name=$1; shift
    case " $nets " in *" $name "*) ;; *) return ;; esac
    [ -f "$dir/$name/result.json" ] || "$build/qgrad" train --data mnist --force --out "$dir/$name" "$@" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
    "$build/qgrad" export --run "$dir/$name" -o "$dir/$name.qg" >/dev/null && "$build/qgrad" export --run "$dir/$name" --to c -o "$dir/$name.c" >/dev/null || exit 1
}
net ternary --model lenet5 --weight twn --epochs 1
net w1a2 --model lenet5 --weight dorefa:bits=1 --input dorefa:bits=2 --first-last quantized --epochs 1
net int8 --model lenet5 --weight fake_quant:per-channel=yes --input fake_quant:range=observed --epochs 1
net reader --recipe mcu-digits --epochs 2
head -c $((16 + few * 784)) "$images" >"$dir/few"

# hosted NAME COMPILER RUN..: prints the lines of a net.
hosted() {
    name=$1 compiler=$2; shift 2
    $compiler -std=c99 -Wall -Wextra -Wpedantic -Werror -DNET="\"$dir/$name.c\"" -o "$dir/program" tests/export/hosted.c && "$@" "$dir/program" "$dir/few" $few
}

for n in $nets; do
    cc -O3 -march=native -std=c11 -D_POSIX_C_SOURCE=200809L -I. -DNET="\"$dir/$n.c\"" -o "$dir/engine" tests/export/engine.c "$build/libqgrad_infer.a" -lm &&
        result=$("$dir/engine" "$dir/$n.qg" "$images" "$N") || fail "$n: the engine"
    echo "$n: $result"
    hosted $n "cc -O2" env >"$dir/lines" || fail "$n: cc"
    while read -r compiler; do
        run=env
        case $compiler in s390x*) run=qemu-s390x ;; powerpc*) run=qemu-ppc ;; esac
        if ! has "$compiler" || ! has $run; then
            echo "$n: left out, not installed: ${compiler%% *} or $run"
        elif hosted $n "$compiler" $run >"$dir/others" 2>"$dir/log" && cmp -s "$dir/lines" "$dir/others"; then
            echo "$n: $few images, the same with $compiler"
        elif grep -q 'libc-header-start.h' "$dir/log"; then
            echo "$n: left out, no C library for $compiler"
        else
            head -n 5 "$dir/log"
            fail "$n: $compiler"
        fi
    done <<END
gcc -O0 -std=gnu99
gcc -O3 -march=native
clang -O2
cc -m32 -O2 -msse2 -mfpmath=sse
s390x-linux-gnu-gcc -static -O2
powerpc-linux-gnu-gcc -static -O2
END
done

# elf NAME MACHINE FLASH RAM IMAGES FLAGS..: builds for a microcontroller and runs it.
elf() {
    name=$1 machine=$2 flash=$3 ram=$4 file=$5; shift 5
    arm-none-eabi-gcc -mthumb -O2 -std=c99 -Wall -ffunction-sections -fdata-sections -nostdlib "$@" -Wl,--gc-sections \
        -Wl,--no-warn-rwx-segments -Wl,--defsym=FLASH="$flash",--defsym=RAM="$ram" -T tests/export/bare.ld -DNET="\"$dir/$name.c\"" \
        -DIMAGES="\"$dir/$file\"" -o "$dir/bare.elf" tests/export/bare.c -lgcc 2>"$dir/log" &&
        timeout 900 qemu-system-arm -M "$machine" -icount shift=0 -nographic -semihosting -kernel "$dir/bare.elf" 2>&1
}

# bare NAME PROCESSOR MACHINE FLASH RAM FLAGS..: the lines of all images, and a row of the table.
bare() {
    name=$1 processor=$2 machine=$3 flash=$4 ram=$5; shift 5
    hosted "$name" "cc -O2" env >"$dir/lines"
    if ! elf "$name" "$machine" "$flash" "$ram" few -DCOUNT=$few "$@" >"$dir/others"; then
        same=$(grep -m 1 -o "region.*overflowed.*" "$dir/log" || echo "does not compile")
    elif cmp -s "$dir/lines" "$dir/others"; then same="all equal"; else same=DIFFERENT; fail "$name on $processor"; fi
    ticks=$(elf "$name" mps2-an386 4M 4M one -DCOUNT=1 -DQUIET "$@" | head -n 1)
    set -- $(arm-none-eabi-size "$dir/bare.elf" | tail -n 1)
    printf '%-10s %-12s %10d %10d %22d   %s\n' "$name" "$processor" $(($1 - 16 - 784)) $(($2 + $3)) $((0x$ticks * 40)) "$same"
}
if has arm-none-eabi-gcc && has qemu-system-arm; then
    head -c $((16 + 784)) "$images" >"$dir/one"
    printf '\n%-10s %-12s %10s %10s %22s   %s\n' net processor flash RAM 'instructions per image' "scores of $few images"
    for n in $nets; do
        bare $n Cortex-M0 microbit 256K 16K -mcpu=cortex-m0
        bare $n Cortex-M4 mps2-an386 4M 64K -mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16
    done
else
    echo "left out, not installed: arm-none-eabi-gcc or qemu-system-arm"
fi
echo "$failed failed"
[ $failed = 0 ]
