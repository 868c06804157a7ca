/** What a bug report needs: versions, interpreter, settings that differ from their defaults, and the server's own words. */

import * as vscode from 'vscode';
import type { Server } from './client';
import { ServerCommand } from './protocol';
import { describe } from './python/interpreter';
import { SECTION } from './settings';

/** Its values may be secrets. Only the names are told. */
const PRIVATE_SETTING = 'env';

export async function debugInformation(context: vscode.ExtensionContext, server: Server): Promise<string> {
  const { version } = context.extension.packageJSON as { version: string };
  const answer = await server.execute<{ text: string }>(ServerCommand.debugInformation).catch(String);
  return [
    `Dynascope ${version}, VS Code ${vscode.version}, ${process.platform} ${process.arch}, ${vscode.env.appHost}`,
    `Workspace trusted: ${vscode.workspace.isTrusted ? 'yes' : 'no'}`,
    `Interpreter: ${server.interpreter ? describe(server.interpreter) : 'not looked for'}`,
    `Server: ${server.state}`,
    ...changedSettings(),
    '',
    typeof answer === 'string' ? answer : (answer?.text ?? 'The server does not run.'),
  ].join('\n');
}

function changedSettings(): string[] {
  const settings = vscode.workspace.getConfiguration(SECTION, null);
  return ['pythonPath', 'arguments', PRIVATE_SETTING, 'device', 'dynamic', 'fullgraph', 'backend', 'timeout', 'codeLens', 'inlayHints']
    .map(name => ({ name, value: settings.get(name), usual: settings.inspect(name)?.defaultValue }))
    .filter(({ value, usual }) => JSON.stringify(value) !== JSON.stringify(usual))
    .map(({ name, value }) => `${SECTION}.${name}: ${JSON.stringify(name === PRIVATE_SETTING ? Object.keys(value as object) : value)}`);
}
