/**
 * One line as typed -> the arguments of a program; `undefined` where a quotation mark is not closed.
 *
 *     --name "first run" -v   ->   ['--name', 'first run', '-v']
 */
export function splitArguments(line: string): string[] | undefined {
  const words = line.match(WORD) ?? [];
  const leftOver = line.replace(WORD, '').trim();
  return leftOver === '' ? words.map(unquoted) : undefined;
}

/** Pieces without a space between them make one word: plain text, an escaped character, a quoted string. */
const PIECE = /'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^\s'"\\]/.source;
const WORD = new RegExp(`(?:${PIECE})+`, 'g');

function unquoted(word: string): string {
  return word.replace(new RegExp(PIECE, 'g'), piece => {
    if (piece.startsWith("'")) {
      return piece.slice(1, -1);
    }
    const inner = piece.startsWith('"') ? piece.slice(1, -1) : piece;
    return inner.replace(/\\(.)/g, '$1');
  });
}
