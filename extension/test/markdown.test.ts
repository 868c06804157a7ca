import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rendered } from '../src/views/markdown';

test('blocks and links say their line, within a paragraph too', () => {
  const html = rendered('# a.py\n\nfirst\nthen ([a.py:8](file:///w/a.py#L8))\n\n- one\n  - two ([a.py:9](file:///w/a.py#L9))\n');
  assert.match(html, /<h1 data-line="0">a\.py<\/h1>/);
  assert.match(html, /<p data-line="2">first\nthen \(<a href="file:\/\/\/w\/a\.py#L8" data-line="3">/);
  assert.match(html, /<li data-line="6">two \(<a href="file:\/\/\/w\/a\.py#L9" data-line="6">/);
});

test('names stay encoded, and lead there', () => {
  assert.match(rendered('[x](file:///w/gr%C3%B6%C3%9Fer%20%231.py#L3)'), /href="file:\/\/\/w\/gr%C3%B6%C3%9Fer%20%231\.py#L3"/);
});

test('text stays text, and no link runs anything', () => {
  const html = rendered('<img src=x onerror=y> `<b>` [x](javascript:alert(1)) [y](command:z)');
  assert.doesNotMatch(html, /<img|<b>|<a /);
});

test('tables are tables', () => {
  assert.match(rendered('| a | b |\n| --- | --- |\n| `x` | 1 |\n'), /<td><code>x<\/code><\/td>/);
});

test('a program is coloured and nothing of it is lost', () => {
  const program = '@wraps(f)\ndef f(x):  # "no" string\n    return f"a\\"b" if x < 0x1 else \'\'\n';
  const html = rendered(`\`\`\`python\n${program}\`\`\`\n`);
  assert.match(html, /<span class="decorator">@wraps<\/span>/);
  assert.match(html, /<span class="comment"># &quot;no&quot; string<\/span>/);
  const text = html.replace(/<[^>]*>/g, '').replaceAll('&quot;', '"').replaceAll('&lt;', '<').replaceAll('&amp;', '&');
  assert.equal(text, `${program}\n`);
});
