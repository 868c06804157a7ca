/**
 * Links of a page as VS Code's rendered Markdown follows them. It takes no link with a scheme, and for a document that is
 * no file it looks for a path that begins with `/` under the first workspace folder.
 *
 *     [gate.py:8](file:///home/me/work/gate.py#L8)   ->   [gate.py:8](/gate.py#L8)      where /home/me/work is open
 */

import { posix } from 'node:path';

const FILE_LINK = /\]\(file:\/\/(\/[^)\s#]*)(#L\d+)?\)/g;

/** `root`: the path of the first workspace folder's URI. Without a folder the links stay as they are. */
export function followable(markdown: string, root: string | undefined): string {
  if (root === undefined) {
    return markdown;
  }
  return markdown.replace(FILE_LINK, (_, target: string, line = '') => {
    const relative = posix.relative(root, decodeURIComponent(target));
    return `](/${relative.split('/').map(encodeURIComponent).join('/')}${line})`;
  });
}
