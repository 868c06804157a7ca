/** The interpreter chosen in Microsoft's Python extension, where that is installed. Only what is used of its API is typed. */

import * as vscode from 'vscode';

const IDENTIFIER = 'ms-python.python';
const CHOOSE_COMMAND = 'python.setInterpreter';

interface PythonApi {
  readonly environments?: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { readonly path: string };
    resolveEnvironment(
      environment: { readonly path: string },
    ): Promise<{ readonly executable: { readonly uri?: vscode.Uri } } | undefined>;
    readonly onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

export async function chosenInPythonExtension(resource: vscode.Uri | undefined): Promise<string | undefined> {
  const environments = (await api())?.environments;
  if (environments === undefined) {
    return undefined;
  }
  const environment = await environments.resolveEnvironment(environments.getActiveEnvironmentPath(resource));
  return environment?.executable.uri?.fsPath;
}

export async function onPythonExtensionChange(listener: () => void): Promise<vscode.Disposable | undefined> {
  return (await api())?.environments?.onDidChangeActiveEnvironmentPath(listener);
}

/** Lets the user choose: in the Python extension where it is installed, else in our own setting. */
export async function letUserChoose(): Promise<void> {
  if (vscode.extensions.getExtension(IDENTIFIER) !== undefined) {
    await vscode.commands.executeCommand(CHOOSE_COMMAND);
  } else {
    await vscode.commands.executeCommand('workbench.action.openSettings', 'dynascope.pythonPath');
  }
}

/** A Python extension that fails to start must not take Dynascope with it: the next source is asked instead. */
async function api(): Promise<PythonApi | undefined> {
  try {
    return await vscode.extensions.getExtension<PythonApi>(IDENTIFIER)?.activate();
  } catch {
    return undefined;
  }
}
