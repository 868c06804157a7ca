/** Which file a command of the palette means, and where in it. */

import * as vscode from 'vscode';
import { CELL_SCHEME, DOCUMENT_SCHEME } from './protocol';

/** Of Dynascope's own views and the panel: looking at one, a person means the program beside it. */
const BESIDE = [DOCUMENT_SCHEME, 'output'];

export interface Cursor {
  uri: vscode.Uri;
  /** From 0. */
  line: number;
}

/** The Python file or the notebook's cell in the active editor, with its cursor; where a view of ours is active, the one beside it or before it. */
export function activeCursor(): Cursor | undefined {
  const editor = activeEditor(({ uri }) => uri.scheme === 'file' || uri.scheme === CELL_SCHEME);
  return editor && { uri: editor.document.uri, line: editor.selection.active.line };
}

export function activeFile(): vscode.Uri | undefined {
  return activeCursor()?.uri;
}

/** As `activeCursor`; a file that has no name yet gets one first, for what runs is the file on disk. */
export async function activeCursorOnDisk(): Promise<Cursor | undefined> {
  const editor = activeEditor(({ uri }) => uri.scheme === 'file' || uri.scheme === 'untitled');
  const uri = editor?.document.isUntitled ? await vscode.workspace.save(editor.document.uri) : editor?.document.uri;
  return uri && { uri, line: editor?.selection.active.line ?? 0 };
}

/** The Python editor that was active last: a view of ours may stand in its place, so that no Python file is visible. */
let last: vscode.TextEditor | undefined;

export function rememberActiveFile(): vscode.Disposable {
  const remember = (editor: vscode.TextEditor | undefined): void => {
    const isSource = editor?.document.languageId === 'python' && !BESIDE.includes(editor.document.uri.scheme);
    last = isSource ? editor : last;
  };
  remember(vscode.window.activeTextEditor);
  return vscode.window.onDidChangeActiveTextEditor(remember);
}

function activeEditor(fits: (document: vscode.TextDocument) => boolean): vscode.TextEditor | undefined {
  const { activeTextEditor: active, visibleTextEditors: visible } = vscode.window;
  const isBeside = active === undefined || BESIDE.includes(active.document.uri.scheme);
  const before = last === undefined || last.document.isClosed ? [] : [last];
  const editors = isBeside ? [...visible, ...before] : [active];
  return editors.find(({ document }) => document.languageId === 'python' && fits(document));
}

/** Where a command is asked for without a file that it could be about, as by a link of the walkthrough. */
export function sayOpenFirst(): void {
  void vscode.window.showInformationMessage('Open the Python file first.');
}
