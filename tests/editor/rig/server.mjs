// A VS Code server with the extension installed and a profile of its own, so that nothing of this machine's user is touched.
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import * as path from 'node:path';

const QUIET = {
  'workbench.startupEditor': 'none',
  'workbench.tips.enabled': false,
  'workbench.welcomePage.walkthroughs.openOnInstall': false,
  'workbench.secondarySideBar.defaultVisibility': 'hidden',
  'workbench.enableExperiments': false,
  'workbench.colorTheme': 'Default Dark Modern',
  'telemetry.telemetryLevel': 'off',
  'update.mode': 'none',
  'extensions.autoUpdate': 'off',
  'extensions.autoCheckUpdates': false,
  'extensions.ignoreRecommendations': true,
  'chat.disableAIFeatures': true,
  'git.enabled': false,
  'window.menuBarVisibility': 'classic',
  'editor.minimap.enabled': false,
  'files.autoSave': 'off',
};

/** Installs the extension into a new folder, for one server or several: Python keeps the bytecode of what they run there. */
export function installExtension({ rig, vsix, folder }) {
  rmSync(folder, { recursive: true, force: true });
  const home = path.join(folder, 'home');
  const places = placesIn(home);
  const common = [...entryIn(rig), '--user-data-dir', places.data, '--extensions-dir', path.join(folder, 'extensions')];
  const parameters = [...common, '--install-extension', vsix, '--force'];
  const { status, stdout, stderr } = spawnSync(nodeIn(rig), parameters, { env: environment(home, places), encoding: 'utf8' });
  if (status !== 0) {
    throw new Error(`The extension could not be installed:\n${stdout}${stderr}`);
  }
}

/**
 * @param {{ rig: string, home: string, installed: string, settings: object, trusted: boolean, port?: number, cache?: string }} options
 *   `rig`: the folder that setup.sh made. `home`: a folder for the profile, emptied first. `installed`: where the extension is.
 *   `cache`: a folder of caches that servers share, in place of an empty one of its own.
 */
export async function startServer({ rig, home, installed, settings, trusted, port, cache }) {
  rmSync(home, { recursive: true, force: true });
  const places = { ...placesIn(home), ...(cache ? { cache } : {}) };
  writeSettings(places.data, 'User', { ...QUIET, 'security.workspace.trust.enabled': !trusted });
  // The extension runs on the server's side, where settings of machine scope, such as an interpreter, have their own file.
  writeSettings(places.data, 'Machine', settings);

  const common = [...entryIn(rig), '--user-data-dir', places.data, '--extensions-dir', path.join(installed, 'extensions')];
  const chosen = port ?? (await freePort());
  const log = openSync(path.join(home, 'server.log'), 'w');
  const env = environment(home, places);
  const process = spawn(nodeIn(rig), [...common, ...serving(chosen, trusted)], { env, stdio: ['ignore', log, log] });
  const address = `http://127.0.0.1:${chosen}`;
  await answering(`${address}/healthz`, process);
  return { address, log: path.join(home, 'server.log'), process, stop: () => stopped(process) };
}

function placesIn(home) {
  return Object.fromEntries(['data', 'cache', 'config', 'state'].map(name => [name, path.join(home, name)]));
}

function nodeIn(rig) {
  return path.join(rig, 'node_modules', '.bin', 'node');
}

function entryIn(rig) {
  return [path.join(rig, 'node_modules/code-server/out/node/entry.js'), '--config', '/dev/null'];
}

function writeSettings(data, scope, settings) {
  mkdirSync(path.join(data, scope), { recursive: true });
  writeFileSync(path.join(data, scope, 'settings.json'), JSON.stringify(settings, undefined, 2));
}

function environment(home, { cache, config, state }) {
  const { HOME: _home, ...inherited } = process.env;
  return {
    ...inherited,
    HOME: home,
    XDG_CACHE_HOME: cache,
    XDG_CONFIG_HOME: config,
    XDG_DATA_HOME: state,
    EXTENSIONS_GALLERY: JSON.stringify({ serviceUrl: '', itemUrl: '', resourceUrlTemplate: '' }),
  };
}

function serving(port, trusted) {
  return [
    ...['--bind-addr', `127.0.0.1:${port}`, '--auth', 'none', '--disable-telemetry', '--disable-update-check', '--disable-proxy'],
    ...['--disable-getting-started-override', '--ignore-last-opened', '--reconnection-grace-time', '10'],
    ...(trusted ? ['--disable-workspace-trust'] : []),
  ];
}

async function answering(url, process) {
  for (let attempt = 0; attempt < 300; attempt += 1) {
    if (process.exitCode !== null) {
      throw new Error(`VS Code's server ended with code ${process.exitCode}.`);
    }
    if ((await fetch(url).catch(() => undefined))?.ok) {
      return;
    }
    await new Promise(resolve => setTimeout(resolve, 100));
  }
  throw new Error("VS Code's server did not answer within 30 seconds.");
}

async function stopped(process) {
  const over = new Promise(resolve => process.once('exit', resolve));
  process.kill('SIGTERM');
  await over;
}

function freePort() {
  return new Promise(resolve => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}
