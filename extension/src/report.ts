// Made from engine/dynascope/report/schema.json by `npm run types`. Do not edit.

export interface CompileReport {
  program: ProgramFact;
  environment: EnvironmentFact;
  functions: FunctionFact[];
  graphs: GraphFact[];
  kernels: KernelFact[];
  notes: Explanation[];
  checks: CheckFact[];
  version: number;
}
export interface ProgramFact {
  file: string;
  arguments: string[];
  exit_code: number | null;
  signal: number | null;
  seconds: number | null;
  error: Explanation | null;
  peak_bytes: number | null;
  rank: number | null;
  asks: boolean | null;
}
export interface Explanation {
  code: string;
  severity: 'error' | 'warning' | 'information' | 'hint';
  message: string;
  remedy: string;
  span: Span | null;
  stack: UserFrame[];
}
export interface Span {
  file: string;
  line: number;
  column: number | null;
  end_line: number | null;
  end_column: number | null;
}
export interface UserFrame {
  function: string;
  span: Span;
  first_line: number;
  last_line: number;
  layer: Layer | null;
}
export interface Layer {
  expression: string;
  kind: string;
  built: Span | null;
}
export interface EnvironmentFact {
  python: string;
  torch: string;
  dynascope: string;
  device: string;
  compiler: string | null;
  triton: string | null;
  bandwidth: number | null;
}
export interface FunctionFact {
  identifier: string;
  name: string;
  span: Span;
  entries: EntryFact[];
  compiled_at: Span | null;
}
export interface EntryFact {
  identifier: string;
  region: 'function' | 'resume';
  span: Span;
  status: 'compiled' | 'uncompiled';
  exit: 'return' | 'break' | 'raise' | 'none';
  graph: string | null;
  guards: GuardFact[];
  reason: Explanation | null;
  recompiled: Explanation | null;
  seconds: {
    [k: string]: number;
  };
  texts: StageText[];
  change: ChangeFact | null;
  callers: UserFrame[];
  followed: FileLines[];
  calls: number;
  place: number;
  last_use: number;
  began: string;
}
export interface GuardFact {
  expression: string;
  check: string;
  kind: string;
  span: Span | null;
  stack: UserFrame[];
  value: string;
}
export interface StageText {
  stage: string;
  language: string;
  text: string;
  links: LineLink[];
}
export interface LineLink {
  line: number;
  span: Span;
}
export interface ChangeFact {
  expression: string;
  cause:
    | 'number'
    | 'attribute'
    | 'size'
    | 'none'
    | 'grad-mode'
    | 'state'
    | 'type'
    | 'dtype'
    | 'requires-grad'
    | 'layout'
    | 'length'
    | 'value'
    | 'object'
    | 'other';
  before: string;
  now: string;
}
export interface FileLines {
  file: string;
  lines: number[];
}
export interface GraphFact {
  identifier: string;
  operations: number;
  backend: string;
  values: ValueFact[];
  texts: StageText[];
  kernels: string[];
  externs: ExternFact[];
  borders: BorderFact[];
  saved_bytes: number | null;
  memory: MemoryFact[];
  beside_eager: BesideEager | null;
  notes: Explanation[];
  steps: StepFact[];
}
export interface ValueFact {
  name: string;
  description: string;
  operation: string;
  span: Span | null;
  stack: UserFrame[];
  variable: string | null;
  part: string | null;
}
export interface ExternFact {
  operation: string;
  phase: 'forward' | 'backward';
  span: Span | null;
  explanation: Explanation | null;
  spans: Span[];
  cost: CostFact | null;
}
export interface CostFact {
  calls: number;
  seconds: number;
}
export interface BorderFact {
  producer: string;
  consumer: string;
  explanation: Explanation;
  producer_span: Span | null;
}
export interface MemoryFact {
  phase: 'forward' | 'backward';
  peak_bytes: number;
  step: string;
  span: Span | null;
}
export interface BesideEager {
  compiled: number;
  eager: number;
  first: number | null;
  difference: number | null;
  kernels: number | null;
  failure: string;
}
export interface StepFact {
  name: string;
  phase: 'forward' | 'backward';
  operations: OperationFact[];
  reads: TensorFact[];
  writes: TensorFact[];
  kernel: string | null;
}
export interface OperationFact {
  operator: string;
  span: Span | null;
}
export interface TensorFact {
  name: string;
  description: string;
  bytes: number | null;
  is_given: boolean;
  called: string;
}
export interface KernelFact {
  identifier: string;
  name: string;
  language: 'cpp' | 'triton';
  phase: 'forward' | 'backward';
  graph: string;
  text: string;
  links: LineLink[];
  spans: Span[];
  operations: string[];
  bytes_read: number | null;
  bytes_written: number | null;
  path: string | null;
  cost: CostFact | null;
  launches: number;
}
export interface CheckFact {
  function: string;
  name: string;
  kind: 'value' | 'gradient';
  eager: number;
  compiled: number;
  differs: boolean;
  span: Span | null;
  stack: UserFrame[];
}
