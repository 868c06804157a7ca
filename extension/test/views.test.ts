import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isEnding, type RunState } from '../src/protocol';
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
  warnings: 0,
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

test('a run names its file and shows what was found so far, then its result', () => {
  assert.match(ofRun({ ...RUN, stage: 'fuse', function: 'layer_norm' }).text, /spin\) a\.py: 2 graphs · 1 break · 3 kernels$/);
  assert.match(ofRun({ ...RUN, graphs: 0, breaks: 0, kernels: 0 }).text, /spin\) a\.py: running$/);
  assert.match(ofRun({ ...RUN, state: 'exited', exitCode: 0 }).text, /zap\) a\.py: 2 graphs · 1 break · 3 kernels$/);
  const restored = ofRun({ ...RUN, state: 'restored', warnings: 1 });
  assert.match(restored.text, /warning\) a\.py: 2 graphs/);
  assert.match(ofRun({ ...RUN, functions: 0, state: 'exited', exitCode: 0 }).text, /zap\) a\.py: nothing compiled$/);
  const failed = ofRun({ ...RUN, state: 'exited', exitCode: 1 });
  assert.deepEqual([failed.text, failed.severity], ['$(error) a.py: exit code 1', 'error']);
  assert.match(ofRun({ ...RUN, state: 'errored', cancelled: true }).text, /cancelled/);
  assert.match(ofRun({ ...RUN, state: 'errored' }).text, /failed/);
});

test('while the text is edited the counts are of what is known live', () => {
  const live = ofRun({ ...RUN, state: 'exited', exitCode: 0, live: true });
  assert.match(live.text, /zap\) a\.py: live · 2 graphs · 1 break · 3 kernels$/);
});

test('a run ends once: what is told of it later is no end', () => {
  const ended: RunState = { ...RUN, state: 'exited', exitCode: 0 };
  assert.ok(isEnding(ended) && isEnding({ ...ended, state: 'errored' }) && !isEnding(RUN));
  assert.ok(!isEnding({ ...ended, live: true }) && !isEnding({ ...ended, live: false }));
  assert.ok(!isEnding({ ...ended, state: 'restored' }) && !isEnding({ ...ended, state: 'cleared' }));
});

test('a run that breaks or meets a limit warns', () => {
  const over = ofRun({ ...RUN, uri: 'file:///my%20model.py', warnings: 1, state: 'exited', exitCode: 0 });
  assert.deepEqual([over.text, over.severity], ['$(warning) my model.py: 2 graphs · 1 break · 3 kernels', 'warning']);
});

test('a server that runs without torch warns; one that does not run is an error', () => {
  assert.equal(ofServer('running', undefined).severity, 'normal');
  assert.equal(ofServer('running', 'PyTorch is not installed').severity, 'warning');
  assert.equal(ofServer('failed', undefined).severity, 'error');
});
