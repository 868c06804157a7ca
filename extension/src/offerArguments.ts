/** A program that ended because it wants arguments: they are asked for, and it runs again. */

import * as vscode from 'vscode';
import type { Server } from './client';
import { isEnding } from './protocol';

const ANSWER = 'Run with Arguments…';

export function registerOffersOfArguments(server: Server): vscode.Disposable {
  return server.onRunState(state => {
    if (isEnding(state) && state.refusedArguments) {
      void offer(vscode.Uri.parse(state.uri), state.refusedArguments);
    }
  });
}

async function offer(uri: vscode.Uri, why: string): Promise<void> {
  const answer = await vscode.window.showWarningMessage(`${vscode.workspace.asRelativePath(uri)}: ${why}`, ANSWER);
  if (answer !== undefined) {
    await vscode.commands.executeCommand('dynascope.runWithArguments', uri);
  }
}
