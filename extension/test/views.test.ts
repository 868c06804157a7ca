import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RunState } from '../src/protocol';
import { plain } from '../src/views/plainText';
import { counts, ofRun, ofServer } from '../src/views/statusText';

const RUN: RunState = {
  uri: 'file:///a.py',
  run: 1,
  state: 'running',
  message: 'fuse · layer_norm',
  functions: 1,
  graphs: 2,
  breaks: 1,
  kernels: 3,
  logFile: '/log',
  reportFile: '/report',
};

test('colours, links and progress bars become plain lines', () => {
  assert.equal(plain('\u001b[1;31mred\u001b[0m \u001b]8;;http://a\u0007link\u001b]8;;\u0007\r\n'), 'red link\n');
  assert.equal(plain('10%\r20%\r\n'), '10%\n20%\n');
});

test('counts agree with their nouns', () => {
  assert.equal(counts({ graphs: 1, breaks: 0, kernels: 2 }), '1 graph · 0 breaks · 2 kernels');
});

test('a run shows what was found so far, then its result', () => {
  assert.match(ofRun({ ...RUN, stage: 'fuse', function: 'layer_norm' }).text, /spin\) 2 graphs · 1 break · 3 kernels$/);
  assert.match(ofRun({ ...RUN, graphs: 0, breaks: 0, kernels: 0 }).text, /spin\) Running$/);
  assert.match(ofRun({ ...RUN, state: 'exited', exitCode: 0 }).text, /zap\) 2 graphs · 1 break · 3 kernels$/);
  assert.match(ofRun({ ...RUN, functions: 0, state: 'exited', exitCode: 0 }).text, /zap\) Nothing compiled$/);
  const failed = ofRun({ ...RUN, state: 'exited', exitCode: 1 });
  assert.deepEqual([failed.text, failed.severity], ['$(error) Exit code 1', 'error']);
  assert.match(ofRun({ ...RUN, state: 'errored', cancelled: true }).text, /Cancelled/);
  assert.match(ofRun({ ...RUN, state: 'errored' }).text, /failed/);
});

test('a server that runs without torch warns; one that does not run is an error', () => {
  assert.equal(ofServer('running', undefined).severity, 'normal');
  assert.equal(ofServer('running', 'PyTorch is not installed').severity, 'warning');
  assert.equal(ofServer('failed', undefined).severity, 'error');
});
