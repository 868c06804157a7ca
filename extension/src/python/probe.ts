/** Asks an interpreter what it is, without importing torch: tens of milliseconds. */

import { execFile } from 'node:child_process';
import { tmpdir } from 'node:os';

export interface Facts {
  executable: string;
  implementation: string;
  version: readonly number[];
  /** The installed version of torch, such as `2.13.0+cpu`; empty for one that was put there without saying. */
  torch: string | null;
}

export class ProbeError extends Error {}

const TIMEOUT_MS = 20_000;

/** Written for any Python since 2.7, so that an old one can say how old it is. */
const SCRIPT = `
import json, platform, sys
try:
    from importlib.metadata import version
    torch = version("torch")
except Exception:
    try:
        from importlib.util import find_spec as find
    except ImportError:
        from pkgutil import find_loader as find
    torch = None if find("torch") is None else ""
print(json.dumps({
    "executable": sys.executable,
    "implementation": platform.python_implementation().lower(),
    "version": list(sys.version_info[:3]),
    "torch": torch,
}))
`;

/** Run from a folder that is not the user's: with `-c`, Python would import modules from the folder it is run in. */
export function probe(executable: string, environment: NodeJS.ProcessEnv = process.env): Promise<Facts> {
  return new Promise((resolve, reject) => {
    execFile(
      executable,
      ['-c', SCRIPT],
      { cwd: tmpdir(), env: environment, timeout: TIMEOUT_MS, windowsHide: true },
      (error, stdout, stderr) => {
        const facts = error === null ? parse(stdout) : undefined;
        if (facts === undefined) {
          reject(new ProbeError(words(error, stderr)));
        } else {
          resolve(facts);
        }
      },
    );
  });
}

/** The last line, because a `sitecustomize` of the user's may print before it. */
function parse(stdout: string): Facts | undefined {
  try {
    return JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Facts;
  } catch {
    return undefined;
  }
}

function words(error: Error | null, stderr: string): string {
  if (error !== null && 'killed' in error && error.killed === true) {
    return `it did not answer within ${TIMEOUT_MS / 1000} seconds.`;
  }
  if (error !== null && 'code' in error && error.code === 'ENOENT') {
    return 'there is no such file.';
  }
  return stderr.trim().split('\n').at(-1) || error?.message || 'it gave no answer.';
}
