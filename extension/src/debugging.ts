/** A launch configuration for the Python Debugger: the program under Dynascope, with breakpoints in the functions it compiles. */

import * as path from 'node:path';
import * as vscode from 'vscode';
import { activeCursorOnDisk, sayOpenFirst } from './activeFile';
import type { Server } from './client';
import { enginePath } from './launch';
import { ready } from './readiness';
import { argumentsFor } from './rememberedArguments';
import { configuration } from './settings';

const DEBUGGER = 'debugpy';

export function registerDebugging(context: vscode.ExtensionContext): vscode.Disposable {
  const provider: vscode.DebugConfigurationProvider = { provideDebugConfigurations: () => [launch(context)] };
  return vscode.debug.registerDebugConfigurationProvider(DEBUGGER, provider, vscode.DebugConfigurationProviderTriggerKind.Dynamic);
}

/** What a debugger looks at runs as it was written, so that every line stops; the report says so. */
export async function debugFile(context: vscode.ExtensionContext, server: Server): Promise<void> {
  const uri = (await activeCursorOnDisk())?.uri;
  if (uri === undefined) {
    sayOpenFirst();
    return;
  }
  if (!(await ready(server, uri))) {
    return;
  }
  if (!hasDebugger()) {
    void vscode.window.showWarningMessage('Install the extension "Python Debugger" (ms-python.debugpy) to debug a program.');
    return;
  }
  const { executable } = await server.interpreterFor(uri);
  await vscode.debug.startDebugging(vscode.workspace.getWorkspaceFolder(uri), launch(context, uri, executable));
}

/** For the file that is open, or (without `uri`) as `launch.json` writes it. */
export function launch(context: vscode.ExtensionContext, uri?: vscode.Uri, executable?: string): vscode.DebugConfiguration {
  const settings = configuration(executable ?? '', uri);
  return {
    type: DEBUGGER,
    request: 'launch',
    name: uri === undefined ? 'Dynascope: current file' : `Dynascope: ${path.basename(uri.fsPath)}`,
    module: 'dynascope',
    args: ['run', uri?.fsPath ?? '${file}', '--', ...((uri && argumentsFor(context.workspaceState, uri)) ?? settings.run.arguments)],
    cwd: uri === undefined ? '${workspaceFolder}' : (vscode.workspace.getWorkspaceFolder(uri)?.uri.fsPath ?? path.dirname(uri.fsPath)),
    env: { ...settings.environment, PYTHONPATH: [enginePath(context), process.env.PYTHONPATH].filter(Boolean).join(path.delimiter) },
    console: 'integratedTerminal',
    justMyCode: true,
    subProcess: true,
    ...(executable !== undefined && { python: executable }),
  };
}

function hasDebugger(): boolean {
  const debuggers = vscode.extensions.all.flatMap(({ packageJSON }) => contributed(packageJSON));
  return debuggers.some(({ type }) => type === DEBUGGER);
}

function contributed(manifest: unknown): { type?: string }[] {
  return (manifest as { contributes?: { debuggers?: { type?: string }[] } }).contributes?.debuggers ?? [];
}
