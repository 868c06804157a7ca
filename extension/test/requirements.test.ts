import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Facts } from '../src/python/probe';
import { judge } from '../src/python/requirements';

const GOOD: Facts = { executable: '/usr/bin/python3', implementation: 'cpython', version: [3, 12, 1], torch: '2.13.0+cpu' };

test('what is supported, and what is newer, has no problem', () => {
  const newer = ['2.15.0', '3.0.1', '2.16.0.dev20261101+cu130', '2.14.0a0+git1a2b3c4', '', 'built here'];
  for (const torch of ['2.11.0', '2.12.1+cu130', '2.13.0a0+gitabc', ...newer]) {
    for (const version of [[3, 11, 7], [3, 13, 0], [3, 14, 10], [3, 15, 2], [4, 0, 0]]) {
      assert.equal(judge({ ...GOOD, torch, version }), undefined);
    }
  }
});

test('a Python too old, or another implementation, is named with its version', () => {
  assert.match(judge({ ...GOOD, version: [3, 10, 12] })?.problem ?? '', /needs CPython 3\.11 or later; \/usr\/bin\/python3 is 3\.10\.12/);
  assert.equal(judge({ ...GOOD, version: [2, 7, 18] })?.concerns, 'interpreter');
  assert.match(judge({ ...GOOD, implementation: 'pypy' })?.problem ?? '', /is pypy 3\.12\.1/);
});

test('a missing torch comes with the command that installs it into that very interpreter', () => {
  const problem = judge({ ...GOOD, executable: '/my envs/python', torch: null });
  assert.equal(problem?.concerns, 'torch');
  assert.equal(problem?.command, '"/my envs/python" -m pip install "torch>=2.11"');
});

test('a torch that is too old is named, and 2.2 is older than 2.11', () => {
  assert.match(judge({ ...GOOD, torch: '2.2.0' })?.problem ?? '', /needs PyTorch 2\.11 or later; .* has 2\.2\.0/);
  assert.equal(judge({ ...GOOD, torch: '1.13.1+cpu' })?.concerns, 'torch');
  assert.equal(judge({ ...GOOD, torch: '2.10.0a0+gitabc' })?.concerns, 'torch');
});
