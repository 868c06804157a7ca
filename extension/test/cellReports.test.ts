import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cellReports } from '../src/views/cellReports';

const MIME = 'application/vnd.dynascope.report+json';
const item = (value: unknown, mime = MIME) => ({ mime, data: new TextEncoder().encode(JSON.stringify(value)) });
const data = (file: string, kernel = 'k') => ({ kernel, file, report: `/runs/${kernel}/${file}.json`, texts: { [file]: 'f(x)' } });

test('each cell that ran has one, with the names of its kernel', () => {
  const cells = [
    { uri: 'cell:1', items: [item('<p>', 'text/html'), item(data('cell_1.py'))] },
    { uri: 'cell:2', items: [] },
    { uri: 'cell:3', items: [item(data('cell_2.py'))] },
    { uri: 'cell:4', items: [item(data('cell_2.py', 'earlier'))] },
  ];
  const found = cellReports(cells);
  assert.deepEqual(found.map(({ report }) => report.cell), ['cell:1', 'cell:3', 'cell:4']);
  assert.deepEqual(found[1]?.report.files, { 'cell_1.py': 'cell:1', 'cell_2.py': 'cell:3' });
  assert.deepEqual(found[2]?.report.files, { 'cell_2.py': 'cell:4' });
  assert.deepEqual(found[0]?.report.cells, ['cell:1', 'cell:2', 'cell:3', 'cell:4']);
  assert.notEqual(found[1]?.key, found[2]?.key);
});

test('an output that says something else is none', () => {
  const broken = { mime: MIME, data: new TextEncoder().encode('{') };
  assert.deepEqual(cellReports([{ uri: 'cell:1', items: [broken, item({}), item({ kernel: 'k' })] }]), []);
});
