#!/bin/sh
# The command line is a client of the library: what its objects need, libqgrad.so exports, or the objects of six internal headers
# on text, files and time have, which it may share.  So whatever `qgrad` does a C program can do, too.
build=${BUILD:-build}
export LC_ALL=C
shared='core/io/json_write core/io/number core/io/utf8 core/io/paths core/io/file core/clock'

# What does not follow this rule yet.  A name that is no longer needed has to go from here.
#   recipe      keys, files and resolution of recipes: train/recipe.h has no list of keys yet
#   train       qgrad train and sweep compose runs from parts of qg_recipe_fit
#   images      data sets by text, and images one by one
allowed='
recipe: qg__duration_parse qg__option_parse qg__recipe_as_stored qg__recipe_check qg__recipe_check_cache qg__recipe_clear
    qg__recipe_difference qg__recipe_is_over qg__recipe_key qg__recipe_keys qg__recipe_over qg__recipe_put
    qg__recipe_read qg__recipe_resolve qg__recipe_resolve_as qg__recipe_stored qg__recipe_unset qg__recipe_value
    qg__image_parse
train: qg__metrics_end qg__metrics_has_rows qg__metrics_read qg__reader_clear qg__recipe_init qg__recipe_net
    qg__recipe_note_data qg__recipe_optim qg__recipe_spec qg__recipe_teacher qg__recipe_test_of qg__recipe_trains
    qg__result_print qg__safetensors_open
images: qg__data_image qg__recipe_data'

# Headers that are neither public nor among the six, and so these.  core/io/grow.h and hash.h have no symbols.
headers='core/io/grow core/io/hash core/io/safetensors
train/init train/metrics train/reader train/recipe_keys train/result'

objects=$(find cli -name '*.c' | sed "s,\(.*\)\.c,$build/\1.o,")
for object in $shared; do objects="$objects $build/$object.o"; done
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
${NM:-nm} -u $objects | sed -n 's/^ *[Uw] _\{0,1\}\(qg_[A-Za-z0-9_]*\)$/\1/p' | sort -u >"$work/needed"
${NM:-nm} --defined-only $objects | awk 'NF == 3 { print $3 }' | sort -u >"$work/own"
sed -n 's/^ *\(qg_[A-Za-z0-9_]*\);$/\1/p' "$build/libqgrad.exports" | sort -u >"$work/exported"
sort -u "$work/own" "$work/exported" | comm -23 "$work/needed" - >"$work/internal"
for name in $allowed; do
    case $name in *:) ;; *) echo "$name" ;; esac
done | sort -u >"$work/allowed"
[ -s "$work/needed" ] && [ -s "$work/exported" ] || { echo "$build: error: has no objects of cli/ or no libqgrad.exports"; exit 1; }
new=$(comm -23 "$work/internal" "$work/allowed") old=$(comm -13 "$work/internal" "$work/allowed")
for name in $new; do
    echo "$(grep -rlw "$name" cli --include='*.c' | tr '\n' ' '): error: calls $name, which libqgrad.so does not export"
done
for name in $old; do echo "tests/checks/check_client.sh: error: the command line no longer needs $name: take it out of the list"; done

cat $(find cli -name '*.[ch]') | sed -n 's/^#include "\([^"]*\)\.h".*/\1/p' | grep -v '^cli/' | sort -u >"$work/included"
{ sed -n 's/^#include "\([^"]*\)\.h".*/\1/p' qgrad.h; printf '%s\n' qgrad infer/infer $shared; } | sort -u >"$work/public"
comm -23 "$work/included" "$work/public" >"$work/inside"
printf '%s\n' $headers | sort -u >"$work/listed"
more=$(comm -23 "$work/inside" "$work/listed") fewer=$(comm -13 "$work/inside" "$work/listed")
for header in $more; do echo "$(grep -rl "\"$header\.h\"" cli | tr '\n' ' '): error: includes $header.h, which is internal"; done
for header in $fewer; do echo "tests/checks/check_client.sh: error: the command line no longer includes $header.h: take it out of the list"; done
[ -z "$new$old$more$fewer" ]
