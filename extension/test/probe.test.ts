import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
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
