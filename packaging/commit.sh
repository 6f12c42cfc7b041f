#!/bin/sh
# commit.sh SOURCES..: the commit that a run records, with -dirty if the sources have uncommitted changes.  A tree that is not a
# git repository has it from packaging/commit, in which git archive writes it; else it is `unknown`.
# The tree of another owner, as in a container, is read, too.
git() { command git -c safe.directory="$PWD" "$@"; }
if git ls-files --error-unmatch qgrad.h >/dev/null 2>&1; then
    [ -z "$(git status --porcelain -- "$@")" ] && dirty='' || dirty=-dirty
    commit=$(git rev-parse --short=12 HEAD)$dirty
else commit=$(sed -n 's/^\([0-9a-f]\{12\}\).*/\1/p' packaging/commit); fi
echo "${commit:-unknown}"
