#!/bin/sh
# serve.sh RIG HOME VSIX FOLDER PORT PYTHON: VS Code with the extension in any browser of this machine, until interrupted.
set -eu
exec "$1/node_modules/.bin/node" "$(dirname "$0")/serve.mjs" "$@"
