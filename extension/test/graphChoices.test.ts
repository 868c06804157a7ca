import assert from 'node:assert/strict';
import { test } from 'node:test';
import { graphChoices } from '../src/graphChoices';
import type { CompileReport, EntryFact, Span, StageText } from '../src/report';

const span = (line: number): Span => ({ file: '/a.py', line, column: null, end_line: null, end_column: null });
const text = (stage: string): StageText => ({ stage, language: 'python', text: '', links: [] });

function entry(changes: Partial<EntryFact>): EntryFact {
  return {
    identifier: 'f0.e0', region: 'function', span: span(3), status: 'compiled', exit: 'return', graph: 'g0',
    guards: [], reason: null, recompiled: null, seconds: {}, texts: [text('bytecode')], ...changes,
  };
}

const REPORT: CompileReport = {
  program: { file: '/a.py', arguments: [], exit_code: 0, signal: null, seconds: 1, error: null },
  environment: { python: '3.11.7', torch: '2.13.0', dynascope: '0.1.0', device: 'cpu', compiler: null, triton: null },
  functions: [
    { identifier: 'f0', name: 'attention', span: span(3), entries: [entry({}), entry({ region: 'resume', span: span(9), graph: null })] },
    { identifier: 'f1', name: 'elsewhere', span: { ...span(1), file: '/b.py' }, entries: [entry({})] },
  ],
  graphs: [
    { identifier: 'g0', operations: 14, backend: 'dynascope', values: [], texts: [text('torch'), text('aten-forward')],
      kernels: [], externs: [], borders: [], saved_bytes: null, notes: [] },
  ],
  kernels: [],
  notes: [],
  version: 1,
};

test('each stage of each compilation in the file is offered, graphs before bytecode', () => {
  const shown = graphChoices(REPORT, '/a.py').map(({ heading, label, description }) => [heading, label, description]);
  assert.deepEqual(shown, [
    ['attention · line 3', 'Torch IR', 'g0 · 14 operations'],
    ['attention · line 3', 'ATen, forward', 'g0 · 14 operations'],
    ['attention · line 3', 'Bytecode', 'f0.e0'],
    ['attention · line 9, after a break', 'Bytecode', 'f0.e0'],
  ]);
});

test('the line that is asked for counts from 0', () => {
  assert.deepEqual(graphChoices(REPORT, '/a.py').map(choice => choice.line), [2, 2, 2, 8]);
});
