/** Where VS Code enters: makes the parts, connects them, starts the server if the workspace is trusted. */

import * as vscode from 'vscode';
import { rememberActiveFile } from './activeFile';
import { Server } from './client';
import { registerCommands } from './commands';
import { registerDebugging } from './debugging';
import { registerOffersOfArguments } from './offerArguments';
import { onPythonExtensionChange } from './python/pythonExtension';
import { SECTION } from './settings';
import { registerDocuments } from './views/documents';
import { registerLinked } from './views/linked';
import { registerNotebooks } from './views/notebooks';
import { registerOutput } from './views/output';
import { registerPages } from './views/pages';
import { registerPictures } from './views/pictures';
import { registerStatus } from './views/status';
import { registerTree } from './views/tree';

let server: Server | undefined;

export function activate(context: vscode.ExtensionContext): void {
  const log = vscode.window.createOutputChannel('Dynascope', { log: true });
  server = new Server(context, log);
  const output = registerOutput(server);
  context.subscriptions.push(
    server,
    output,
    rememberActiveFile(),
    registerStatus(server),
    registerDocuments(server),
    registerDebugging(context),
    registerLinked(server),
    registerNotebooks(server),
    registerOffersOfArguments(server),
    registerPages(server),
    registerPictures(server),
    registerTree(server),
    registerCommands({ context, server, log, output }),
    log,
  );
  if (vscode.workspace.isTrusted) {
    start(context, server);
  } else {
    context.subscriptions.push(vscode.workspace.onDidGrantWorkspaceTrust(() => server && start(context, server)));
  }
}

/** Ends the server, and with it the programs it runs, before the window closes. */
export async function deactivate(): Promise<void> {
  await server?.stop();
}

function start(context: vscode.ExtensionContext, server: Server): void {
  void server.restart();
  context.subscriptions.push(vscode.workspace.onDidChangeConfiguration(change => onSettings(change, server)));
  void onPythonExtensionChange(() => void server.restartIfInterpreterChanged()).then(listener => {
    if (listener !== undefined) {
      context.subscriptions.push(listener);
    }
  });
}

function onSettings(change: vscode.ConfigurationChangeEvent, server: Server): void {
  if (change.affectsConfiguration(`${SECTION}.pythonPath`)) {
    void server.restartIfInterpreterChanged();
  } else if (change.affectsConfiguration(SECTION)) {
    void server.configure();
  }
}
