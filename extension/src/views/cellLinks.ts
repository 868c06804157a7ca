/**
 * Links of a generated text into cells of notebooks: VS Code opens no cell at a line by its address, but runs commands.
 *
 *     vscode-notebook-cell:/train.ipynb#W0sZmlsZQ==#L9  ->  { fragment: 'W0sZmlsZQ==', line: 8 }
 */

import { CELL_SCHEME } from '../protocol';

/** Registered by `registerTree`; its argument is a cell's or file's URI and a line from 0. */
export const GO_TO = 'dynascope.goToPlace';

const PLACE = /^(.+)#L(\d+)$/;

/** The cell's own fragment and the line, of a link to one; undefined for others, which VS Code follows itself. */
export function placeInCell(target: { scheme: string; fragment: string }): { fragment: string; line: number } | undefined {
  const [, fragment, line] = (target.scheme === CELL_SCHEME && PLACE.exec(target.fragment)) || [];
  return fragment === undefined ? undefined : { fragment, line: Number(line) - 1 };
}
