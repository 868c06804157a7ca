// While the person types, nothing is run: shapes, breaks and kernels of edited functions follow the text.
import { before, describe } from 'node:test';
import { walkIn } from './rig/walk.mjs';

describe('live', () => {
  const own = walkIn('live', { 'editor.autoIndent': 'none' });
  const { step } = own;
  let window, editor;
  before(() => {
    window = own.window;
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
    await window.status(/model\.py: live · 1 graph/).waitFor();
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
    await window.status(/model\.py: 1 graph/).waitFor();
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
