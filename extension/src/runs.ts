/** The last run of each file: its state, and its report once there is one. */

import { readFile } from 'node:fs/promises';
import * as vscode from 'vscode';
import type { Server } from './client';
import type { RunState } from './protocol';
import type { CompileReport } from './report';

export class Runs implements vscode.Disposable {
  private readonly states = new Map<string, RunState>();
  private readonly listener: vscode.Disposable;

  constructor(server: Server) {
    this.listener = server.onRunState(state => void this.states.set(vscode.Uri.parse(state.uri).toString(), state));
  }

  /** `undefined` where the file has not run, or its report cannot be read yet. */
  async report(uri: vscode.Uri): Promise<CompileReport | undefined> {
    const state = this.states.get(uri.toString());
    if (state?.reportFile === undefined) {
      return undefined;
    }
    try {
      return JSON.parse(await readFile(state.reportFile, 'utf8')) as CompileReport;
    } catch {
      return undefined;
    }
  }

  forget(): void {
    this.states.clear();
  }

  dispose(): void {
    this.listener.dispose();
  }
}
