// The whole way in a real VS Code: palette, squiggle, Problems, lens, kernel document, hover, output, trust. Run by run.sh.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import * as path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startServer } from './rig/server.mjs';
import { openWindow } from './rig/window.mjs';

const { DYNASCOPE_RIG: rig, DYNASCOPE_INSTALLED: installed, DYNASCOPE_PYTHON: python } = process.env;
const PROGRAMS = fileURLToPath(new URL('programs', import.meta.url));
const EXAMPLES = fileURLToPath(new URL('../../examples', import.meta.url));
const SCRATCH = path.resolve('.build/editor-tests');
const SCREENSHOTS = path.resolve('artefacts/editor');
const RUN = 'Dynascope: Compile and Run Current File';

function workspace(name, programs) {
  const folder = path.join(SCRATCH, name, 'workspace');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(path.dirname(folder), { recursive: true });
  cpSync(programs, folder, { recursive: true });
  return folder;
}

/** The number of the line of a workspace's file that has the text. */
function lineOf(own, file, text) {
  return readFileSync(path.join(own.folder, file), 'utf8').split('\n').findIndex(line => line.includes(text)) + 1;
}

/** Folders named as the interpreters that they set, with a program each; returns the file of their workspace. */
function severalFolders(folder, interpreters) {
  for (const [name, interpreter] of Object.entries(interpreters)) {
    mkdirSync(path.join(folder, name, '.vscode'), { recursive: true });
    cpSync(path.join(PROGRAMS, 'marker.py'), path.join(folder, name, 'marker.py'));
    writeFileSync(path.join(folder, name, '.vscode', 'settings.json'), JSON.stringify({ 'dynascope.pythonPath': interpreter }));
  }
  const file = path.join(folder, 'several.code-workspace');
  writeFileSync(file, JSON.stringify({ folders: Object.keys(interpreters).map(name => ({ path: name })) }));
  return file;
}

/** An interpreter that answers what it is as Python 3.9 would. What it is given to run, the good one runs. */
function saysThatItIsOld(file) {
  const facts = JSON.stringify({ executable: file, implementation: 'cpython', version: [3, 9, 18], torch: '2.8.0' });
  writeFileSync(file, `#!/bin/sh\nif [ "$1" = -c ]; then echo '${facts}'; else exec '${python}' "$@"; fi\n`);
  chmodSync(file, 0o755);
}

/** A server and a window on a fresh workspace for the tests of one `describe`; with `isFirst` as on a machine where nothing was run. */
function inWindow(name, { settings = {}, trusted = true, programs = PROGRAMS, workspaceFile, isFirst = false, ...looks }) {
  const own = { folder: workspace(name, programs) };
  if (workspaceFile !== undefined) {
    own.folder = workspaceFile();
  }
  before(async () => {
    const cache = isFirst ? undefined : path.join(installed, 'cache');
    own.server = await startServer({ rig, installed, settings, trusted, cache, home: path.join(SCRATCH, name, 'home') });
    own.window = await openWindow({ rig, address: own.server.address, folder: own.folder, screenshots: SCREENSHOTS, ...looks });
  });
  after(async () => {
    await own.window?.close();
    await own.server?.stop();
  });
  return own;
}

/** One step of a walk through the window; after a failed one, of which a picture is kept, the rest would mean nothing. */
function step(own, title, body) {
  test(title, { timeout: 180_000 }, async context => {
    if (own.failed) {
      context.skip('an earlier step failed');
      return;
    }
    try {
      await body(own.window);
    } catch (error) {
      own.failed = true;
      await own.window?.screenshot(`failed-${title.replace(/\W+/g, '-')}`);
      throw error;
    }
  });
}

describe('a file that is compiled and run', () => {
  // Without live answers, which take the place of stale results: live.test.mjs looks at those.
  const own = inWindow('trusted', { settings: { 'dynascope.pythonPath': python, 'dynascope.live': false }, isFirst: true });
  let editor;

  step(own, 'the palette runs it, and the output channel has its own output', async window => {
    editor = await window.open('gate.py');
    await window.command(RUN);
    await window.output('step 2: (8, 64)').waitFor();
    await window.status('2 breaks').or(window.status('1 break')).waitFor();
    await window.screenshot('1-run');
  });

  step(own, 'the break is underlined on its line and explained in Problems', async window => {
    await editor.locator('.squiggly-warning, .squiggly-info').first().waitFor();
    await window.problems();
    await window.problemOn(lineOf(own, 'gate.py', 'if scaled.sum'), 'scaled.sum() > 0');
    await window.screenshot('2-problems');
  });

  step(own, 'the lens above the function counts its graphs, breaks and kernels', async window => {
    const lens = window.lens(editor, /\d+ graphs? · \d+ breaks?/);
    await lens.waitFor();
    await window.lens(editor, /show compiled kernel/i).waitFor();
  });

  step(own, 'a hover says what became of the line', async window => {
    const hover = await window.hover(editor, 'tanh', /^\s*tanh f32\[8, 64\]/);
    await window.screenshot('3-hover');
    await hover.locator('a', { hasText: 'k0' }).click();
    await window.generated().locator('.view-line', { hasText: 'tanh' }).first().waitFor();
    await window.closeGenerated();
  });

  step(own, 'the code of a problem leads to the page of its reason', async window => {
    await window.problems();
    await window.page.locator('.markers-panel a', { hasText: 'data-dependent-branch' }).first().click({ modifiers: ['Control'] });
    await window.pageText('A graph is made before the program runs').waitFor();
    await window.closeGenerated();
  });

  step(own, 'the lens opens the kernel beside the source: C++, read-only', async window => {
    await window.lens(editor, /show compiled kernel/i).click();
    const kernel = window.generated();
    await kernel.locator('.view-line', { hasText: 'tanh' }).first().waitFor();
    await window.status('C++').waitFor();
    await window.counts(editor, 1, 'the source stays in sight');
    await kernel.locator('.view-line').nth(3).click();
    await window.page.keyboard.type('x');
    await window.page.locator('.monaco-editor-overlaymessage', { hasText: 'read-only' }).waitFor();
    await window.page.keyboard.press('Escape');
    await window.command('View: Toggle Primary Side Bar Visibility');
    await window.screenshot('4-kernel');
    await window.command('View: Toggle Primary Side Bar Visibility');
  });

  step(own, 'Show Graph offers every stage and opens the one chosen', async window => {
    await window.putCursor(editor, 'torch.tanh');
    await window.command('Dynascope: Show Graph');
    await window.choose('Torch IR');
    await window.generated().locator('.view-line', { hasText: 'tanh' }).first().waitFor();
    await window.screenshot('5-graph');
    await window.putCursor(editor, 'torch.tanh');
    await window.command('Dynascope: Show Graph');
    await window.choose('Prims, forward');
    await window.generated().locator('.view-line', { hasText: 'prims.tanh' }).first().waitFor();
    await window.screenshot('5-prims');
  });

  step(own, 'the trace of the function at the cursor opens beside it', async window => {
    await window.putCursor(editor, 'torch.tanh');
    await window.command('Dynascope: Show Trace of This Function');
    await window.generated().locator('.view-line', { hasText: 'LOAD_ATTR' }).first().waitFor();
    await window.screenshot('5-trace');
  });

  step(own, 'guards and the summary open as pages, whose links lead to the source', async window => {
    await window.putCursor(editor, 'torch.tanh');
    await window.command('Dynascope: Show Guards');
    await window.pageText(/float32 tensor of shape \[8, 64\]/).waitFor();
    await window.screenshot('6-guards');
    await window.command('Dynascope: Show Summary');
    await window.pageText(/torch 2\.\d+/).waitFor();
    await window.screenshot('7-summary');
    await window.pageText(`gate.py:${lineOf(own, 'gate.py', 'if scaled.sum')}`).click();
    await window.status(`Ln ${lineOf(own, 'gate.py', 'if scaled.sum')}, Col 1`).waitFor();
  });

  step(own, 'an edit makes the results stale', async window => {
    await window.putCursor(editor, 'torch.tanh');
    await window.page.keyboard.press('End');
    await window.page.keyboard.type(' + 0');
    await window.lens(editor, /stale/i).waitFor();
    await window.screenshot('8-stale');
  });

  step(own, 'running again saves the file first and freshens the results', async window => {
    await window.command(RUN);
    await window.lens(editor, /stale/i).waitFor({ state: 'detached' });
    await window.lens(editor, /\d+ graphs? · \d+ breaks?/).waitFor();
    await window.page.locator('.tab.dirty').waitFor({ state: 'detached' });
    assert.match(readFileSync(path.join(own.folder, 'gate.py'), 'utf8'), / \+ 0/);
  });

  step(own, 'a syntax error is a clear problem on its line', async window => {
    await window.open('broken.py');
    await window.command(RUN);
    await window.problems();
    await window.problem(/never closed/).waitFor();
    await window.screenshot('9-syntax-error');
  });

  step(own, 'an exception of the program is shown on its line', async window => {
    await window.open('raises.py');
    await window.command(RUN);
    await window.output('RuntimeError').waitFor();
    await window.screenshot('10-raises');
    await window.problems();
    await window.problem(/RuntimeError: mat1 and mat2 shapes cannot be multiplied/).waitFor();
    await window.status('exit code 1').waitFor();
    const said = window.page.locator('.markers-panel .monaco-list-row', { hasText: /mat1 and mat2|torch-call-fails/ });
    await window.counts(said, 1, 'one error, said once');
    await window.screenshot('11-raises-problem');
  });

  step(own, 'a program that wants arguments is offered them, and is run with them again', async window => {
    await window.open('wants.py');
    await window.command(RUN);
    const offer = window.notification('wants.py: the following arguments are required: --steps');
    await offer.waitFor();
    await window.screenshot('12-wants-arguments');
    await offer.getByRole('button', { name: 'Run with Arguments…' }).click();
    await window.page.locator('.quick-input-widget input.input').fill('--steps 3');
    await window.page.keyboard.press('Enter');
    await window.exists(path.join(own.folder, 'steps-3-0'));
    await window.status('nothing compiled').waitFor();
    await window.command(RUN);
    await window.exists(path.join(own.folder, 'steps-3-1'));
  });

  step(own, 'a program that never ends is cancelled', async window => {
    const endless = await window.open('endless.py');
    await window.command(RUN);
    await window.output('started').waitFor();
    await window.screenshot('12-running');
    await window.command('Dynascope: Cancel Run');
    await window.status('cancelled').waitFor();
    await window.lens(endless, 'cancel the run').waitFor({ state: 'detached' });
    await window.lens(endless, 'compile and run').waitFor();
    await window.screenshot('13-cancelled');
    await window.counts(endless.locator('.squiggly-error'), 0, 'a cancelled run is no error');
  });

  step(own, 'the doctor answers', async window => {
    await window.command('Dynascope: Doctor');
    await window.page.locator('.tab', { hasText: /doctor/i }).first().waitFor();
    await window.screenshot('14-doctor');
  });
});

describe('the first example', () => {
  const looks = { viewport: { width: 1400, height: 860 }, scale: 1.5 };
  const own = inWindow('examples', { settings: { 'dynascope.pythonPath': python }, programs: EXAMPLES, ...looks });
  let editor;

  step(own, 'runs from the palette', async window => {
    editor = await window.open('quickstart.py');
    await window.command('View: Toggle Primary Side Bar Visibility');
    await window.command(RUN);
    await window.output('step 2: loss').waitFor();
    await window.status('1 break').waitFor();
  });

  step(own, 'has its break on the `if`, in the text and in Problems', async window => {
    await window.problems();
    await window.problemOn(lineOf(own, 'quickstart.py', 'if loss > 10.0'), '`if loss > 10.0` needs the value of a tensor');
    await window.goTo(lineOf(own, 'quickstart.py', 'if loss > 10.0'));
    await window.under(editor, '.squiggly-warning', 'if loss > 10.0');
  });

  step(own, 'shows a line\'s kernels, and the lens opens all of the function\'s', async window => {
    await window.lens(editor, /show compiled kernels/i).click();
    await window.generated().locator('.view-line', { hasText: 'mul_erf_add_kernel' }).first().waitFor();
    await window.status('C++').waitFor();
    await window.goTo(lineOf(own, 'quickstart.py', 'if loss > 10.0'));
    await window.page.mouse.move(700, 700);
    await window.generated().locator('.view-line span[class*="mtk"]:not(.mtk1)').first().waitFor(); // the kernel has its colours
    await window.screenshot('readme');
    await window.hover(editor, 'gelu', /^\s*layer_norm f32\[32, 64\] → .* f32\[32, 256\][\s\S]*k1 mul_erf_add_kernel \(C\+\+, reads/);
    await window.screenshot('readme-hover');
  });
});

describe('a workspace of several folders, each with an interpreter of its own', () => {
  const folder = path.join(SCRATCH, 'several');
  const bare = path.join(folder, 'bare env');
  const old = path.join(folder, 'old python');
  const interpreters = { missing: '/missing/python', bare: path.join(bare, 'bin', 'python'), outdated: old, good: python };
  const own = inWindow('several', { workspaceFile: () => severalFolders(folder, interpreters) });
  before(() => {
    execFileSync(python, ['-m', 'venv', '--without-pip', bare]);
    saysThatItIsOld(old);
  });

  step(own, 'a missing interpreter is named, with what to do', async window => {
    await window.open('marker.py', 'missing');
    await window.command(RUN);
    await window.notification(/\/missing\/python cannot be run: there is no such file/).waitFor();
    await window.screenshot('15-no-interpreter');
    await window.command('Notifications: Clear All Notifications');
  });

  step(own, 'one without torch comes with the command that installs it', async window => {
    await window.open('marker.py', 'bare');
    await window.command(RUN);
    await window.notification(`Install it with: "${interpreters.bare}" -m pip install "torch>=2.11"`).waitFor();
    await window.screenshot('17-no-torch');
    await window.command('Notifications: Clear All Notifications');
    assert.ok(!existsSync(path.join(folder, 'bare', 'marker.ran')));
  });

  step(own, 'one that is too old is named, and runs the program as it was written', async window => {
    await window.open('marker.py', 'outdated');
    await window.command(RUN);
    const message = window.notification(`Dynascope needs CPython 3.11 or later; ${old} is 3.9.18.`);
    await message.waitFor();
    await window.screenshot('18-old-python');
    await message.hover(); // its buttons are shown by then, if not before
    await message.getByText('Run Uncompiled').click();
    const ran = path.join(folder, 'outdated', 'marker.ran');
    await window.exists(ran);
    await window.command('Notifications: Clear All Notifications');
  });

  step(own, 'a good one runs the programs of its folder', async window => {
    await window.open('marker.py', 'good');
    await window.command(RUN);
    await window.output('nothing was compiled').waitFor();
    await window.exists(path.join(folder, 'good', 'marker.ran'));
  });
});

describe('an untrusted workspace', () => {
  const own = inWindow('untrusted', { settings: { 'dynascope.pythonPath': python }, trusted: false });

  step(own, 'runs nothing, and says so', async window => {
    await window.open('marker.py');
    await window.command(RUN);
    await window.notification(/Restricted Mode/).waitFor();
    await window.screenshot('16-restricted');
    assert.ok(!existsSync(path.join(own.folder, 'marker.ran')));
  });
});
