/**
 * Links of a hover as VS Code follows them: it takes away those whose scheme it does not know, but runs commands.
 *
 *     [k1 mul_kernel](dynascope:/a.py-1a2b/k1/mul_kernel.cpp)
 *       -> [k1 mul_kernel](command:dynascope.openDocument?%5B%22dynascope%3A%2Fa.py-1a2b%2Fk1%2Fmul_kernel.cpp%22%5D)
 */

import { commandUri } from './commandUri';

/** Registered by `registerDocuments`; its argument is the document's URI. */
export const OPEN_DOCUMENT = 'dynascope.openDocument';

const LINK = /\]\((dynascope:[^)\s]*)\)/g;

export function followableInHover(markdown: string): string {
  return markdown.replace(LINK, (_, uri: string) => `](${commandUri(OPEN_DOCUMENT, uri)})`);
}
