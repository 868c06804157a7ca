// A walk through one window: a workspace of its own, copied from a folder of programs, and steps that keep a picture where they fail.
import { cpSync, mkdirSync, rmSync } from 'node:fs';
import * as path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startServer } from './server.mjs';
import { openWindow } from './window.mjs';

const { DYNASCOPE_RIG: rig, DYNASCOPE_INSTALLED: installed, DYNASCOPE_PYTHON: python } = process.env;
const SCREENSHOTS = path.resolve('artefacts/editor');

/**
 * For one `describe`: `window` and `server` are there when its tests run. `name`: a folder of programs beside the tests. `prepare`: what is
 * done to the workspace's folder while the window opens.
 */
export function walkIn(name, settings = {}, prepare = async () => undefined) {
  const scratch = path.resolve('.build/editor-tests', name);
  const own = { folder: path.join(scratch, 'workspace'), window: undefined, server: undefined };
  before(async () => {
    rmSync(scratch, { recursive: true, force: true });
    mkdirSync(scratch, { recursive: true });
    cpSync(fileURLToPath(new URL(`../${name}`, import.meta.url)), own.folder, { recursive: true });
    const prepared = prepare(own.folder);
    prepared.catch(() => undefined); // it is waited for below
    const all = { 'dynascope.pythonPath': python, ...settings };
    const cache = path.join(installed, 'cache');
    own.server = await startServer({ rig, installed, cache, settings: all, trusted: true, home: path.join(scratch, 'home') });
    own.window = await openWindow({ rig, address: own.server.address, folder: own.folder, screenshots: SCREENSHOTS });
    await own.window.command('View: Toggle Primary Side Bar Visibility');
    await prepared;
  });
  after(async () => {
    await own.window?.close();
    await own.server?.stop();
  });
  own.step = (title, body) => test(title, { timeout: 240_000 }, async () => {
    try {
      await body();
    } catch (error) {
      await own.window?.screenshot(`failed-${title.replace(/\W+/g, '-')}`);
      throw error;
    }
  });
  return own;
}
