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

/** Of the run of one file, which is named: the newest run need not be of the file that is looked at. */
export function ofRun(run: RunState): StatusText {
  const file = fileName(run.uri);
  const said = (icon: string, text: string, severity: StatusText['severity']): StatusText => ({
    text: `$(${icon}) ${file}: ${text}`,
    detail: run.message,
    severity,
  });
  if (!isOver(run)) {
    // Not the stage: the progress beside this item tells it.
    return said('loading~spin', run.graphs + run.breaks + run.kernels > 0 ? counts(run) : 'running', 'normal');
  }
  if (run.cancelled) {
    return said('circle-slash', 'cancelled', 'normal');
  }
  if (run.state === 'errored') {
    return said('error', 'failed', 'error');
  }
  if (run.state !== 'restored' && run.exitCode !== 0) {
    return said('error', `exit code ${run.exitCode ?? '?'}`, 'error');
  }
  if (run.functions === 0) {
    return said('zap', 'nothing compiled', 'normal');
  }
  const found = run.live === true ? `live · ${counts(run)}` : counts(run);
  return run.warnings > 0 ? said('warning', found, 'warning') : said('zap', found, 'normal');
}

function fileName(uri: string): string {
  return decodeURIComponent(uri.split('/').at(-1) ?? uri);
}

export function counts({ graphs, breaks, kernels }: Pick<RunState, 'graphs' | 'breaks' | 'kernels'>): string {
  return [count(graphs, 'graph'), count(breaks, 'break'), count(kernels, 'kernel')].join(' · ');
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}
