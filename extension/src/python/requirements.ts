/**
 * What Dynascope asks of an interpreter, and what to tell the user when it falls short.
 *
 *     judge({ executable: '/usr/bin/python3', version: [3, 10, 12], ... })
 *       -> { problem: 'Dynascope needs CPython 3.11 or later; /usr/bin/python3 is 3.10.12.', remedy: ... }
 *
 * Only what is too old falls short. What is newer than tested is served, and the report of a run says so.
 */

import type { Facts } from './probe';

type Version = readonly [major: number, minor: number];

/** The first that are served. Keep in step with `pyproject.toml`. */
const PYTHON: Version = [3, 11];
const TORCH: Version = [2, 11];

export interface Problem {
  /** `interpreter`: not even the server can run. `torch`: the server runs, programs cannot be compiled. */
  concerns: 'interpreter' | 'torch';
  problem: string;
  remedy: string;
  /** A shell command that repairs it, where there is one. */
  command?: string;
}

export function judge(facts: Facts): Problem | undefined {
  return pythonProblem(facts) ?? torchProblem(facts);
}

export function notRunnable(executable: string, words: string): Problem {
  return {
    concerns: 'interpreter',
    problem: `The Python interpreter ${executable} cannot be run: ${words}`,
    remedy: 'Choose another interpreter, or correct the setting dynascope.pythonPath.',
  };
}

export function noInterpreter(): Problem {
  return {
    concerns: 'interpreter',
    problem: 'No Python interpreter was found.',
    remedy: `Install Python ${spelled(PYTHON)} or later with PyTorch, or name an interpreter in the setting dynascope.pythonPath.`,
  };
}

function pythonProblem(facts: Facts): Problem | undefined {
  if (facts.implementation === 'cpython' && !isOlder(facts.version, PYTHON)) {
    return undefined;
  }
  const found = `${facts.implementation === 'cpython' ? '' : `${facts.implementation} `}${facts.version.join('.')}`;
  return {
    concerns: 'interpreter',
    problem: `Dynascope needs CPython ${spelled(PYTHON)} or later; ${facts.executable} is ${found}.`,
    remedy: 'Choose another interpreter.',
  };
}

function torchProblem(facts: Facts): Problem | undefined {
  const command = `${quoted(facts.executable)} -m pip install "torch>=${spelled(TORCH)}"`;
  if (facts.torch === null) {
    return {
      concerns: 'torch',
      problem: `PyTorch is not installed for ${facts.executable} (Python ${facts.version.join('.')}).`,
      remedy: `Install it with: ${command}`,
      command,
    };
  }
  if (isOlder(versionOf(facts.torch), TORCH)) {
    return {
      concerns: 'torch',
      problem: `Dynascope needs PyTorch ${spelled(TORCH)} or later; ${facts.executable} has ${facts.torch}.`,
      remedy: `Install it with: ${command}`,
      command,
    };
  }
  return undefined;
}

/** Of 2.13.0+cpu, 2.16.0.dev20261101 or 2.14.0a0+git1a2b3c4; nothing for other text. */
export function versionOf(text: string): readonly number[] {
  const match = /^\s*v?(\d+)\.(\d+)/.exec(text);
  return match === null ? [] : [Number(match[1]), Number(match[2])];
}

/** A version that cannot be read is taken for a new one. */
function isOlder([major, minor = 0]: readonly number[], first: Version): boolean {
  return major !== undefined && (major < first[0] || (major === first[0] && minor < first[1]));
}

function spelled(version: Version): string {
  return version.join('.');
}

function quoted(path: string): string {
  return /\s/.test(path) ? `"${path}"` : path;
}
