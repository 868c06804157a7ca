/**
 * What Dynascope asks of an interpreter, and what to tell the user when it falls short.
 *
 *     judge({ executable: '/usr/bin/python3', version: [3, 10, 12], ... })
 *       -> { problem: 'Dynascope needs CPython 3.11 to 3.13; /usr/bin/python3 is 3.10.12.', remedy: ... }
 */

import type { Facts } from './probe';

type Version = readonly [major: number, minor: number];

/** From the first to the last, both included. Keep in step with `pyproject.toml`. */
const PYTHON: readonly [Version, Version] = [[3, 11], [3, 13]];
const TORCH: readonly [Version, Version] = [[2, 11], [2, 13]];

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
    remedy: `Install Python ${range(PYTHON)} with PyTorch, or name an interpreter in the setting dynascope.pythonPath.`,
  };
}

function pythonProblem(facts: Facts): Problem | undefined {
  if (facts.implementation === 'cpython' && within(facts.version, PYTHON)) {
    return undefined;
  }
  const found = `${facts.implementation === 'cpython' ? '' : `${facts.implementation} `}${facts.version.join('.')}`;
  return {
    concerns: 'interpreter',
    problem: `Dynascope needs CPython ${range(PYTHON)}; ${facts.executable} is ${found}.`,
    remedy: 'Choose another interpreter.',
  };
}

function torchProblem(facts: Facts): Problem | undefined {
  const command = `${quoted(facts.executable)} -m pip install "torch>=${TORCH[0].join('.')},<${next(TORCH[1])}"`;
  if (facts.torch === null) {
    return {
      concerns: 'torch',
      problem: `PyTorch is not installed for ${facts.executable} (Python ${facts.version.join('.')}).`,
      remedy: `Install it with: ${command}`,
      command,
    };
  }
  if (!within(facts.torch.split(/[.+]/).map(Number), TORCH)) {
    return {
      concerns: 'torch',
      problem: `Dynascope needs PyTorch ${range(TORCH)}; ${facts.executable} has ${facts.torch}.`,
      remedy: `Install one with: ${command}`,
      command,
    };
  }
  return undefined;
}

function within(version: readonly number[], [first, last]: readonly [Version, Version]): boolean {
  const at = ordinal(version);
  return ordinal(first) <= at && at <= ordinal(last);
}

function ordinal([major = 0, minor = 0]: readonly number[]): number {
  return major * 1000 + minor;
}

function range([first, last]: readonly [Version, Version]): string {
  return `${first.join('.')} to ${last.join('.')}`;
}

function next([major, minor]: Version): string {
  return `${major}.${minor + 1}`;
}

function quoted(path: string): string {
  return /\s/.test(path) ? `"${path}"` : path;
}
