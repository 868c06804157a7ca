/** What the extension and the server say to each other beyond LSP. The server's side: server/PROTOCOL.md. */

/** Names of `workspace/executeCommand`; the language client registers VS Code commands of the same names. */
export const ServerCommand = {
  compileAndRun: 'dynascope.compileAndRun',
  cancel: 'dynascope.cancel',
  showKernel: 'dynascope.showKernel',
  showGraph: 'dynascope.showGraph',
  showSummary: 'dynascope.showSummary',
  clear: 'dynascope.clear',
  debugInformation: 'dynascope.debugInformation',
  doctor: 'dynascope.doctor',
} as const;

export const Method = {
  configure: 'dynascope/configure',
  document: 'dynascope/document',
  documentsChanged: 'dynascope/documentsChanged',
  output: 'dynascope/output',
  runState: 'dynascope/runState',
} as const;

/** The scheme of the server's read-only documents: kernels, graphs, guards, summaries, reason pages. */
export const DOCUMENT_SCHEME = 'dynascope';

export interface RunOptions {
  arguments: string[];
  device: string | null;
  dynamic: boolean | null;
  fullgraph: boolean;
  backend: string | null;
  timeout: number;
}

/** May be sent again, wholly or in part, with `dynascope/configure`. `null` stands for the server's default. */
export interface Configuration {
  interpreter: string;
  environment: Record<string, string>;
  run: RunOptions;
  lenses: boolean;
  hints: boolean;
}

export interface InitializationOptions extends Configuration {
  enginePath: string;
  storagePath: string;
  trusted: boolean;
  client: { virtualDocuments: boolean; output: boolean; runState: boolean };
}

export interface RunState {
  uri: string;
  run: string | number;
  state: 'starting' | 'running' | 'errored' | 'exited';
  message: string;
  stage?: string | null;
  function?: string | null;
  exitCode?: number | null;
  signal?: number | null;
  cancelled?: boolean | null;
  seconds?: number | null;
  functions: number;
  graphs: number;
  breaks: number;
  kernels: number;
  logFile: string;
  reportFile: string;
}

export interface Output {
  uri: string;
  run: string | number;
  stream: 'stdout' | 'stderr';
  text: string;
  dropped: number;
}

export interface DocumentAnswer {
  text: string;
  languageId: string;
}

export interface RunAnswer {
  run: string | number;
  logFile: string;
  reportFile: string;
}

export function isOver(state: RunState): boolean {
  return state.state === 'errored' || state.state === 'exited';
}
