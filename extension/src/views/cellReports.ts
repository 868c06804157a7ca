/** What the outputs of a notebook's cells say for an editor, as the server takes it. Knows nothing of VS Code. */

import type { CellReport } from '../protocol';

const FOR_EDITORS = 'application/vnd.dynascope.report+json';

export interface RanCell {
  uri: string;
  items: readonly { mime: string; data: Uint8Array }[];
}

type Found = Pick<CellReport, 'kernel' | 'file' | 'report' | 'texts'>;

/** One for each cell that has such an output; `key` is another after each run. Names of cells count within one kernel only. */
export function cellReports(cells: readonly RanCell[]): { key: string; report: CellReport }[] {
  const found = cells.flatMap(({ uri, items }) => items.map(item => ({ uri, read: read(item) })));
  const ran = found.flatMap(({ uri, read }) => (read === undefined ? [] : [{ uri, read }]));
  return ran.map(({ uri, read }) => {
    const ofKernel = ran.filter(other => other.read.kernel === read.kernel);
    const files = Object.fromEntries(ofKernel.map(other => [other.read.file, other.uri]));
    const report = { ...read, cell: uri, cells: cells.map(cell => cell.uri), files };
    return { key: `${read.kernel} ${read.report}`, report };
  });
}

function read({ mime, data }: RanCell['items'][number]): Found | undefined {
  if (mime !== FOR_EDITORS) {
    return undefined;
  }
  try {
    const value = JSON.parse(new TextDecoder().decode(data)) as Partial<Found>;
    const { kernel, file, report, texts } = value;
    return kernel !== undefined && file !== undefined && report !== undefined && texts !== undefined
      ? { kernel, file, report, texts }
      : undefined;
  } catch {
    return undefined;
  }
}
