#!/bin/sh
# dist/ -> the vsix named by the argument. The same commit makes the same bytes: entries carry the commit's time.
set -eu

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 1735689600)
export SOURCE_DATE_EPOCH

node_modules/.bin/vsce package --out "$1" --no-dependencies --allow-missing-repository --no-rewrite-relative-links \
    --readme-path extension/README.md >/dev/null
ls -l "$1"
