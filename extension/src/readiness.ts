/** What has to be so before a file is run: it is saved, the server runs, and its interpreter has a torch. */

import * as vscode from 'vscode';
import type { Server } from './client';
import { showProblem, type Actions } from './python/interpreter';
import { saved } from './saving';
import { runUncompiled } from './uncompiled';

/** False where something is missing; the user has then been told what, and what to do: the program can still be run. */
export async function ready(server: Server, uri: vscode.Uri, words?: readonly string[]): Promise<boolean> {
  return (await saved(uri.toString())) && (await usable(server, uri, words)) && (await server.configure(uri));
}

/** True where the server runs and has a torch to run programs with. */
async function usable(server: Server, resource: vscode.Uri, words?: readonly string[]): Promise<boolean> {
  const { problem } = await server.interpreterFor(resource);
  if ((await server.running()) === undefined) {
    // One that crashed deserves another try.
    await server.restart();
  } else if (problem !== undefined && problem === server.interpreter?.problem) {
    // What was missing may have been installed since. Where it was not, what the server knows stays: a report made elsewhere. An
    // interpreter of another folder is asked anew anyway.
    await server.restartIfInterpreterChanged();
  }
  const { executable, facts } = await server.interpreterFor(resource);
  const starts = executable !== undefined && facts !== undefined;
  return explained(server, resource, starts ? { 'Run Uncompiled': () => runUncompiled(executable, resource, words) } : {});
}

/** As `usable`, of things as they are. `actions` are offered beside those that repair. */
export async function explained(server: Server, resource?: vscode.Uri, actions: Actions = {}): Promise<boolean> {
  const client = await server.running();
  const { problem } = await server.interpreterFor(resource);
  if (problem !== undefined) {
    void showProblem(problem, actions);
  } else if (client === undefined) {
    void sayNotRunning();
  }
  return client !== undefined && problem === undefined;
}

export async function sayNotRunning(): Promise<void> {
  const answer = await vscode.window.showErrorMessage('The Dynascope server does not run.', 'Show Log', 'Restart');
  if (answer === 'Show Log') {
    await vscode.commands.executeCommand('dynascope.showLogs');
  } else if (answer === 'Restart') {
    await vscode.commands.executeCommand('dynascope.restartServer');
  }
}
