import assert from 'node:assert/strict';
import { test } from 'node:test';
import { columnFor, type Group } from '../src/views/columns';

const group = (column: number, changes: Partial<Group> = {}): Group => ({ column, tabs: 1, isGenerated: false, holds: false, ...changes });

test('a page in an empty window leaves no empty half beside it', () => {
  assert.equal(columnFor([], true), 'active');
  assert.equal(columnFor([group(1, { tabs: 0 })], true), 'active');
});

test('generated documents share a column beside the source', () => {
  assert.equal(columnFor([group(1)], true), 'beside');
  assert.equal(columnFor([group(1), group(2, { isGenerated: true })], true), 2);
});

test('the source is shown where it is open, else in a column that shows no page', () => {
  assert.equal(columnFor([group(1, { isGenerated: true }), group(2, { holds: true })], false), 2);
  assert.equal(columnFor([group(1), group(2, { isGenerated: true })], false), 1);
  assert.equal(columnFor([group(1, { isGenerated: true })], false), 'beside');
  assert.equal(columnFor([], false), 'active');
});
