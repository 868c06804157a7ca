/** The file on disk is what runs, so unsaved changes are written first. */

import * as vscode from 'vscode';

/** False where the user's changes could not be saved; VS Code has then said why. */
export async function saved(uri: string): Promise<boolean> {
  const document = vscode.workspace.textDocuments.find(candidate => candidate.uri.toString() === normal(uri));
  return document === undefined || !document.isDirty || document.save();
}

/** The server and VS Code may escape the same path differently. */
function normal(uri: string): string {
  return vscode.Uri.parse(uri).toString();
}
