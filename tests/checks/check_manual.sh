#!/bin/sh
# packaging/qgrad.1 says what the help of the commands says.
sh packaging/manual.sh "${QGRAD:-build/qgrad}" | diff packaging/qgrad.1 - >&2 ||
    { echo "check_manual: error: packaging/qgrad.1 is not what packaging/manual.sh makes; make docs writes it"; exit 1; }
