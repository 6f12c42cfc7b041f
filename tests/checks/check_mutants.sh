#!/bin/sh
# Every seeded mistake of tests/mutants still applies; make mutants, which takes long, has the tests find it.
status=0
for patch in tests/mutants/*.patch; do
    patch -p1 --dry-run -s -f -F0 <"$patch" >/dev/null 2>&1 || { echo "$patch: error: does not apply"; status=1; }
done
exit $status
