// A notebook whose kernel ran cells under %%dynascope: the cells have what files have.
import { execFile } from 'node:child_process';
import * as path from 'node:path';
import { before, describe } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { walkIn } from './rig/walk.mjs';

const RUN_CELLS = fileURLToPath(new URL('./rig/run_cells.py', import.meta.url));

describe('cells of a notebook', () => {
  const own = walkIn('notebooks', {}, async folder => {
    const env = { ...process.env, PYTHONPATH: fileURLToPath(new URL('../../engine', import.meta.url)) };
    await promisify(execFile)(process.env.DYNASCOPE_PYTHON, [RUN_CELLS, path.join(folder, 'train.ipynb')], { env });
  });
  const { step } = own;
  let window;
  before(() => {
    window = own.window;
  });
  const cell = text => window.page.locator('.cell-editor-part', { hasText: text });
  const lens = (text, title) => cell(text).locator('.codelens-decoration a', { hasText: title });

  step('the cell that ran has its lens, and so has the one whose class it compiled', async () => {
    await window.ask('Control+P', 'train.ipynb');
    await window.page.locator('.quick-input-list .monaco-list-row', { hasText: 'train.ipynb' }).first().click();
    await cell('def loss_of').waitFor();
    await lens('def loss_of', /2 graphs · 1 break/).first().waitFor();
    await lens('class Gate', /inlined into loss_of|1 graph/).first().waitFor();
    await window.counts(window.page.locator('.codelens-decoration a', { hasText: /stale|compile and run/ }), 0, 'nothing is stale');
    await window.screenshot('notebook-1-lenses');
  });

  step('the break is marked in the cell, and its hover says why', async () => {
    await cell('class Gate').locator('.squiggly-warning').first().waitFor();
    await cell('class Gate').locator('.view-line', { hasText: 'if y.mean()' }).locator('span', { hasText: 'mean' }).first().hover();
    await window.page.locator('.monaco-hover', { hasText: /needs the value of a tensor/ }).first().waitFor();
    await window.screenshot('notebook-2-hover');
  });

  step('a lens opens the kernel, whose lines lead back into the cells', async () => {
    await window.page.keyboard.press('Escape');
    await lens('def loss_of', 'show compiled kernel').first().click();
    await window.generated().locator('.view-line', { hasText: 'void' }).first().waitFor();
    await window.screenshot('notebook-3-kernel');
    await window.generated().locator('.detected-link', { hasText: /cell/ }).first().click({ modifiers: ['Control'] });
    await window.page.locator('.cell-editor-part .cdr, .cell-editor-part .view-overlays .current-line').first().waitFor();
    await window.command('View: Close Editors in Other Groups');
  });

  step('the summary calls cells by their numbers, and leads into them', async () => {
    await cell('def loss_of').locator('.view-line', { hasText: 'def loss_of' }).click();
    await window.command('Dynascope: Show Summary');
    const page = window.page.frameLocator('iframe.webview').last().frameLocator('iframe#active-frame');
    await page.locator('h1', { hasText: /^Cell \d+$/ }).waitFor();
    await page.locator('a', { hasText: /^cell \d+, line \d+$/ }).first().click();
    await window.page.locator('.cell-editor-part .cdr, .cell-editor-part .view-overlays .current-line').first().waitFor();
    await window.screenshot('notebook-4-summary');
    await window.command('View: Close Editors in Other Groups');
  });

  step('an edit makes its facts stale', async () => {
    await cell('def loss_of').locator('.view-line', { hasText: 'return' }).click();
    await window.page.keyboard.press('End');
    await window.page.keyboard.type(' * 2');
    await lens('def loss_of', 'stale: run again').first().waitFor();
    await window.screenshot('notebook-5-stale');
  });
});
