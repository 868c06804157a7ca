// While the person types, nothing is run: shapes, breaks and kernels of edited functions follow the text.
import { cpSync, mkdirSync, rmSync } from 'node:fs';
import * as path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startServer } from './rig/server.mjs';
import { openWindow } from './rig/window.mjs';

const { DYNASCOPE_RIG: rig, DYNASCOPE_VSIX: vsix, DYNASCOPE_PYTHON: python } = process.env;
const SCRATCH = path.resolve('.build/editor-tests/live');
const SCREENSHOTS = path.resolve('artefacts/editor');

describe('live', () => {
  const folder = path.join(SCRATCH, 'workspace');
  let server, window, editor;
  before(async () => {
    rmSync(SCRATCH, { recursive: true, force: true });
    mkdirSync(SCRATCH, { recursive: true });
    cpSync(fileURLToPath(new URL('live', import.meta.url)), folder, { recursive: true });
    const settings = { 'dynascope.pythonPath': python, 'editor.autoIndent': 'none' };
    server = await startServer({ rig, vsix, settings, trusted: true, home: path.join(SCRATCH, 'home') });
    window = await openWindow({ rig, address: server.address, folder, screenshots: SCREENSHOTS });
    await window.command('View: Toggle Primary Side Bar Visibility');
  });
  after(async () => {
    await window?.close();
    await server?.stop();
  });

  const step = (title, body) => test(title, { timeout: 240_000 }, async () => {
    try {
      await body();
    } catch (error) {
      await window?.screenshot(`failed-${title.replace(/\W+/g, '-')}`);
      throw error;
    }
  });
  const hint = text => editor.locator('.view-line', { hasText: text }).first();

  /** Another text for a line, typed over it; its indentation stays. */
  const retype = async (line, text) => {
    await window.goTo(line);
    await window.page.keyboard.press('Home');
    await window.page.keyboard.press('Shift+End');
    await window.page.keyboard.type(text);
    await window.page.keyboard.press('Escape');
  };

  step('a run says what it found', async () => {
    editor = await window.open('model.py');
    await window.command('Dynascope: Compile and Run Current File');
    await hint('f32[16]').waitFor();
    await window.lens(editor, '1 graph').waitFor();
    await window.screenshot('live-0-ran');
  });

  step('an edit of an inlined function moves shapes and kernels', async () => {
    await retype(5, 'return torch.softmax(x, -1)[:, :3] * 2');
    await window.lens(editor, 'live · 1 graph').waitFor();
    await hint('f32[3]').waitFor();
    await window.screenshot('live-1-edited');
  });

  step('a break shows where it is typed, and what only a run can say is said', async () => {
    await retype(11, 'return y.sum(0) if y.sum() > 0 else y[0]');
    await editor.locator('.squiggly-warning').first().waitFor();
    await window.lens(editor, '1 break').waitFor();
    await window.screenshot('live-2-broken');
    await retype(2, 'SIZES = sorted([3, 2])');
    await retype(10, 'y = normalised(x @ weight) * SIZES[0]');
    await window.problems();
    await window.problem('is known after a run').waitFor();
    await window.lens(editor, 'stale').waitFor();
    await window.screenshot('live-3-unknown');
  });

  step('the text as it ran is what it was', async () => {
    await window.command('File: Revert File');
    await hint('f32[16]').waitFor();
    await window.lens(editor, '1 graph · ').waitFor();
    await editor.locator('.codelens-decoration a', { hasText: 'live' }).first().waitFor({ state: 'detached' });
    await window.screenshot('live-4-reverted');
  });

  step('the tree has what the run became, and leads there', async () => {
    await window.command('Explorer: Focus on Dynascope View');
    const rows = window.page.locator('.pane-body .monaco-list-row');
    const row = text => rows.filter({ hasText: text }).first();
    await row('graph g0').waitFor();
    await window.screenshot('live-5-tree');
    await row('graph g0').locator('.monaco-tl-twistie').click();
    await row('ATen, forward').waitFor();
    await row('Torch IR').click();
    await window.generated().locator('.view-line', { hasText: 'softmax' }).first().waitFor();
    await window.screenshot('live-6-tree-open');
  });
});
