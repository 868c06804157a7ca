/** The status item: the run's stage while it runs, its result afterwards, and what is wrong when something is. */

import * as vscode from 'vscode';
import type { Server } from '../client';
import { DOCUMENT_SCHEME, isOver, type RunState } from '../protocol';
import { describe } from '../python/interpreter';
import { ofRun, ofServer, restricted, type StatusText } from './statusText';

const RUNNING_CONTEXT = 'dynascope.running';

export function registerStatus(server: Server): vscode.Disposable {
  const item = vscode.window.createStatusBarItem('dynascope.status', vscode.StatusBarAlignment.Left, 0);
  item.name = 'Dynascope';
  item.command = 'dynascope.showOutput';
  let run: RunState | undefined;

  const refresh = () => {
    show(item, currentText(server, run), server);
    setVisible(item, run);
    void vscode.commands.executeCommand('setContext', RUNNING_CONTEXT, run !== undefined && !isOver(run));
  };
  refresh();
  return vscode.Disposable.from(
    item,
    server.onState(() => {
      run = undefined;
      refresh();
    }),
    server.onRunState(state => {
      if (state.state === 'cleared') {
        run = run?.uri === state.uri ? undefined : run;
      } else {
        run = follows(run, state) ? state : run;
      }
      refresh();
    }),
    vscode.window.onDidChangeVisibleTextEditors(refresh),
  );
}

/** A result of an earlier window says less than a run of this one; an edit of another program than the one that ran last says nothing of it. */
function follows(run: RunState | undefined, state: RunState): boolean {
  if (state.live !== undefined && state.live !== null) {
    return run === undefined || run.uri === state.uri;
  }
  return state.state !== 'restored' || run === undefined || run.state === 'restored';
}

function currentText(server: Server, run: RunState | undefined): StatusText {
  if (!vscode.workspace.isTrusted) {
    return restricted();
  }
  return run === undefined ? ofServer(server.state, server.interpreter?.problem?.problem) : ofRun(run);
}

function show(item: vscode.StatusBarItem, { text, detail, severity }: StatusText, server: Server): void {
  item.text = text;
  item.tooltip = tooltip(detail, server);
  item.backgroundColor =
    severity === 'normal' ? undefined : new vscode.ThemeColor(`statusBarItem.${severity}Background`);
}

function tooltip(detail: string, server: Server): vscode.MarkdownString {
  const text = new vscode.MarkdownString('', true);
  text.isTrusted = { enabledCommands: ['dynascope.showOutput', 'dynascope.showLogs', 'dynascope.runDoctor'] };
  text.appendMarkdown('**Dynascope**\n\n').appendText(detail);
  if (server.interpreter !== undefined) {
    text.appendMarkdown('\n\n').appendText(describe(server.interpreter));
  }
  return text.appendMarkdown(
    '\n\n[Program output](command:dynascope.showOutput) · [Log](command:dynascope.showLogs) · [Doctor](command:dynascope.runDoctor)',
  );
}

function setVisible(item: vscode.StatusBarItem, run: RunState | undefined): void {
  const concerned = vscode.window.visibleTextEditors.some(({ document }) => {
    return document.languageId === 'python' || document.uri.scheme === DOCUMENT_SCHEME;
  });
  if (concerned || (run !== undefined && !isOver(run))) {
    item.show();
  } else {
    item.hide();
  }
}
