/** The interpreter for a workspace: found, asked what it is, and judged. */

import * as vscode from 'vscode';
import { pythonPathSetting } from '../settings';
import { choose, surroundings, type Origin } from './choose';
import { probe, type Facts } from './probe';
import { chosenInPythonExtension, letUserChoose } from './pythonExtension';
import { judge, noInterpreter, notRunnable, type Problem } from './requirements';

export interface Interpreter {
  executable: string | undefined;
  origin: Origin | undefined;
  facts: Facts | undefined;
  problem: Problem | undefined;
}

/** For the programs of one workspace folder; of the first where none is named. */
export async function findInterpreter(folder = vscode.workspace.workspaceFolders?.[0]?.uri): Promise<Interpreter> {
  const fromExtension = await chosenInPythonExtension(folder);
  const candidate = choose(surroundings(pythonPathSetting(folder), fromExtension, folder?.fsPath));
  if (candidate === undefined) {
    return { executable: undefined, origin: undefined, facts: undefined, problem: noInterpreter() };
  }
  try {
    const facts = await probe(candidate.executable);
    return { ...candidate, facts, problem: judge(facts) };
  } catch (error) {
    return { ...candidate, facts: undefined, problem: notRunnable(candidate.executable, (error as Error).message) };
  }
}

/** What buttons of a message do, by their words. */
export type Actions = Readonly<Record<string, () => PromiseLike<unknown>>>;

/** The message with its remedy, and buttons that carry the remedy out; `others` come last. */
export async function showProblem(problem: Problem, others: Actions = {}): Promise<void> {
  const actions: Actions = {
    ...(problem.command && { 'Copy Command': () => vscode.env.clipboard.writeText(problem.command ?? '') }),
    'Choose Interpreter': letUserChoose,
    ...others,
  };
  const picked = await vscode.window.showErrorMessage(`${problem.problem} ${problem.remedy}`, ...Object.keys(actions));
  await actions[picked ?? '']?.();
}

export function describe({ facts, origin, problem }: Interpreter): string {
  if (facts === undefined) {
    return problem?.problem ?? 'no interpreter';
  }
  return `${facts.executable} (Python ${facts.version.join('.')}, torch ${facts.torch ?? 'missing'}, from the ${origin})`;
}
