/**
 * The server's pages in prose (the summary, guards, the page of a reason) as an editor of their own. A link goes to the line as it
 * lies now; what belongs to the cursor's line of the source is marked. VS Code opens it again after a reload, by its address.
 */

import { posix } from 'node:path';
import * as vscode from 'vscode';
import type { Server } from '../client';
import type { Links } from '../protocol';
import { NO_SERVER } from './documents';
import { goToLine, pathOf, sayEdited } from './goTo';
import { rendered } from './markdown';
import { PAGE_VIEW, showDocument } from './showDocument';
import { webviewPage } from './webviewPage';

/** What a page says: it was drawn, or a link in a line of it (from 0) was followed. */
interface Said {
  ready?: boolean;
  href?: string;
  line?: number;
}

const FILE_LINE = /^file:.*#L(\d+)$/;

export function registerPages(server: Server): vscode.Disposable {
  const shown = new Map<vscode.Webview, vscode.Uri>();

  async function mark(webview: vscode.Webview, page: vscode.Uri, { document, selection }: vscode.TextEditor): Promise<void> {
    const own = document.uri.toString();
    const found = (await linksOf(page)).filter(({ uri }) => uri === own);
    if (found.length > 0) {
      const here = found.filter(({ place }) => place === selection.active.line).map(({ line }) => line);
      await webview.postMessage({ here });
    }
  }

  async function linksOf(page: vscode.Uri): Promise<Links['links']> {
    return (await server.links(page).catch(() => undefined))?.links ?? [];
  }

  async function follow(page: vscode.Uri, href: string, line: number): Promise<void> {
    const [, number] = FILE_LINE.exec(href) ?? [];
    if (number === undefined) {
      // Another page, named as it lies beside this one.
      const beside = page.with({ path: posix.join(posix.dirname(page.path), href) });
      await showDocument({ uri: (/^\w+:/.test(href) ? vscode.Uri.parse(href) : beside).toString(), takeFocus: true });
      return;
    }
    const file = vscode.Uri.parse(href).with({ fragment: '' });
    const known = await linksOf(page);
    const now = known.find(link => link.line === line && pathOf(vscode.Uri.parse(link.uri)) === file.fsPath);
    if (now !== undefined) {
      await goToLine(vscode.Uri.parse(now.uri), now.place);
    } else if (known.length > 0) {
      sayEdited();
    } else {
      await goToLine(file, Number(number) - 1);
    }
  }

  async function body(page: vscode.Uri): Promise<string> {
    const answer = await server.document(page, new vscode.CancellationTokenSource().token);
    return rendered(answer?.text ?? NO_SERVER);
  }

  // No text document lies behind it: for one of Markdown VS Code loads the grammars of all languages that may stand in it.
  const provider: vscode.CustomReadonlyEditorProvider = {
    openCustomDocument: uri => ({ uri, dispose: () => undefined }),
    async resolveCustomEditor({ uri }, { webview, onDidDispose }) {
      webview.options = { enableScripts: true, localResourceRoots: [] };
      webview.onDidReceiveMessage(({ ready, href, line = 0 }: Said) => {
        if (ready === true) {
          vscode.window.visibleTextEditors.forEach(editor => void mark(webview, uri, editor));
        } else if (href !== undefined) {
          void follow(uri, href, line);
        }
      });
      shown.set(webview, uri);
      onDidDispose(() => shown.delete(webview));
      webview.html = webviewPage(`<main>${await body(uri)}</main>`, STYLE, SCRIPT);
    },
  };

  return vscode.Disposable.from(
    vscode.window.registerCustomEditorProvider(PAGE_VIEW, provider, {
      webviewOptions: { enableFindWidget: true },
      supportsMultipleEditorsPerDocument: true,
    }),
    server.onDocumentsChanged(uris => {
      for (const [webview, uri] of shown) {
        if (uris.includes(uri.toString())) {
          void body(uri).then(text => webview.postMessage({ body: text }));
        }
      }
    }),
    vscode.window.onDidChangeTextEditorSelection(({ textEditor }) => {
      shown.forEach((uri, webview) => void mark(webview, uri, textEditor));
    }),
  );
}

const STYLE = `
body { padding: 0 26px 2em; line-height: 1.55; }
main { max-width: 60em; }
h1 { font-size: 1.7em; font-weight: 600; margin: 0.8em 0 0.5em; }
h2 { font-size: 1.25em; font-weight: 600; margin: 1.6em 0 0.6em; padding-top: 0.8em;
  border-top: 1px solid var(--vscode-textSeparator-foreground, var(--vscode-widget-border, transparent)); }
h2 a, h1 a { font-weight: normal; font-size: 0.85em; }
ul { padding-left: 1.4em; } li { margin: 0.25em 0; }
a { text-decoration: none; } a:hover { text-decoration: underline; }
a:focus-visible { outline: 1px solid var(--vscode-focusBorder); outline-offset: 2px; }
code { font-family: var(--vscode-editor-font-family); font-size: 0.95em; overflow-wrap: anywhere; }
pre { padding: 0.8em 1em; border-radius: 3px; overflow-x: auto; background: var(--vscode-textCodeBlock-background); }
pre code { background: none; padding: 0; color: var(--vscode-editor-foreground); overflow-wrap: normal; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { padding: 0.25em 0.9em 0.25em 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--vscode-widget-border, transparent); }
td:last-child { min-width: 8em; }
th { font-weight: 600; }
.here ul { background: var(--vscode-editor-background); }
.here { background: var(--vscode-editor-rangeHighlightBackground); box-shadow: -2px 0 0 var(--vscode-charts-yellow); }
.comment { color: var(--vscode-descriptionForeground); }
.string { color: var(--vscode-debugTokenExpression-string); }
.number { color: var(--vscode-debugTokenExpression-number); }
.keyword, .decorator { color: var(--vscode-debugTokenExpression-name); }`;

/** Where the reader was is kept with the tab; a text that changes takes the place of the one before it without a blank. */
const SCRIPT = `
const host = acquireVsCodeApi();
const main = document.querySelector('main');
addEventListener('click', event => {
  const link = event.target.closest?.('a');
  const href = link?.getAttribute('href');
  if (href && !/^https?:/.test(href)) {
    event.preventDefault();
    event.stopPropagation();
    host.postMessage({ href, line: Number(link.dataset.line) });
  }
}, true);
addEventListener('message', ({ data: { body, here } }) => {
  if (body !== undefined) {
    main.innerHTML = body;
    host.postMessage({ ready: true });
  }
  if (here !== undefined) {
    const lines = new Set(here.map(String));
    const marked = [...main.querySelectorAll('[data-line]:not(a, ul, table, thead, tbody)')].filter(part => lines.has(part.dataset.line));
    main.querySelectorAll('.here').forEach(part => part.classList.remove('here'));
    marked.forEach(part => part.classList.add('here'));
    const box = marked[0]?.getBoundingClientRect();
    if (box && (box.bottom < 0 || box.top > innerHeight)) {
      marked[0].scrollIntoView({ block: 'center' });
    }
  }
});
addEventListener('scroll', () => host.setState({ top: scrollY }));
scrollTo(0, host.getState()?.top ?? 0);
host.postMessage({ ready: true });`;
