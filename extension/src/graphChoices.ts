/**
 * A report -> what "Show Graph…" offers: every stage that each of a file's functions went through, in pipeline order.
 *
 *     attention · line 12                      a heading per compilation
 *       Torch IR          g0 · 14 operations
 *       ATen forward      g0 · 14 operations
 */

import type { CompileReport, EntryFact, FunctionFact, GraphFact, StageText } from './report';

export interface GraphChoice {
  heading: string;
  label: string;
  description: string;
  /** From 0, as LSP counts. */
  line: number;
  stage: string;
  graph: string | null;
}

const STAGES: Readonly<Record<string, string>> = {
  torch: 'Torch IR',
  'aten-forward': 'ATen, forward',
  'aten-backward': 'ATen, backward',
  'loops-forward': 'Loops, forward',
  'loops-backward': 'Loops, backward',
  'groups-forward': 'Fusion groups, forward',
  'groups-backward': 'Fusion groups, backward',
  'wrapper-forward': 'Wrapper, forward',
  'wrapper-backward': 'Wrapper, backward',
  bytecode: 'Bytecode',
  'rewritten-bytecode': 'Rewritten bytecode',
};

export function graphChoices(report: CompileReport, file: string): GraphChoice[] {
  const graphs = new Map(report.graphs.map(graph => [graph.identifier, graph]));
  return report.functions
    .filter(made => made.span.file === file)
    .flatMap(made => made.entries.flatMap(entry => ofEntry(made, entry, graphs.get(entry.graph ?? ''))));
}

function ofEntry(made: FunctionFact, entry: EntryFact, graph: GraphFact | undefined): GraphChoice[] {
  const heading = `${made.name} · line ${entry.span.line}${entry.region === 'resume' ? ', after a break' : ''}`;
  const line = entry.span.line - 1;
  const ofGraph = graph && `${graph.identifier} · ${graph.operations} operation${graph.operations === 1 ? '' : 's'}`;
  const choice = (description: string) => ({ stage }: StageText): GraphChoice => ({
    heading,
    label: STAGES[stage] ?? stage,
    description,
    line,
    stage,
    graph: entry.graph,
  });
  return [
    ...(graph?.texts.map(choice(ofGraph ?? '')) ?? []),
    ...entry.texts.map(choice(entry.identifier)),
  ];
}
