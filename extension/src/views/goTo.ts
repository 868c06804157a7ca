/** To a line of the user's source, in the column where the source lies. */

import * as vscode from 'vscode';

/** `line` from 0. */
export async function goToLine(uri: vscode.Uri, line: number): Promise<void> {
  const place = new vscode.Range(line, 0, line, 0);
  const shows = (tab: vscode.Tab) => tab.input instanceof vscode.TabInputText && tab.input.uri.toString() === uri.toString();
  const column = vscode.window.tabGroups.all.find(group => group.tabs.some(shows))?.viewColumn ?? vscode.ViewColumn.One;
  await vscode.window.showTextDocument(uri, { selection: place, viewColumn: column });
}

/** Where a link leads to a line that is no more what it was. */
export function sayEdited(): void {
  void vscode.window.setStatusBarMessage('Dynascope: this line was edited after the run', 4000);
}
