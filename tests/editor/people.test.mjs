// Programs as people write them: facts on the user's own lines, variants, staleness, and results after a reload.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import * as path from 'node:path';
import { before, describe } from 'node:test';
import { walkIn } from './rig/walk.mjs';

const RUN = 'Dynascope: Compile and Run Current File';

describe('programs as people write them', () => {
  const own = walkIn('people');
  const { folder, step } = own;
  let window, editor;
  before(() => {
    window = own.window;
  });
  // Spaces of the source are drawn as non-breaking ones.
  const hint = (text, shape = /f32\[/) => editor.locator('.view-line', { hasText: text }).filter({ hasText: shape }).first();

  const to = async (key) => {
    await editor.locator('.inputarea, .native-edit-context').first().focus(); // a first line may lie under the breadcrumbs
    await window.page.keyboard.press(`Control+${key}`);
  };

  step('the work of nn.Sequential is on the call, on torch.compile and on each layer', async () => {
    editor = await window.open('train_loop.py');
    await window.command(RUN);
    await window.status(/train_loop\.py: 1 graph/).waitFor();
    for (const text of [/model\(xb\)/, /nn\.Linear\(20,\s64\)/, /nn\.ReLU\(\)/]) {
      await hint(text).waitFor();
    }
    await to('End');
    await window.lens(editor, /1 graph · \d+ kernels?/).waitFor();
    assert.match(readFileSync(path.join(folder, 'train_loop.py'), 'utf8'), /torch\.compile/);
    await window.screenshot('people-1-train-loop');
  });

  step('an inlined forward has its lens, and the variant that is shown can be chosen', async () => {
    editor = await window.open('attention.py');
    await window.command(RUN);
    await window.status(/attention\.py: 3 graphs/).waitFor();
    await window.lens(editor, 'compile and run').waitFor();
    await window.putCursor(editor, 'weights @ v');
    await window.lens(editor, /inlined into Block\.forward/).waitFor();
    await window.lens(editor, /variant \d of \d/).waitFor();
    await window.screenshot('people-2-variants');
    await window.lens(editor, /variant \d of \d/).click();
    const rows = window.page.locator('.quick-input-list .monaco-list-row', { hasText: 'variant 1 of' });
    await rows.first().waitFor();
    await window.screenshot('people-3-choose');
    await rows.first().click();
    await window.lens(editor, /variant 1 of \d/).waitFor();
    await hint(/torch\.softmax/, /f32\[2,\s4,\s4\]/).waitFor();
    await window.screenshot('people-4-chosen');
  });

  step('two variants are compared', async () => {
    await to('End');
    await window.lens(editor, 'compare').click();
    await window.generated().locator('.view-line', { hasText: /shape\s\[2,\s4,\s16\]/ }).first().waitFor();
    await window.screenshot('people-5-compare');
    await window.closeGenerated();
  });

  step('results are there again when the window is reloaded', async () => {
    await window.page.reload({ waitUntil: 'domcontentloaded' });
    await window.page.locator('.monaco-workbench').waitFor();
    editor = await window.open('attention.py');
    await to('Home'); // the window comes back as it was scrolled, and only what is in sight is there to be found
    await window.lens(editor, /inlined into Block\.forward/).waitFor();
    await window.screenshot('people-6-reloaded');
  });
});
