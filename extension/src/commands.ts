/** The palette's commands. Each fills in the active file and line and asks the server; without trust, each says why not. */

import * as vscode from 'vscode';
import { activeCursor, activeCursorOnDisk, activeFile, sayOpenFirst } from './activeFile';
import { splitArguments } from './arguments';
import type { Server } from './client';
import { debugInformation } from './debugInformation';
import { debugFile } from './debugging';
import { ServerCommand, type Backend, type GraphChoice, type RunAnswer, type RunRequest } from './protocol';
import { explained, ready } from './readiness';
import { argumentsFor, remember, typedFor } from './rememberedArguments';
import { chooseVariant } from './variants';

export interface Tools {
  context: vscode.ExtensionContext;
  server: Server;
  log: vscode.LogOutputChannel;
  output: { show(): void };
}

/** `file`: what a command is about that was not asked for in an editor. */
type Command = (tools: Tools, file?: vscode.Uri) => unknown;

/** These start an interpreter, so they wait for trust. */
const TRUSTED: Readonly<Record<string, Command>> = {
  'dynascope.run': (tools, file) => run(tools, {}, file),
  'dynascope.runTestAtCursor': runTest,
  'dynascope.debugFile': ({ context, server }) => debugFile(context, server),
  'dynascope.runWithArguments': runWithArguments,
  'dynascope.checkValues': tools => run(tools, { look: 'check' }),
  'dynascope.profile': tools => run(tools, { look: 'profile' }),
  'dynascope.cancelRun': ({ server }) => server.execute(ServerCommand.cancel),
  'dynascope.openKernel': tools => openAtCursor(tools, ServerCommand.showKernel, {}),
  'dynascope.openGraph': openGraph,
  'dynascope.openGuards': tools => openAtCursor(tools, ServerCommand.showGraph, { stage: 'guards' }),
  'dynascope.pickVariant': chooseVariantAtCursor,
  'dynascope.diffVariants': tools => openAtCursor(tools, ServerCommand.compareVariants, {}),
  'dynascope.openPicture': tools => openAtCursor(tools, ServerCommand.showPicture, {}),
  'dynascope.diffRuns': tools => openAtCursor(tools, ServerCommand.compareRuns),
  'dynascope.pickReport': openReport,
  'dynascope.openSummary': tools => openAtCursor(tools, ServerCommand.showSummary),
  'dynascope.proveFixes': findFixes,
  'dynascope.tryBackends': tryBackends,
  'dynascope.tryCaptures': tools => openAtCursor(tools, ServerCommand.compareCaptures, {}),
  'dynascope.openTrace': tools => openAtCursor(tools, ServerCommand.showTrace, {}),
  'dynascope.clearResults': clearResults,
  'dynascope.restartServer': restartServer,
  'dynascope.runDoctor': tools => ask(tools, ServerCommand.doctor),
};

const ALWAYS: Readonly<Record<string, Command>> = {
  'dynascope.showLogs': ({ log }) => log.show(),
  'dynascope.showOutput': ({ output }) => output.show(),
  'dynascope.copyDebugInformation': copyDebugInformation,
};

export function registerCommands(tools: Tools): vscode.Disposable {
  const register = (guarded: (command: Command) => Command) => ([name, command]: [string, Command]) =>
    vscode.commands.registerCommand(name, (file?: unknown) => guarded(command)(tools, file instanceof vscode.Uri ? file : undefined));
  return vscode.Disposable.from(
    ...Object.entries(TRUSTED).map(
      register(command => (tools, file) => (vscode.workspace.isTrusted ? command(tools, file) : sayRestricted())),
    ),
    ...Object.entries(ALWAYS).map(register(command => command)),
  );
}

async function run({ context, server }: Tools, how: RunRequest, file?: vscode.Uri): Promise<void> {
  const uri = file ?? (await meantFile());
  if (uri === undefined) {
    return;
  }
  const words = how.arguments ?? argumentsFor(context.workspaceState, uri);
  if (await ready(server, uri, words)) {
    await server.execute<RunAnswer>(ServerCommand.compileAndRun, uri.toString(), { ...how, ...(words && { arguments: words }) });
  }
}

/** The file on disk that a command is about; where there is none, the person has been told. */
async function meantFile(): Promise<vscode.Uri | undefined> {
  if (activeFile() === undefined && vscode.window.activeTextEditor?.document.isUntitled !== true) {
    sayOpenFirst();
    return undefined;
  }
  return (await activeCursorOnDisk())?.uri;
}

/** The pytest test that the cursor is in, alone. */
async function runTest({ server }: Tools): Promise<void> {
  const cursor = await activeCursorOnDisk();
  if (cursor === undefined) {
    sayOpenFirst();
  } else if (await ready(server, cursor.uri)) {
    await server.execute<RunAnswer>(ServerCommand.runTest, cursor.uri.toString(), { line: cursor.line });
  }
}

async function runWithArguments(tools: Tools, file?: vscode.Uri): Promise<void> {
  const uri = file ?? (await meantFile());
  if (uri === undefined) {
    return;
  }
  const { workspaceState } = tools.context;
  const typed = await vscode.window.showInputBox({
    title: `Dynascope: Compile and Run ${vscode.workspace.asRelativePath(uri)}`,
    prompt: 'Arguments of the program, written as in a shell; it runs with them until you type others',
    placeHolder: '--epochs 2 --name "first run"',
    value: typedFor(workspaceState, uri) ?? '',
    ignoreFocusOut: true,
    validateInput: text => (splitArguments(text) === undefined ? 'A quotation mark is not closed.' : undefined),
  });
  if (typed !== undefined) {
    await remember(workspaceState, uri, typed);
    await run(tools, { arguments: splitArguments(typed) ?? [] }, uri);
  }
}

async function openAtCursor(tools: Tools, command: string, what?: Record<string, unknown>): Promise<void> {
  const cursor = activeCursor();
  if (cursor === undefined) {
    sayOpenFirst();
  } else {
    await ask(tools, command, cursor.uri.toString(), ...(what ? [{ line: cursor.line, ...what }] : []));
  }
}

async function openGraph(tools: Tools): Promise<void> {
  const uri = activeFile();
  if (uri === undefined) {
    sayOpenFirst();
    return;
  }
  const answer = await tools.server.execute<{ graphs: GraphChoice[] | null }>(ServerCommand.listGraphs, uri.toString());
  if (!answer?.graphs) {
    await offerToRun(tools);
    return;
  }
  const picked = await pick(answer.graphs);
  if (picked !== undefined) {
    const { function: made, stage, graph } = picked;
    await ask(tools, ServerCommand.showGraph, uri.toString(), { function: made, stage, ...(graph !== null && { graph }) });
  }
}

async function pick(choices: readonly GraphChoice[]): Promise<GraphChoice | undefined> {
  const items = choices.flatMap((choice, index) => {
    const heading = { label: choice.heading, kind: vscode.QuickPickItemKind.Separator };
    const item = { label: choice.label, description: choice.description, choice };
    return choice.heading === choices[index - 1]?.heading ? [item] : [heading, item];
  });
  const picked = await vscode.window.showQuickPick(items, {
    title: 'Dynascope: Show Graph',
    placeHolder: choices.length ? 'A stage to show' : 'Nothing of this file was compiled',
    matchOnDescription: true,
  });
  return picked && 'choice' in picked ? picked.choice : undefined;
}

/** One that was made elsewhere, by `dynascope run --json`; neither torch nor the program's machine is needed. */
async function openReport(tools: Tools): Promise<void> {
  const picked = await vscode.window.showOpenDialog({
    title: 'Dynascope: Open Report',
    filters: { Reports: ['json'] },
    canSelectMany: false,
  });
  const file = picked?.[0];
  if (file !== undefined) {
    await ask(tools, ServerCommand.openReport, file.toString());
  }
}

/** At the cursor; what a click on a lens does is in client.ts. */
async function chooseVariantAtCursor({ server }: Tools): Promise<void> {
  const cursor = activeCursor();
  if (cursor === undefined) {
    sayOpenFirst();
  } else {
    await chooseVariant(server, cursor.uri.toString(), { line: cursor.line });
  }
}

/** The program runs again with and without each edit, so it is done only when somebody asks. */
async function findFixes(tools: Tools): Promise<void> {
  const uri = activeFile();
  if (uri === undefined) {
    sayOpenFirst();
  } else if (await ready(tools.server, uri)) {
    await ask(tools, ServerCommand.findFixes, uri.toString());
  }
}

/** The program runs once under each backend that is picked, and under eager. */
async function tryBackends(tools: Tools): Promise<void> {
  const uri = activeFile();
  if (uri === undefined) {
    sayOpenFirst();
    return;
  }
  if (!(await ready(tools.server, uri))) {
    return;
  }
  const answer = await tools.server.execute<{ backends: Backend[] }>(ServerCommand.listBackends, uri.toString());
  const items = (answer?.backends ?? [])
    .filter(backend => backend.name !== 'eager')
    .map(({ name, words, state }) => ({ label: name, description: state, detail: words, picked: name === 'dynascope' }));
  const picked = await vscode.window.showQuickPick(items, {
    title: 'Dynascope: Compare Backends',
    placeHolder: 'Backends to run the file under, beside eager',
    canPickMany: true,
  });
  if (picked !== undefined && picked.length > 0) {
    await ask(tools, ServerCommand.compareBackends, uri.toString(), { backends: picked.map(item => item.label).join(',') });
  }
}

async function clearResults(tools: Tools): Promise<void> {
  await tools.server.execute(ServerCommand.clear);
}

async function restartServer(tools: Tools): Promise<void> {
  await tools.server.restart();
  await explained(tools.server);
}

async function ask({ server }: Tools, command: string, ...parameters: unknown[]): Promise<void> {
  if ((await server.running()) === undefined) {
    await explained(server);
    return;
  }
  await server.execute(command, ...parameters);
}

async function offerToRun(tools: Tools): Promise<void> {
  const answer = await vscode.window.showInformationMessage('This file has not been compiled yet.', 'Compile and Run');
  if (answer !== undefined) {
    await run(tools, {});
  }
}

async function sayRestricted(): Promise<void> {
  const answer = await vscode.window.showWarningMessage(
    'Dynascope runs nothing in Restricted Mode. Trust this workspace to compile and run its files.',
    'Manage Workspace Trust',
  );
  if (answer !== undefined) {
    await vscode.commands.executeCommand('workbench.trust.manage');
  }
}

async function copyDebugInformation({ context, server }: Tools): Promise<void> {
  await vscode.env.clipboard.writeText(await debugInformation(context, server));
  void vscode.window.showInformationMessage('Dynascope: debug information copied to the clipboard.');
}
