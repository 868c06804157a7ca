import assert from 'node:assert/strict';
import { test } from 'node:test';
import { followableInHover, OPEN_DOCUMENT } from '../src/views/hoverLinks';

test('a link to a document becomes a command that has its address', () => {
  const uri = 'dynascope:/gr%C3%B6%C3%9Fer%20%231.py-1a2b/k1/mul_kernel.cpp';
  const [, query = ''] = /^\[k1 mul\]\(command:([^)]*)\) \(C\+\+\)$/.exec(followableInHover(`[k1 mul](${uri}) (C++)`)) ?? [];
  assert.ok(query.startsWith(`${OPEN_DOCUMENT}?`));
  assert.deepEqual(JSON.parse(decodeURIComponent(query.slice(OPEN_DOCUMENT.length + 1))), [uri]);
});

test('every link of a hover is one of its own', () => {
  assert.equal(followableInHover('[a](dynascope:/a) and [b](dynascope:/b)').match(/command:/g)?.length, 2);
});

test('other links and plain text stay', () => {
  const text = '`x[0](dynascope)` [page](https://example.org/a) [file](file:///a.py#L3)';
  assert.equal(followableInHover(text), text);
});
