/** Source and generated text move together: the lines that belong to the cursor's are marked and scrolled to, both ways. */

import * as vscode from 'vscode';
import type { Server } from '../client';
import { DOCUMENT_SCHEME, type Links } from '../protocol';

const PAUSE_MS = 40;

export function registerLinked(server: Server): vscode.Disposable {
  return new Linked(server);
}

class Linked implements vscode.Disposable {
  private readonly mark = vscode.window.createTextEditorDecorationType({
    isWholeLine: true,
    backgroundColor: new vscode.ThemeColor('editor.wordHighlightBackground'),
    overviewRulerColor: new vscode.ThemeColor('editorOverviewRuler.wordHighlightForeground'),
    overviewRulerLane: vscode.OverviewRulerLane.Center,
  });
  private readonly known = new Map<string, Promise<Links | undefined>>();
  private readonly listeners: vscode.Disposable;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly server: Server) {
    this.listeners = vscode.Disposable.from(
      vscode.window.onDidChangeTextEditorSelection(({ textEditor: editor }) => {
        const { line } = editor.selection.active;
        this.later(() => this.follow(editor, [line, line], true));
      }),
      vscode.window.onDidChangeTextEditorVisibleRanges(({ textEditor: editor, visibleRanges: [range] }) => {
        const { line } = editor.selection.active;
        // Where the cursor is in sight, what belongs to it is shown already.
        if (range !== undefined && (line < range.start.line || line > range.end.line)) {
          this.later(() => this.follow(editor, [range.start.line, range.end.line], false));
        }
      }),
      vscode.workspace.onDidChangeTextDocument(() => this.known.clear()),
      server.onDocumentsChanged(() => this.known.clear()),
      server.onTreeChanged(() => this.known.clear()),
      this.mark,
    );
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.listeners.dispose();
  }

  private later(action: () => Promise<void>): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void action(), PAUSE_MS);
  }

  /** Only from the editor that the person is in: the others follow. `isMarked`: lines are marked as well as scrolled to. */
  private async follow(editor: vscode.TextEditor, lines: [number, number], isMarked: boolean): Promise<void> {
    if (editor !== vscode.window.activeTextEditor) {
      return;
    }
    const made = vscode.window.visibleTextEditors.filter(({ document }) => document.uri.scheme === DOCUMENT_SCHEME);
    for (const other of editor.document.uri.scheme === DOCUMENT_SCHEME ? [editor] : made) {
      const found = (await this.links(other.document.uri))?.links ?? [];
      if (other === editor) {
        this.toSource(found.filter(({ line }) => lines[0] <= line && line <= lines[1]), isMarked);
      } else {
        const own = editor.document.uri.toString();
        const here = found.filter(({ uri, place }) => uri === own && lines[0] <= place && place <= lines[1]);
        this.show(other, here.map(({ line }) => line), isMarked);
      }
    }
    if (isMarked) {
      editor.setDecorations(this.mark, []);
    }
  }

  private toSource(here: Links['links'], isMarked: boolean): void {
    for (const source of vscode.window.visibleTextEditors.filter(({ document }) => document.uri.scheme === 'file')) {
      const own = source.document.uri.toString();
      this.show(source, here.filter(({ uri }) => uri === own).map(({ place }) => place), isMarked);
    }
  }

  private show(editor: vscode.TextEditor, lines: number[], isMarked: boolean): void {
    const ranges = [...new Set(lines)].sort((a, b) => a - b).map(line => new vscode.Range(line, 0, line, 0));
    if (isMarked) {
      editor.setDecorations(this.mark, ranges);
    }
    const [first] = ranges;
    if (first !== undefined && !ranges.some(range => editor.visibleRanges.some(seen => seen.contains(range)))) {
      editor.revealRange(first, vscode.TextEditorRevealType.InCenterIfOutsideViewport);
    }
  }

  private links(uri: vscode.Uri): Promise<Links | undefined> {
    const key = uri.toString();
    const found = this.known.get(key) ?? this.server.links(uri).catch(() => undefined);
    this.known.set(key, found);
    return found;
  }
}
