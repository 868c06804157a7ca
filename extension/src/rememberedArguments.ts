/** What a person typed as the arguments of a file: it runs with them again, also in a later window, until they are typed anew. */

import * as vscode from 'vscode';
import { splitArguments } from './arguments';

export function typedFor(state: vscode.Memento, uri: vscode.Uri): string | undefined {
  return state.get<string>(key(uri));
}

/** `undefined` where nothing was typed: the settings' arguments are meant then. */
export function argumentsFor(state: vscode.Memento, uri: vscode.Uri): string[] | undefined {
  const typed = typedFor(state, uri);
  return typed === undefined ? undefined : splitArguments(typed);
}

/** An empty line is forgotten rather than kept. */
export async function remember(state: vscode.Memento, uri: vscode.Uri, typed: string): Promise<void> {
  await state.update(key(uri), typed.trim() === '' ? undefined : typed);
}

function key(uri: vscode.Uri): string {
  return `dynascope.arguments:${uri.toString()}`;
}
