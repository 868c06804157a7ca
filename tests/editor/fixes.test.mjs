// Fixes that are proved: looked for when the person asks, then quick fixes on the breaks, and all of them at once.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import * as path from 'node:path';
import { before, describe } from 'node:test';
import { walkIn } from './rig/walk.mjs';

const PROVING_MS = 150_000;

describe('fixes that are proved', () => {
  const own = walkIn('fixes');
  const { folder, step } = own;
  let window, editor;
  before(() => {
    window = own.window;
  });
  const menu = () => window.page.locator('.action-widget');
  const row = text => menu().locator('.monaco-list-row', { hasText: text }).first();
  const line = text => editor.locator('.view-line', { hasText: text }).first();

  /** The menu of the light bulb; pressed again while the server has not answered. */
  const offers = async (text, wanted) => {
    await window.putCursor(editor, text);
    for (let attempt = 0; attempt < 8; attempt += 1) {
      await window.page.keyboard.press('Control+.');
      if (await row(wanted).waitFor({ timeout: 5_000 }).then(() => true, () => false)) {
        return;
      }
      await window.page.keyboard.press('Escape');
    }
    await row(wanted).waitFor();
  };

  /** VS Code drops the request when marks of the file change while it is answered, so it is asked again, as a person would. */
  const fixAll = async () => {
    for (let attempt = 0; attempt < 8; attempt += 1) {
      await window.command('Fix All');
      if (await line(/torch\.where/).waitFor({ timeout: 10_000 }).then(() => true, () => false)) {
        return;
      }
    }
  };

  step('before any run, what will likely break is marked from the syntax', async () => {
    editor = await window.open('scores.py');
    await editor.locator('.squiggly-info').nth(1).waitFor();
    await window.problems();
    await window.problem('asks for the value of a tensor').waitFor();
    await window.screenshot('fixes-0-before-any-run');
  });

  step('a break offers the search, which says what it proved', async () => {
    await window.command('Dynascope: Compile and Run Current File');
    await editor.locator('.squiggly-warning').first().waitFor();
    await offers('y.mean()', 'Find fixes that can be proved');
    await window.screenshot('fixes-1-offered');
    await row('Find fixes that can be proved').click();
    await window.notification(/Fixes were proved: .*no break instead of 2; results equal on 2 calls/).waitFor({ timeout: PROVING_MS });
    await window.screenshot('fixes-2-proved');
  });

  step('a quick fix makes its edit, and says what was proved', async () => {
    await offers('y.mean()', 'Choose with torch.where (proved:');
    await window.screenshot('fixes-3-quick-fix');
    await row('Choose with torch.where (proved:').click();
    await line(/y = torch\.where\(y\.mean\(\) > 0, y \* 2, y\)/).or(line(/torch\.where/)).waitFor();
    await window.screenshot('fixes-4-fixed');
    await window.page.keyboard.press('Control+Z');
    await line(/y\.mean\(\)\s>\s0:/).waitFor();
  });

  step('all breaks of the file at once', async () => {
    await fixAll();
    await line(/torch\.where/).waitFor();
    await line(/is_compiling/).waitFor();
    await window.command('File: Save');
    await window.page.locator('.tab.dirty').waitFor({ state: 'detached' });
    await window.screenshot('fixes-5-all');
    assert.match(readFileSync(path.join(folder, 'scores.py'), 'utf8'), / {4}if not torch\.compiler\.is_compiling\(\):\n {8}print/);
    await window.command('Dynascope: Compile and Run Current File');
    await window.status(/scores\.py: 1 graph/).waitFor();
    await window.screenshot('fixes-6-one-graph');
  });
});
