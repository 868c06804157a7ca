// Eight programs as people write them: each runs, its facts stand on its own lines, and nothing is said to be wrong that is not.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import * as path from 'node:path';
import { before, describe } from 'node:test';
import { walkIn } from './rig/walk.mjs';

const RUN = 'Dynascope: Compile and Run Current File';
const python = process.env.DYNASCOPE_PYTHON;

/** Of each: where its facts are looked at, a line that has a value, what is underlined as a warning, and whether nothing else is. */
const PROGRAMS = {
  'train_loop.py': { at: 'model = torch.compile', value: /nn\.Linear\(20,\s64\)/ },
  'gpt_kv.py': { at: 'def forward', value: /scaled_dot_product_attention/ },
  'cnn_bn.py': { at: 'def forward', value: /self\.head\(self\.features/, calm: true },
  'cli_train.py': { at: 'def forward', value: /y\s=\sself\.layers/, warnings: ['torch.isnan(y).any()'] },
  'compile_modes.py': { at: 'def centred', value: /x\s-\sx\.mean/ },
  'numpy_mix.py': { at: 'def features', value: /values\.mean/, warnings: ['np.histogram'] },
  'lightning_style.py': { at: 'def training_step', value: /cross_entropy/ },
  'hf_model.py': { at: 'torch.compile', value: /model\(tokens\)/, needs: 'transformers' },
};

describe('eight programs', () => {
  const own = walkIn('eight', { 'dynascope.live': false });
  const { step } = own;
  let window;
  before(() => {
    window = own.window;
  });

  for (const [file, { at, value, warnings = [], calm = false, needs }] of Object.entries(PROGRAMS)) {
    if (needs !== undefined && !has(needs)) {
      continue;
    }
    step(file, async () => {
      const editor = await window.open(file);
      await window.command(RUN);
      await window.status(new RegExp(`${file.replace('.', '\\.')}: \\d+ graphs?`)).waitFor({ timeout: 120_000 });
      await window.lens(editor, 'Dynascope: compile and run').waitFor();
      await window.command('View: Toggle Panel Visibility');
      await window.goTo(lineOf(own, file, at));
      await editor.locator('.codelens-decoration a:visible', { hasText: /\d+ graphs?|inlined into/ }).first().waitFor();
      await editor.locator('.view-line', { hasText: value }).filter({ hasText: /[fi](32|64)\[/ }).first().waitFor();
      await window.screenshot(`eight-${file.replace('.py', '')}`);
      await window.command('Problems: Focus on Problems View');
      for (const text of warnings) {
        await window.problem(text).waitFor();
      }
      await window.screenshot(`eight-${file.replace('.py', '')}-problems`);
      await window.counts(editor.locator('.squiggly-error'), 0, 'nothing is an error');
      if (calm) {
        // Compiled with gradients and without them, as it should be.
        await editor.locator('.squiggly-hint').first().waitFor();
        await window.counts(editor.locator('.squiggly-info'), 0, 'nothing is worth a look');
      }
      const expected = count => count > 0 === warnings.length > 0;
      await window.counts(editor.locator('.squiggly-warning'), expected, 'warnings are where there are any');
      await window.command('View: Toggle Panel Visibility');
    });
  }
});

function lineOf({ folder }, file, text) {
  return readFileSync(path.join(folder, file), 'utf8').split('\n').findIndex(line => line.includes(text)) + 1;
}

function has(name) {
  try {
    execFileSync(python, ['-c', `import ${name}`], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
