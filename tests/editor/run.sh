#!/bin/sh
# run.sh VSIX RIG PYTHON: the editor tests, against a real VS Code in Chromium. PYTHON is an interpreter that has torch.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
vsix=$(realpath "$1")
DYNASCOPE_PYTHON=$(command -v "$3")

browser=
for candidate in "${CHROMIUM:-}" /usr/bin/chromium /usr/bin/chromium-browser /usr/bin/google-chrome; do
    if [ -x "$candidate" ]; then browser=$candidate && break; fi
done
if [ -z "$browser" ]; then
    echo "tests/editor: skipped, because there is no Chromium (set CHROMIUM to its path)."
    exit 0
fi

"$here/rig/setup.sh" "$2"
DYNASCOPE_RIG=$(cd "$2" && pwd)
DYNASCOPE_INSTALLED=$PWD/.build/editor-tests/installed
export CHROMIUM="$browser" DYNASCOPE_INSTALLED DYNASCOPE_PYTHON DYNASCOPE_RIG
"$DYNASCOPE_RIG/node_modules/.bin/node" "$here/rig/install.mjs" "$DYNASCOPE_RIG" "$vsix" "$DYNASCOPE_INSTALLED"
# With DYNASCOPE_TESTS=today, as the gate runs: the main test, and every second of the others, those left out the next day.
set -- "$here"/*.test.mjs
if [ "${DYNASCOPE_TESTS:-}" = today ]; then
    turn=$(($(date +%s) / 86400 % 2))
    for test in "$@"; do
        shift
        turn=$((1 - turn))
        if [ "$turn" = 1 ] || [ "$test" = "$here/editor.test.mjs" ]; then set -- "$@" "$test"; fi
    done
fi
# A test mostly waits for what moves on the page: as many files at once as there are cores, where node would take one fewer.
at_once=$(getconf _NPROCESSORS_ONLN)
exec "$DYNASCOPE_RIG/node_modules/.bin/node" --test --test-concurrency="$at_once" --test-reporter=spec "$@"
