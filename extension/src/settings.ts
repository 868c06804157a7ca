/** The user's settings, `dynascope.*`, as the server wants them. */

import * as vscode from 'vscode';
import type { Configuration } from './protocol';

export const SECTION = 'dynascope';

const DYNAMIC: Record<string, boolean | null> = { auto: null, always: true, never: false };

export function configuration(interpreter: string, resource?: vscode.Uri): Configuration {
  const settings = vscode.workspace.getConfiguration(SECTION, resource ?? null);
  return {
    interpreter,
    environment: settings.get<Record<string, string>>('env', {}),
    run: {
      arguments: settings.get<string[]>('arguments', []),
      device: unless('auto', settings.get('device', 'auto')),
      dynamic: DYNAMIC[settings.get('dynamic', 'auto')] ?? null,
      fullgraph: settings.get('fullgraph', false),
      backend: unless('dynascope', settings.get('backend', 'dynascope')),
      timeout: settings.get('timeout', 0),
    },
    lenses: settings.get('codeLens', true),
    hints: settings.get('inlayHints', true),
    runOnSave: settings.get('runOnSave', false),
    live: settings.get('live', true),
  };
}

export function pythonPathSetting(resource?: vscode.Uri): string {
  return vscode.workspace.getConfiguration(SECTION, resource ?? null).get('pythonPath', '').trim();
}

function unless(usual: string, value: string): string | null {
  return value === usual ? null : value;
}
