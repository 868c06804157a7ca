/**
 * Which interpreter: the setting, then the Python extension's choice, then `.venv` in the workspace, then the PATH.
 *
 * The first that is named or exists is taken, good or bad: an interpreter that the user chose is reported when it will
 * not do, never silently replaced by another.
 */

import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import * as path from 'node:path';

export type Origin = 'setting' | 'Python extension' | 'workspace .venv' | 'PATH';

export interface Candidate {
  executable: string;
  origin: Origin;
}

export interface Surroundings {
  setting: string;
  pythonExtension: string | undefined;
  workspaceFolder: string | undefined;
  path: string;
  platform: NodeJS.Platform;
  exists: (file: string) => boolean;
}

export function choose(surroundings: Surroundings): Candidate | undefined {
  for (const [origin, find] of SOURCES) {
    const executable = find(surroundings);
    if (executable) {
      return { executable, origin };
    }
  }
  return undefined;
}

export function surroundings(
  setting: string,
  pythonExtension: string | undefined,
  workspaceFolder: string | undefined,
): Surroundings {
  const { platform, env } = process;
  return { setting, pythonExtension, workspaceFolder, path: env['PATH'] ?? '', platform, exists: existsSync };
}

type Finder = (surroundings: Surroundings) => string | undefined;

const SOURCES: readonly (readonly [Origin, Finder])[] = [
  ['setting', ({ setting, workspaceFolder }) => setting && expanded(setting, workspaceFolder)],
  ['Python extension', ({ pythonExtension }) => pythonExtension],
  ['workspace .venv', inWorkspace],
  ['PATH', onPath],
];

function inWorkspace({ workspaceFolder, platform, exists }: Surroundings): string | undefined {
  if (workspaceFolder === undefined) {
    return undefined;
  }
  const inside = platform === 'win32' ? ['Scripts', 'python.exe'] : ['bin', 'python'];
  const executable = path.join(workspaceFolder, '.venv', ...inside);
  return exists(executable) ? executable : undefined;
}

function onPath({ path: folders, platform, exists }: Surroundings): string | undefined {
  const names = platform === 'win32' ? ['python.exe'] : ['python3', 'python'];
  return names
    .flatMap(name => folders.split(path.delimiter).filter(folder => path.isAbsolute(folder)).map(folder => path.join(folder, name)))
    .find(exists);
}

/** `${workspaceFolder}`, `~` and paths relative to the workspace folder; a bare name is left for the PATH to find. */
function expanded(setting: string, workspaceFolder: string | undefined): string {
  const folder = workspaceFolder ?? '';
  const full = setting.replaceAll('${workspaceFolder}', folder).replace(/^~(?=[/\\]|$)/, homedir());
  const relative = /[/\\]/.test(full) && !path.isAbsolute(full);
  return relative ? path.join(folder, full) : full;
}
