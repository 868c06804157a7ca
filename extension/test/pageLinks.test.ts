import assert from 'node:assert/strict';
import { test } from 'node:test';
import { followable } from '../src/views/pageLinks';

test('a link into the workspace begins at its root', () => {
  assert.equal(followable('- x ([gate.py:8](file:///home/me/work/gate.py#L8))', '/home/me/work'), '- x ([gate.py:8](/gate.py#L8))');
});

test('a link out of the workspace goes up', () => {
  assert.equal(followable('[a.py:1](file:///home/me/other/a.py#L1)', '/home/me/work'), '[a.py:1](/../other/a.py#L1)');
});

test('names stay encoded', () => {
  assert.equal(followable('[x](file:///w/gr%C3%B6%C3%9Fer%20%231.py#L3)', '/w'), '[x](/gr%C3%B6%C3%9Fer%20%231.py#L3)');
});

test('other links, and all links without a folder, stay', () => {
  assert.equal(followable('[x](https://example.org/a)', '/w'), '[x](https://example.org/a)');
  assert.equal(followable('[x](file:///w/a.py#L3)', undefined), '[x](file:///w/a.py#L3)');
});
