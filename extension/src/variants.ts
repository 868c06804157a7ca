/** Which variant of a function is shown: the person picks one of those that the server offers. */

import * as vscode from 'vscode';
import type { Server } from './client';
import { ServerCommand, type Variants } from './protocol';

export async function chooseVariant(server: Server, uri: string, where: Record<string, unknown>): Promise<Variants | undefined> {
  const offered = await server.execute<Variants>(ServerCommand.chooseVariant, uri, where);
  if (offered === undefined || offered === null) {
    return undefined;
  }
  const picked = await vscode.window.showQuickPick(items(offered), {
    title: 'Dynascope: Show Variant',
    placeHolder: 'Shapes, graphs and kernels are shown of one variant at a time',
  });
  if (picked === undefined) {
    return offered;
  }
  return server.execute<Variants>(ServerCommand.chooseVariant, uri, { function: offered.function, entry: picked.entry });
}

function items({ variants, chosen }: Variants): (vscode.QuickPickItem & { entry: string })[] {
  return variants.map(({ entry, title, calls }) => ({
    entry,
    label: entry === chosen ? `$(check) ${title}` : title,
    description: calls === 1 ? '1 call' : `${calls} calls`,
  }));
}
