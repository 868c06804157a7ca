/** The output channel with the program's own output, in order, between a line that says what ran and one that says how it ended. */

import * as vscode from 'vscode';
import type { Server } from '../client';
import { isEnding, type Output, type RunState } from '../protocol';
import { plain } from './plainText';

const CHANNEL = 'Dynascope Program';

export function registerOutput(server: Server): vscode.Disposable & { show(): void } {
  const channel = vscode.window.createOutputChannel(CHANNEL);
  let current: RunState['run'] | undefined;
  let speaking: RunState['run'] | undefined;

  const begin = (state: RunState) => {
    current = speaking = state.run;
    channel.clear();
    channel.appendLine(`▸ ${name(state.uri)}\n`);
    channel.show(true);
  };

  const onState = server.onRunState(state => {
    if (state.state === 'starting' && state.run !== current) {
      begin(state);
    } else if (isEnding(state)) {
      speaking = undefined;
      channel.appendLine(`\n▸ ${name(state.uri)}: ${ending(state)}`);
    }
  });
  const onOutput = server.onOutput(output => {
    if (output.run !== speaking) {
      // Another program was started while this one runs: whose words follow is said each time.
      channel.appendLine(`\n▸ ${name(output.uri)}`);
    }
    speaking = output.run;
    channel.append(text(output));
  });
  return { show: () => channel.show(true), dispose: () => void vscode.Disposable.from(channel, onState, onOutput).dispose() };
}

function name(uri: string): string {
  return vscode.workspace.asRelativePath(vscode.Uri.parse(uri));
}

function text(output: Output): string {
  const gap = output.dropped > 0 ? `\n▸ ${output.dropped.toLocaleString('en')} bytes left out: the log has them\n` : '';
  return gap + plain(output.text);
}

function ending(state: RunState): string {
  const seconds = typeof state.seconds === 'number' ? ` · ${state.seconds.toFixed(1)} s` : '';
  return `${state.message}${state.message.includes(' s') ? '' : seconds}`;
}
