/**
 * Markdown of the server's pages as HTML. Every block, and every link, says in which line of the page it stands.
 *
 *     "# a.py\n- x ([a.py:8](file:///w/a.py#L8))"
 *       ->  <h1 data-line="0">a.py</h1> <ul data-line="1"><li data-line="1">x (<a href="file:///w/a.py#L8" data-line="1">a.py:8</a>)</li></ul>
 *
 * Text stays text: no HTML of the page's is taken for that. Knows nothing of VS Code.
 */

import MarkdownIt from 'markdown-it';

type Token = ReturnType<MarkdownIt['parse']>[number];

const KEYWORDS =
  'and as assert async await break class continue def del elif else except False finally for from global if import in is lambda' +
  ' None nonlocal not or pass raise return True try while with yield';
const PARTS = new RegExp(
  [
    String.raw`(?<comment>#.*)`,
    String.raw`(?<string>\b[fFrRbBuU]{0,2}("""[\s\S]*?"""|'''[\s\S]*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|"""[\s\S]*?"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')`,
    String.raw`(?<number>\b\d[\w.]*)`,
    String.raw`(?<keyword>\b(?:${KEYWORDS.split(' ').join('|')})\b)`,
    String.raw`(?<decorator>^[ \t]*@[\w.]+)`,
  ].join('|'),
  'gm',
);

let made: MarkdownIt | undefined;

export function rendered(markdown: string): string {
  made ??= maker();
  return made.render(markdown);
}

function maker(): MarkdownIt {
  const html = new MarkdownIt({ html: false, highlight: (text, language) => (language === 'python' ? coloured(text) : '') });
  // The default takes no `file:`; a page is the server's own text, and what a click does is the extension's to say.
  html.validateLink = link => !/^\s*(?:javascript|vbscript|data|command):/i.test(link);
  html.core.ruler.push('lines', ({ tokens }) => tokens.forEach(sayLine));
  return html;
}

function sayLine(token: Token): void {
  const [line] = token.map ?? [];
  if (line === undefined) {
    return;
  }
  if (token.nesting === 1 || token.type === 'fence') {
    token.attrSet('data-line', `${line}`);
  }
  let own = line;
  for (const part of token.children ?? []) {
    if (part.type === 'softbreak' || part.type === 'hardbreak') {
      own += 1;
    } else if (part.type === 'link_open') {
      part.attrSet('data-line', `${own}`);
    }
  }
}

/** Python with its comments, strings, numbers and keywords marked, for `STYLE` of pages.ts. */
function coloured(text: string): string {
  let html = '';
  let end = 0;
  for (const match of text.matchAll(PARTS)) {
    const [kind] = Object.entries(match.groups ?? {}).find(([, value]) => value !== undefined) ?? ['text'];
    html += `${escaped(text.slice(end, match.index))}<span class="${kind}">${escaped(match[0])}</span>`;
    end = match.index + match[0].length;
  }
  return html + escaped(text.slice(end));
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
