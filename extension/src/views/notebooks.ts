/** Cells that ran under `%%dynascope`: what their output says for an editor is handed to the server, which shows it in the cells. */

import * as vscode from 'vscode';
import type { Server } from '../client';
import { cellReports, type RanCell } from './cellReports';

export function registerNotebooks(server: Server): vscode.Disposable {
  const told = new Map<string, string>();
  const tell = (notebook: vscode.NotebookDocument): void => {
    const cells = notebook.getCells().filter(cell => cell.kind === vscode.NotebookCellKind.Code);
    for (const { key, report } of cellReports(cells.map(ranCell))) {
      if (told.get(report.cell) !== key && vscode.workspace.isTrusted) {
        told.set(report.cell, key);
        void server.cellRan(report);
      }
    }
  };
  const tellAll = (): void => {
    told.clear();
    vscode.workspace.notebookDocuments.forEach(tell);
  };
  return vscode.Disposable.from(
    vscode.workspace.onDidOpenNotebookDocument(tell),
    vscode.workspace.onDidChangeNotebookDocument(change => tell(change.notebook)),
    vscode.workspace.onDidCloseNotebookDocument(notebook => {
      notebook.getCells().forEach(cell => told.delete(cell.document.uri.toString()));
    }),
    // A server that has started anew knows of no cell.
    server.onState(state => state === 'running' && tellAll()),
  );
}

function ranCell(cell: vscode.NotebookCell): RanCell {
  const items = cell.outputs.flatMap(output => output.items);
  return { uri: cell.document.uri.toString(), items: items.map(({ mime, data }) => ({ mime, data })) };
}
