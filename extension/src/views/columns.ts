/** The column that a document is opened in: generated ones share one, beside the source; an empty window is not split. */

export interface Group {
  column: number;
  tabs: number;
  /** Whether documents of the server are in it. */
  isGenerated: boolean;
  /** Whether the document to be opened is. */
  holds: boolean;
}

export type Column = number | 'active' | 'beside';

export function columnFor(groups: readonly Group[], isGenerated: boolean): Column {
  if (isGenerated) {
    return groups.find(group => group.isGenerated)?.column ?? (groups.some(group => group.tabs > 0) ? 'beside' : 'active');
  }
  const own = groups.find(group => group.holds) ?? groups.find(group => !group.isGenerated);
  // Where a page is all that is open, it stays in sight.
  return own?.column ?? (groups.length > 0 ? 'beside' : 'active');
}
