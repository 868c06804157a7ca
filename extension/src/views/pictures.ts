/** Pictures of graphs: a click on a part goes to its line or kernel, and the parts of the cursor's line are marked. */

import * as vscode from 'vscode';
import type { Server } from '../client';
import { ServerCommand, type Links } from '../protocol';
import { goToLine, pathOf, sayEdited } from './goTo';
import { OPEN_PICTURE, PICTURE_VIEW } from './showDocument';
import { webviewPage } from './webviewPage';

/** What a click says: a line of the run (from 1) of a file, or a kernel. A page that has just been drawn says that it is `ready`. */
interface Click {
  ready?: boolean;
  file?: string;
  line?: number;
  kernel?: string;
}

interface Picture {
  panel: vscode.WebviewPanel;
  links: Links | undefined;
}

export function registerPictures(server: Server): vscode.Disposable {
  const shown = new Map<string, Picture>();

  async function open(uri: vscode.Uri, column: vscode.ViewColumn): Promise<void> {
    const known = shown.get(uri.toString());
    const panel = known?.panel ?? vscode.window.createWebviewPanel(PICTURE_VIEW, title(uri), column, { enableScripts: true });
    if (known === undefined) {
      shown.set(uri.toString(), { panel, links: undefined });
      panel.onDidDispose(() => shown.delete(uri.toString()));
      panel.webview.onDidReceiveMessage((click: Click) => clicked(uri, click));
    } else {
      panel.reveal(column, true);
    }
    await fill(uri);
  }

  async function fill(uri: vscode.Uri): Promise<void> {
    const picture = shown.get(uri.toString());
    const answer = await server.document(uri, new vscode.CancellationTokenSource().token);
    if (picture !== undefined && answer !== undefined) {
      picture.links = await server.links(uri);
      picture.panel.webview.html = webviewPage(answer.text, STYLE, SCRIPT);
    }
  }

  async function clicked(uri: vscode.Uri, { ready, file, line, kernel }: Click): Promise<void> {
    if (ready === true) {
      // The line that the picture was asked for at is marked, and in sight.
      vscode.window.visibleTextEditors.forEach(editor => mark(editor));
      return;
    }
    const links = (await server.links(uri)) ?? { program: null, links: [] };
    if (kernel !== undefined && links.program !== null) {
      await server.execute(ServerCommand.showKernel, links.program, { kernel });
    } else if (file !== undefined && line !== undefined) {
      const own = vscode.Uri.file(file).fsPath;
      const now = links.links.find(link => link.line === line - 1 && pathOf(vscode.Uri.parse(link.uri)) === own);
      if (now === undefined) {
        sayEdited();
      } else {
        await goToLine(vscode.Uri.parse(now.uri), now.place);
      }
    }
  }

  function mark({ document, selection }: vscode.TextEditor): void {
    for (const { panel, links } of shown.values()) {
      const own = document.uri.toString();
      if (!links?.links.some(({ uri }) => uri === own)) {
        continue;
      }
      const here = links.links.filter(({ uri, place }) => uri === own && place === selection.active.line);
      void panel.webview.postMessage(here.map(({ uri, line }) => ({ file: pathOf(vscode.Uri.parse(uri)), line: line + 1 })));
    }
  }

  return vscode.Disposable.from(
    vscode.commands.registerCommand(OPEN_PICTURE, open),
    server.onDocumentsChanged(uris => uris.filter(uri => shown.has(uri)).forEach(uri => void fill(vscode.Uri.parse(uri)))),
    vscode.window.onDidChangeTextEditorSelection(({ textEditor }) => mark(textEditor)),
    { dispose: () => [...shown.values()].forEach(({ panel }) => void panel.dispose()) },
  );
}

/** `dynascope:/train.py-1a2b3c4d/f0/picture.html` is of `train.py`. */
function title(uri: vscode.Uri): string {
  const owner = uri.path.split('/')[1] ?? '';
  return `Graphs of ${owner.replace(/-[0-9a-f]{8}$/, '')}`;
}

const STYLE = 'h2 { font-size: 1.05em; font-weight: 600; } figure { margin: 0 0 1.5em; }';

const SCRIPT = `
const host = acquireVsCodeApi();
const parts = [...document.querySelectorAll('.part')];
const said = ({ dataset: { file, line, kernel } }) => kernel === undefined ? { file, line: Number(line) } : { kernel };
for (const part of parts) {
  part.addEventListener('click', () => host.postMessage(said(part)));
  part.addEventListener('keydown', event => event.key === 'Enter' && host.postMessage(said(part)));
}
window.addEventListener('message', ({ data: places }) => {
  const here = part => places.some(({ file, line }) => part.dataset.file === file && Number(part.dataset.line) === line);
  parts.forEach(part => part.classList.toggle('here', here(part)));
  const [first] = parts.filter(here);
  const box = first?.getBoundingClientRect();
  if (box && (box.bottom < 0 || box.top > innerHeight)) {
    first.scrollIntoView({ block: 'center' });
  }
});
host.postMessage({ ready: true });`;
