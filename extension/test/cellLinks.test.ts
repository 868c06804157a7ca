import assert from 'node:assert/strict';
import { test } from 'node:test';
import { placeInCell } from '../src/views/cellLinks';

test('a link into a cell is its own fragment and a line from 0', () => {
  const target = { scheme: 'vscode-notebook-cell', fragment: 'W0sZmlsZQ==#L9' };
  assert.deepEqual(placeInCell(target), { fragment: 'W0sZmlsZQ==', line: 8 });
});

test('links to files, and to a cell without a line, are left to VS Code', () => {
  assert.equal(placeInCell({ scheme: 'file', fragment: 'L9' }), undefined);
  assert.equal(placeInCell({ scheme: 'vscode-notebook-cell', fragment: 'W0sZmlsZQ==' }), undefined);
});
