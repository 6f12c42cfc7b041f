#!/bin/sh
# Each trained net in results/ is that of its recipe, with a few notes.  It classifies at least 7 of ten drawn digits: nets of 92 %
# make some mistakes, and guesses are that good once in 100,000 times.  With QGRAD_EVERY set, it has exactly the accuracy of its log,
# where MNIST is.
qgrad=${QGRAD:-build/qgrad}
status=0
fail() { echo "check_nets: error: $*"; status=1; }

value() { grep -o "\"$1\":\"\{0,1\}[^,\"}]*" | tail -n 1 | sed 's/.*:"\{0,1\}//'; }
for net in results/*/net.qg; do
    row=$(basename "$(dirname "$net")")
    said=$("$qgrad" predict --packed "$net" examples/digits --top 1 --json) || fail "$net: predict fails"
    log=$(grep -l "\"digest\":\"$(echo "$said" | value digest)\"" results/"$row"/seed-*/result.json) ||
        { fail "$net: has no log"; continue; }
    notes=$(($(wc -c <"$net") - $("$qgrad" summary --recipe "$row" --json | value packed_bytes)))
    [ "$notes" -gt 0 ] && [ "$notes" -lt 300 ] || fail "$net: has $notes bytes more than the net of its recipe"
    grep -q '^data = "mnist"' "$(dirname "$log")/config.toml" || continue
    right=$(echo "$said" | grep -oE '/([0-9])\.png","classes":\[\{"class":\1,' | wc -l)
    [ "$right" -ge 7 ] || fail "$net: classifies $right of ten drawn digits"
    [ "${QGRAD_EVERY:-}" ] && [ -e datasets/mnist/t10k-images-idx3-ubyte ] || continue
    is=$("$qgrad" infer "$net" --json | value test_accuracy) was=$(value test_accuracy <"$log")
    [ "$is" = "$was" ] || fail "$net: has an accuracy of $is, but its log $was"
done
exit $status
