/** Which file a command of the palette means. */

import * as vscode from 'vscode';
import { CELL_SCHEME, DOCUMENT_SCHEME } from './protocol';

/** Of Dynascope's own views and the panel: looking at one, a person means the program beside it. */
const BESIDE = [DOCUMENT_SCHEME, 'output'];

/** The Python file or the notebook's cell in the active editor; where a view of ours is active, the one beside it. */
export function activeFile(): vscode.Uri | undefined {
  return activeDocument(({ uri }) => uri.scheme === 'file' || uri.scheme === CELL_SCHEME)?.uri;
}

/** As `activeFile`; a file that has no name yet gets one first, for what runs is the file on disk. */
export async function activeFileOnDisk(): Promise<vscode.Uri | undefined> {
  const document = activeDocument(({ uri }) => uri.scheme === 'file' || uri.scheme === 'untitled');
  return document?.isUntitled ? vscode.workspace.save(document.uri) : document?.uri;
}

function activeDocument(fits: (document: vscode.TextDocument) => boolean): vscode.TextDocument | undefined {
  const { activeTextEditor: active, visibleTextEditors: visible } = vscode.window;
  const editors = active === undefined || BESIDE.includes(active.document.uri.scheme) ? visible : [active];
  return editors.map(editor => editor.document).find(document => document.languageId === 'python' && fits(document));
}
