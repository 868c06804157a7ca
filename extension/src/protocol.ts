/** What the extension and the server say to each other beyond LSP. The server's side: server/PROTOCOL.md. */

/** Names of `workspace/executeCommand`; the language client registers VS Code commands of the same names. */
export const ServerCommand = {
  compileAndRun: 'dynascope.compileAndRun',
  runTest: 'dynascope.runTest',
  cancel: 'dynascope.cancel',
  showKernel: 'dynascope.showKernel',
  showGraph: 'dynascope.showGraph',
  openReport: 'dynascope.openReport',
  listGraphs: 'dynascope.listGraphs',
  chooseVariant: 'dynascope.chooseVariant',
  compareVariants: 'dynascope.compareVariants',
  compareRuns: 'dynascope.compareRuns',
  showPicture: 'dynascope.showPicture',
  showSummary: 'dynascope.showSummary',
  findFixes: 'dynascope.findFixes',
  listBackends: 'dynascope.listBackends',
  compareBackends: 'dynascope.compareBackends',
  compareCaptures: 'dynascope.compareCaptures',
  showTrace: 'dynascope.showTrace',
  clear: 'dynascope.clear',
  debugInformation: 'dynascope.debugInformation',
  doctor: 'dynascope.doctor',
} as const;

export const Method = {
  cellReport: 'dynascope/cellReport',
  configure: 'dynascope/configure',
  document: 'dynascope/document',
  documentsChanged: 'dynascope/documentsChanged',
  links: 'dynascope/links',
  output: 'dynascope/output',
  runState: 'dynascope/runState',
  tree: 'dynascope/tree',
  treeChanged: 'dynascope/treeChanged',
} as const;

/** The scheme of a notebook's cells, which is VS Code's own. */
export const CELL_SCHEME = 'vscode-notebook-cell';

/** The scheme of the server's read-only documents: kernels, graphs, guards, summaries, reason pages. */
export const DOCUMENT_SCHEME = 'dynascope';

/** A cell that ran under `%%dynascope`, with the cells that it may speak of. URIs, and names that the kernel gave. */
export interface CellReport {
  cell: string;
  cells: string[];
  files: Record<string, string>;
  kernel: string;
  file: string;
  report: string;
  texts: Record<string, string>;
}

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
  runOnSave: boolean;
  live: boolean;
}

export interface InitializationOptions extends Configuration {
  enginePath: string;
  storagePath: string;
  trusted: boolean;
  client: { virtualDocuments: boolean; output: boolean; runState: boolean; variants: boolean; tree: boolean };
}

/** Of `listBackends`: `state` is `ready`, or why it is not, with what installs it. */
export interface Backend {
  name: string;
  words: string;
  state: string;
}

/** Of `compileAndRun`. `look`: what is found out besides, each line beside float64 or what each line costs. */
export interface RunRequest {
  arguments?: string[];
  look?: 'check' | 'profile';
}

/** A click goes to `place`, or sends `act` for the file. `icon` is a codicon's name. */
export interface TreeNode {
  label: string;
  description: string;
  icon: string;
  place: { uri: string; line: number } | null;
  act: { command: string; detail: Record<string, unknown> } | null;
  children: TreeNode[];
}

export interface RunState {
  uri: string;
  run: string | number;
  /** `restored`: no run, but what an earlier window's run found out. `cleared`: that is shown no more. */
  state: 'starting' | 'running' | 'errored' | 'exited' | 'restored' | 'cleared';
  message: string;
  stage?: string | null;
  function?: string | null;
  exitCode?: number | null;
  signal?: number | null;
  cancelled?: boolean | null;
  /** Where the program ended because of its arguments: what it said of them. */
  refusedArguments?: string | null;
  seconds?: number | null;
  functions: number;
  graphs: number;
  breaks: number;
  kernels: number;
  /** When over: breaks, limits and the like. */
  warnings: number;
  /** The state of a run is told again while its program is edited: true where the counts are of the text as edited. */
  live?: boolean | null;
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

/** Lines from 0: `line` of the made document came from line `place` of the file at `uri`. `program` is whose run it is of. */
export interface Links {
  program: string | null;
  links: { line: number; uri: string; place: number }[];
}

export interface DocumentAnswer {
  text: string;
  languageId: string;
}

/** One stage of one graph that can be shown. */
export interface GraphChoice {
  heading: string;
  label: string;
  description: string;
  stage: string;
  function: string;
  graph: string | null;
}

export interface Variants {
  function: string;
  variants: { entry: string; title: string; calls: number }[];
  chosen: string | null;
}

export interface RunAnswer {
  run: string | number;
  logFile: string;
  reportFile: string;
}

export function isOver(state: RunState): boolean {
  return state.state !== 'starting' && state.state !== 'running';
}

/** Whether a run has just ended, and not only its counts, or what is shown of it, are others now. */
export function isEnding(state: RunState): boolean {
  const isToldAgain = state.live !== undefined && state.live !== null;
  return isOver(state) && !isToldAgain && state.state !== 'restored' && state.state !== 'cleared';
}
