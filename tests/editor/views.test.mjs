// What there is to see of one run beside its source: the picture, lines that move together, what the last run changed, comparisons.
import { before, describe } from 'node:test';
import { walkIn } from './rig/walk.mjs';

const RUN = 'Dynascope: Compile and Run Current File';
const COMPARING_MS = 200_000;

describe('views beside the source', () => {
  const own = walkIn('views', { 'dynascope.live': false });
  const { step } = own;
  let window, editor;
  before(() => {
    window = own.window;
  });
  const inPage = selector => window.page.frameLocator('iframe.webview').last().frameLocator('iframe#active-frame').locator(selector);
  const part = text => inPage('.part').filter({ hasText: text }).first();

  step('the picture has the steps, the tensors between them with their bytes, and the lines', async () => {
    editor = await window.open('block.py');
    await window.command(RUN);
    await window.status(/block\.py: 1 graph/).waitFor();
    await window.putCursor(editor, 'hidden');
    await window.command('Dynascope: Show Picture of the Graph');
    await part('hidden = F.gelu').waitFor();
    await inPage('text').filter({ hasText: /f32\[32, 256\] 32\.0 KiB/ }).first().waitFor();
    await inPage('.part.here').filter({ hasText: 'hidden = F.gelu' }).first().waitFor();
    await window.command('View: Toggle Panel Visibility');
    await window.screenshot('views-1-picture');
  });

  step('a click on a part goes to its line, and the line\'s parts are marked', async () => {
    await part('return x + self.down').click();
    await window.status('Ln 17,').waitFor();
    await inPage('.part.here').first().waitFor();
    await window.goTo(16);
    await inPage('.part.here').filter({ hasText: 'hidden = F.gelu' }).first().waitFor();
    await window.counts(inPage('.part.here').filter({ hasText: 'return x' }), 0, 'the line before is marked no more');
    await window.screenshot('views-2-marked');
  });

  step('a click on a kernel opens it, and its lines and the source\'s are marked together', async () => {
    await inPage('.part[data-kernel]').first().click();
    const kernel = window.generated();
    await kernel.locator('.view-line', { hasText: '{' }).first().waitFor();
    await kernel.locator('.cdr').first().waitFor();
    await window.screenshot('views-3-together');
    await kernel.locator('.view-line', { hasText: 'block.py:16' }).first().click();
    await editor.locator('.cdr').first().waitFor();
    await window.under(editor, '.cdr', 'hidden = F.gelu');
    await window.closeGenerated();
  });

  step('what the last run changed is a difference of guards, graphs and kernels', async () => {
    await window.goTo(17);
    await window.page.keyboard.press('End');
    await window.page.keyboard.type(' * 3');
    await window.command(RUN);
    await window.lens(editor, /stale/).waitFor({ state: 'detached' });
    await window.page.locator('.tab.dirty').waitFor({ state: 'detached' });
    await window.status(/block\.py: 1 graph/).waitFor();
    await window.command('Dynascope: Compare with the Run Before');
    await window.generated().locator('.view-line', { hasText: /^\+.*mul/ }).first().waitFor();
    await window.command('View: Toggle Panel Visibility');
    await window.screenshot('views-4-run-before');
    await window.closeGenerated();
  });

  step('backends are run side by side', async () => {
    await window.putCursor(editor, 'hidden');
    await window.command('Dynascope: Compare Backends');
    const rows = window.page.locator('.quick-input-list .monaco-list-row');
    await rows.filter({ hasText: 'aot_eager' }).first().waitFor();
    await window.screenshot('views-5-backends-offered');
    await rows.filter({ hasText: 'cudagraphs' }).first().click(); // beside ours; most machines say why there is none
    await window.page.keyboard.press('Enter');
    await window.pageText('cudagraphs').waitFor({ timeout: COMPARING_MS });
    await inPage('tr').filter({ hasText: /^\s*dynascope\s+equal/ }).waitFor();
    await window.screenshot('views-6-backends');
    await window.closeGenerated();
  });

  step('one function captured by torch\'s ways and ours', async () => {
    await window.putCursor(editor, 'hidden');
    await window.command('Dynascope: Compare Captures of This Function');
    await window.pageText(/TorchScript|torch\.jit/).waitFor({ timeout: COMPARING_MS });
    await window.screenshot('views-7-captures');
  });

  step('the summary marks what belongs to the cursor\'s line, and its links are followed with the keyboard', async () => {
    await window.goTo(16);
    await window.command('Dynascope: Show Summary');
    await inPage('.here').filter({ hasText: 'block.py:16' }).first().waitFor();
    await window.screenshot('views-8-summary');
    const link = inPage('a').filter({ hasText: 'block.py:17' }).first();
    await link.focus();
    await window.page.keyboard.press('Enter');
    await window.status('Ln 17,').waitFor();
    await inPage('.here').filter({ hasText: 'block.py:17' }).first().waitFor();
  });

  step('a command of the palette means the cursor in the source, also where the summary has the focus', async () => {
    await window.putCursor(editor, 'hidden');
    await inPage('h1').click();
    await window.command('Dynascope: Show Guards');
    await inPage('h1').filter({ hasText: 'What' }).waitFor();
    await window.screenshot('views-9-guards');
  });

  step('pages are there again when the window is reloaded', async () => {
    await window.command('Developer: Reload Window'); // what keeps tabs; a browser's own reload does not wait for that
    await window.page.locator('iframe.webview').last().waitFor({ state: 'detached' });
    await inPage('h1').filter({ hasText: 'What' }).waitFor();
    await window.screenshot('views-10-reloaded');
  });
});
