/** A program whose interpreter or torch is too old to compile for runs as it was written: a task, whose terminal stays. */

import * as path from 'node:path';
import * as vscode from 'vscode';
import { configuration } from './settings';

export async function runUncompiled(executable: string, file: vscode.Uri, words?: readonly string[]): Promise<void> {
  const { environment, run } = configuration(executable, file);
  const options = { cwd: path.dirname(file.fsPath), env: environment };
  const program = new vscode.ProcessExecution(executable, [file.fsPath, ...(words ?? run.arguments)], options);
  const scope = vscode.workspace.getWorkspaceFolder(file) ?? vscode.TaskScope.Workspace;
  await vscode.tasks.executeTask(new vscode.Task({ type: 'process' }, scope, path.basename(file.fsPath), 'Dynascope', program));
}
