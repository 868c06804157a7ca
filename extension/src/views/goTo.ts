/** To a line of the user's source, in the column where the source lies. */

import * as vscode from 'vscode';
import { CELL_SCHEME } from '../protocol';

/** `line` from 0. */
export async function goToLine(uri: vscode.Uri, line: number): Promise<void> {
  const place = new vscode.Range(line, 0, line, 0);
  if (uri.scheme === CELL_SCHEME) {
    return goToCell(uri, place);
  }
  const shows = (tab: vscode.Tab) => tab.input instanceof vscode.TabInputText && tab.input.uri.toString() === uri.toString();
  const column = vscode.window.tabGroups.all.find(group => group.tabs.some(shows))?.viewColumn ?? vscode.ViewColumn.One;
  await vscode.window.showTextDocument(uri, { selection: place, viewColumn: column });
}

/** A cell is shown by its notebook, also where that lies in a column beside. */
async function goToCell(uri: vscode.Uri, place: vscode.Range): Promise<void> {
  const isIt = (cell: vscode.NotebookCell) => cell.document.uri.toString() === uri.toString();
  const notebook = vscode.workspace.notebookDocuments.find(candidate => candidate.getCells().some(isIt));
  const cell = notebook?.getCells().find(isIt);
  if (notebook === undefined || cell === undefined) {
    return sayEdited();
  }
  const shown = vscode.window.visibleNotebookEditors.find(editor => editor.notebook === notebook);
  await vscode.window.showNotebookDocument(notebook, {
    ...(shown?.viewColumn !== undefined && { viewColumn: shown.viewColumn }),
    selections: [new vscode.NotebookRange(cell.index, cell.index + 1)],
  });
  const editor = vscode.window.visibleTextEditors.find(({ document }) => document === cell.document);
  if (editor !== undefined) {
    editor.selection = new vscode.Selection(place.start, place.start);
    editor.revealRange(place);
  }
}

/** As the server names a file in a link: of a cell the notebook's path with the cell's name behind it. */
export function pathOf(uri: vscode.Uri): string {
  return uri.scheme === CELL_SCHEME ? `${uri.fsPath}#${uri.fragment}` : uri.fsPath;
}

/** Where a link leads to a line that is no more what it was. */
export function sayEdited(): void {
  void vscode.window.setStatusBarMessage('Dynascope: this line was edited after the run', 4000);
}
