#!/bin/sh
# dist/ -> the vsix named by the argument. The same commit makes the same bytes: entries carry the commit's time.
set -eu

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 1735689600)
export SOURCE_DATE_EPOCH

set -- "$1" --no-dependencies --skip-license --allow-missing-repository
[ -f README.md ] && set -- "$@" || set -- "$@" --readme-path extension/README.md
out=$1
shift
node_modules/.bin/vsce package --out "$out" "$@" >/dev/null
ls -l "$out"
