#!/bin/sh
# Every patch of tests/mutants still applies.  That the tests find its mistake is checked by the slower make mutants.
status=0
for patch in tests/mutants/*.patch; do
    for file in $(sed -n 's/^Rebuild: //p' "$patch"); do [ -e "$file" ] || { echo "$patch: error: no $file"; status=1; }; done
    patch -p1 --dry-run -s -f -F0 <"$patch" >/dev/null 2>&1 || { echo "$patch: error: does not apply"; status=1; }
done
exit $status
