import assert from 'node:assert/strict';
import { test } from 'node:test';
import { splitArguments } from '../src/arguments';

const CASES: readonly (readonly [line: string, words: string[] | undefined])[] = [
  ['', []],
  ['  --epochs 2   -v ', ['--epochs', '2', '-v']],
  ['--name "first run"', ['--name', 'first run']],
  [`--name='a b' x`, ['--name=a b', 'x']],
  [String.raw`a\ b "say \"hi\"" 'it\s'`, ['a b', 'say "hi"', String.raw`it\s`]],
  ['""', ['']],
  ['"open', undefined],
  [`don't`, undefined],
];

for (const [line, words] of CASES) {
  test(`${JSON.stringify(line)} splits into ${JSON.stringify(words)}`, () => {
    assert.deepEqual(splitArguments(line), words);
  });
}
