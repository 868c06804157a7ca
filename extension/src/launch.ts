/** How the server is started, and what it is told at its start. `dist/python` is laid out by extension/build/python.sh. */

import * as path from 'node:path';
import type { ExtensionContext } from 'vscode';
import type { Executable } from 'vscode-languageclient/node';
import type { Configuration, InitializationOptions } from './protocol';

/**
 * `-I` keeps the user's folder, PYTHONPATH and user site out of the server, and leaves the environment as it is for
 * the user's program, which the server starts. Python puts `dist/python/server`, the folder it runs, on `sys.path`.
 */
export function serverExecutable(context: ExtensionContext, interpreter: string): Executable {
  const cwd = context.globalStorageUri.fsPath;
  return { command: interpreter, args: ['-I', bundled(context, 'server')], options: { cwd } };
}

export function initializationOptions(context: ExtensionContext, settings: Configuration): InitializationOptions {
  return {
    ...settings,
    enginePath: enginePath(context),
    storagePath: path.join(context.globalStorageUri.fsPath, 'runs'),
    trusted: true,
    client: { virtualDocuments: true, output: true, runState: true, variants: true, tree: true },
  };
}

export function enginePath(context: ExtensionContext): string {
  return bundled(context, 'engine');
}

function bundled(context: ExtensionContext, folder: string): string {
  return context.asAbsolutePath(path.join('dist', 'python', folder));
}
