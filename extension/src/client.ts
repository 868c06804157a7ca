/** The connection to the server: started once the workspace is trusted, restarted when the interpreter changes. */

import { mkdir } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import * as vscode from 'vscode';
import { ExecuteCommandRequest, LanguageClient, RevealOutputChannelOn, State } from 'vscode-languageclient/node';
import type { LanguageClientOptions } from 'vscode-languageclient/node';
import { initializationOptions, serverExecutable } from './launch';
import { CELL_SCHEME, DOCUMENT_SCHEME, Method, ServerCommand } from './protocol';
import type { CellReport, DocumentAnswer, Links, Output, RunState, TreeNode } from './protocol';
import { describe, findInterpreter, type Interpreter } from './python/interpreter';
import { configuration } from './settings';
import { ready } from './readiness';
import { argumentsFor } from './rememberedArguments';
import { chooseVariant } from './variants';
import { GO_TO, placeInCell } from './views/cellLinks';
import { commandUri } from './views/commandUri';
import { followableInHover, OPEN_DOCUMENT } from './views/hoverLinks';
import { showDocument } from './views/showDocument';

export type ServerState = 'stopped' | 'starting' | 'running' | 'failed';

export class Server implements vscode.Disposable {
  private readonly states = new vscode.EventEmitter<ServerState>();
  private readonly runStates = new vscode.EventEmitter<RunState>();
  private readonly outputs = new vscode.EventEmitter<Output>();
  private readonly changedDocuments = new vscode.EventEmitter<readonly string[]>();
  private readonly treeChanges = new vscode.EventEmitter<void>();
  private client: LanguageClient | undefined;
  private transitions: Promise<void> = Promise.resolve();
  private readonly ofOtherFolders = new Map<string, Interpreter>();

  readonly onState = this.states.event;
  readonly onRunState = this.runStates.event;
  readonly onOutput = this.outputs.event;
  readonly onDocumentsChanged = this.changedDocuments.event;
  readonly onTreeChanged = this.treeChanges.event;

  /** The one that runs the programs of the first workspace folder, and the server where it can. */
  interpreter: Interpreter | undefined;
  state: ServerState = 'stopped';

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly log: vscode.LogOutputChannel,
  ) {}

  /** Finds the interpreter anew, then starts the server or starts it again. Never rejects: the state tells. */
  restart(): Promise<void> {
    return this.afterOthers(async () => {
      await this.stopClient();
      await this.startClient();
    });
  }

  /** As `restart`, but only where another interpreter would be taken than the one that runs. */
  restartIfInterpreterChanged(): Promise<void> {
    return this.afterOthers(async () => {
      this.ofOtherFolders.clear();
      const found = await findInterpreter();
      if (JSON.stringify(found) !== JSON.stringify(this.interpreter)) {
        await this.stopClient();
        await this.startClient(found);
      }
    });
  }

  stop(): Promise<void> {
    return this.afterOthers(() => this.stopClient());
  }

  /** Waits for a start under way; `undefined` where the server does not run. */
  async running(): Promise<LanguageClient | undefined> {
    await this.transitions;
    return this.client?.state === State.Running ? this.client : undefined;
  }

  async execute<Result>(command: string, ...parameters: unknown[]): Promise<Result | undefined> {
    const client = await this.running();
    return client?.sendRequest(ExecuteCommandRequest.type, { command, arguments: parameters }) as Promise<Result> | undefined;
  }

  async document(uri: vscode.Uri, token: vscode.CancellationToken): Promise<DocumentAnswer | undefined> {
    const client = await this.running();
    return client?.sendRequest<DocumentAnswer>(Method.document, { uri: uri.toString() }, token);
  }

  async links(uri: vscode.Uri): Promise<Links | undefined> {
    const client = await this.running();
    return client?.sendRequest<Links>(Method.links, { uri: uri.toString() });
  }

  async cellRan(report: CellReport): Promise<void> {
    const client = await this.running();
    await client?.sendNotification(Method.cellReport, report);
  }

  async tree(uri: string): Promise<TreeNode[] | undefined> {
    const client = await this.running();
    return (await client?.sendRequest<{ nodes: TreeNode[] }>(Method.tree, { uri }))?.nodes;
  }

  /** Tells the server the settings as they are for `resource`. False where no server runs. */
  async configure(resource?: vscode.Uri): Promise<boolean> {
    const { executable } = await this.interpreterFor(resource);
    const client = await this.running();
    await client?.sendNotification(Method.configure, configuration(executable ?? '', resource));
    return client !== undefined;
  }

  /** Which Python runs a file: each folder of a workspace may have its own. A good one is found once between two starts. */
  async interpreterFor(resource?: vscode.Uri): Promise<Interpreter> {
    await this.transitions;
    const folder = resource && vscode.workspace.getWorkspaceFolder(resource);
    if (this.interpreter !== undefined && (folder === undefined || folder.index === 0)) {
      return this.interpreter;
    }
    const key = folder?.uri.toString() ?? '';
    const found = this.ofOtherFolders.get(key) ?? (await findInterpreter(folder?.uri));
    if (found.problem === undefined) {
      this.ofOtherFolders.set(key, found);
    }
    return found;
  }

  dispose(): void {
    void this.stop();
    vscode.Disposable.from(this.states, this.runStates, this.outputs, this.changedDocuments, this.treeChanges).dispose();
  }

  private afterOthers(transition: () => Promise<void>): Promise<void> {
    this.transitions = this.transitions.then(transition).catch((error: unknown) => {
      this.log.error(error instanceof Error ? error : String(error));
      this.become('failed');
    });
    return this.transitions;
  }

  private async startClient(found?: Interpreter): Promise<void> {
    this.become('starting');
    this.ofOtherFolders.clear();
    this.interpreter = found ?? (await findInterpreter());
    this.log.info(`Interpreter: ${describe(this.interpreter)}`);
    const host = await this.host();
    if (host === undefined) {
      this.become('failed');
      return;
    }
    await mkdir(this.context.globalStorageUri.fsPath, { recursive: true });
    const options = this.options(this.interpreter.executable ?? host);
    this.client = new LanguageClient('dynascope', 'Dynascope', serverExecutable(this.context, host), options);
    this.listen(this.client);
    await this.client.start();
  }

  /** What the server runs in: the first folder's interpreter, or one of another folder where that one cannot be run. */
  private async host(): Promise<string | undefined> {
    const others = vscode.workspace.workspaceFolders?.slice(1) ?? [];
    for (const find of [() => Promise.resolve(this.interpreter), ...others.map(folder => () => findInterpreter(folder.uri))]) {
      const found = await find();
      if (found?.executable !== undefined && found.problem?.concerns !== 'interpreter') {
        return found.executable;
      }
    }
    return undefined;
  }

  private async stopClient(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    // A client whose server never started, or crashed, rejects here: there is nothing left to stop.
    await client?.dispose().catch((error: unknown) => this.log.debug(String(error)));
    this.become('stopped');
  }

  private listen(client: LanguageClient): void {
    client.onDidChangeState(({ newState }) => {
      if (client === this.client) {
        this.become(STATES[newState]);
      }
    });
    client.onNotification(Method.runState, (state: RunState) => this.runStates.fire(state));
    client.onNotification(Method.output, (output: Output) => this.outputs.fire(output));
    client.onNotification(Method.treeChanged, () => this.treeChanges.fire());
    client.onNotification(Method.documentsChanged, ({ uris }: { uris: string[] }) => this.changedDocuments.fire(uris));
  }

  private become(state: ServerState): void {
    if (state !== this.state) {
      this.state = state;
      this.states.fire(state);
    }
  }

  private options(interpreter: string): LanguageClientOptions {
    return {
      documentSelector: [
        { scheme: 'file', language: 'python' },
        { scheme: CELL_SCHEME, language: 'python' },
        { scheme: DOCUMENT_SCHEME },
      ],
      initializationOptions: () => initializationOptions(this.context, configuration(interpreter)),
      outputChannel: this.log,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      // The server's own log goes to standard error at every level, not only for errors.
      stdioOptions: {
        stdout: input => void input.resume(),
        stderr: (input, channel) => void createInterface({ input }).on('line', line => channel.info(line)),
      },
      markdown: { isTrusted: { enabledCommands: [OPEN_DOCUMENT] } },
      middleware: {
        executeCommand: async (command, parameters, next) => {
          const [subject, detail] = parameters as [string, Record<string, unknown>?];
          if (command === ServerCommand.chooseVariant && detail?.entry === undefined) {
            return chooseVariant(this, subject, detail ?? {});
          }
          if (command !== ServerCommand.compileAndRun && command !== ServerCommand.runTest) {
            return next(command, parameters) as unknown;
          }
          // Not by `next`: getting ready may have put another client in the place of this one.
          const file = vscode.Uri.parse(subject);
          const words = argumentsFor(this.context.workspaceState, file);
          const isReady = await ready(this, file, words);
          return isReady ? this.execute(command, subject, { ...(words && { arguments: words }), ...detail }) : undefined;
        },
        provideHover: async (document, position, token, next) => {
          const hover = await next(document, position, token);
          for (const content of hover?.contents ?? []) {
            if (content instanceof vscode.MarkdownString) {
              content.value = followableInHover(content.value);
            }
          }
          return hover;
        },
        provideDocumentLinks: async (document, token, next) => {
          const links = await next(document, token);
          for (const link of links ?? []) {
            const place = link.target && placeInCell(link.target);
            if (link.target && place) {
              const uri = link.target.with({ fragment: place.fragment }).toString();
              link.target = vscode.Uri.parse(commandUri(GO_TO, { uri, line: place.line }));
            }
          }
          return links;
        },
        window: { showDocument },
      },
    };
  }
}

const STATES: Record<State, ServerState> = {
  [State.Stopped]: 'stopped',
  [State.Starting]: 'starting',
  [State.StartFailed]: 'failed',
  [State.Running]: 'running',
};
