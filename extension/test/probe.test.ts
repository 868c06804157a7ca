import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import * as path from 'node:path';
import { after, test } from 'node:test';
import { probe } from '../src/python/probe';

const folder = mkdtempSync(path.join(tmpdir(), 'dynascope-probe-'));
after(() => rmSync(folder, { recursive: true }));
let scripts = 0;

function script(text: string): string {
  const file = path.join(folder, `python${scripts++}`);
  writeFileSync(file, `#!/bin/sh\n${text}\n`);
  chmodSync(file, 0o755);
  return file;
}

test('a real interpreter says what it is', async () => {
  const facts = await probe('python3');
  assert.equal(facts.implementation, 'cpython');
  assert.equal(facts.version[0], 3);
  assert.ok(path.isAbsolute(facts.executable));
});

test('a missing file, a failing program and one that says something else are each told apart', async () => {
  await assert.rejects(probe('/missing/python'), /there is no such file/);
  await assert.rejects(probe(script('echo broken installation >&2; exit 3')), /broken installation/);
  await assert.rejects(probe(script('echo hello')), /gave no answer/);
});

test('what start-up files print before the answer does not spoil it', async () => {
  const facts = await probe(script('echo welcome; exec python3 "$@"'));
  assert.equal(facts.implementation, 'cpython');
});

/** Of these, what is on the PATH or of pyenv; a machine without old interpreters has nothing to try. */
const OLD = ['2.7', '3.6', '3.7', '3.10'].flatMap(version => {
  const installed = path.join(process.env['PYENV_ROOT'] ?? path.join(homedir(), '.pyenv'), 'versions');
  const found = existsSync(installed) ? readdirSync(installed).filter(name => name.startsWith(`${version}.`)) : [];
  return found.slice(0, 1).map(name => ({ version, executable: path.join(installed, name, 'bin', `python${version}`) }));
});

for (const { version, executable } of OLD) {
  test(`an old interpreter says that it is ${version}, and that it has no torch`, async () => {
    const facts = await probe(executable);
    assert.equal(facts.version.slice(0, 2).join('.'), version);
    assert.deepEqual([facts.implementation, facts.torch], ['cpython', null]);
  });
}
