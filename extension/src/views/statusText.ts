/** What the status item says: one short text, an icon, and whether it warns. */

import { isOver, type RunState } from '../protocol';

export interface StatusText {
  text: string;
  detail: string;
  severity: 'normal' | 'warning' | 'error';
}

export type ServerState = 'stopped' | 'starting' | 'running' | 'failed';

export function restricted(): StatusText {
  return {
    text: '$(shield) Dynascope',
    detail: 'Restricted Mode: Dynascope runs nothing until you trust this workspace.',
    severity: 'normal',
  };
}

export function ofServer(state: ServerState, problem: string | undefined): StatusText {
  if (state === 'starting') {
    return { text: '$(loading~spin) Dynascope', detail: 'Starting the server…', severity: 'normal' };
  }
  if (problem !== undefined) {
    return { text: '$(warning) Dynascope', detail: problem, severity: 'warning' };
  }
  if (state === 'running') {
    return { text: '$(zap) Dynascope', detail: 'Ready. Nothing has run yet.', severity: 'normal' };
  }
  return { text: '$(error) Dynascope', detail: 'The server does not run. The log says why.', severity: 'error' };
}

export function ofRun(run: RunState): StatusText {
  if (!isOver(run)) {
    // Not the stage: the progress beside this item tells it.
    const soFar = run.graphs + run.breaks + run.kernels > 0 ? counts(run) : 'Running';
    return { text: `$(loading~spin) ${soFar}`, detail: run.message, severity: 'normal' };
  }
  if (run.cancelled) {
    return { text: '$(circle-slash) Cancelled', detail: run.message, severity: 'normal' };
  }
  if (run.state === 'errored') {
    return { text: '$(error) Dynascope: failed', detail: run.message, severity: 'error' };
  }
  if (run.exitCode !== 0) {
    return { text: `$(error) Exit code ${run.exitCode ?? '?'}`, detail: run.message, severity: 'error' };
  }
  return { text: `$(zap) ${run.functions > 0 ? counts(run) : 'Nothing compiled'}`, detail: run.message, severity: 'normal' };
}

export function counts({ graphs, breaks, kernels }: Pick<RunState, 'graphs' | 'breaks' | 'kernels'>): string {
  return [count(graphs, 'graph'), count(breaks, 'break'), count(kernels, 'kernel')].join(' · ');
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}
