/** The HTML of a view of our own: nothing is loaded, and no script runs but the view's. */

import { randomBytes } from 'node:crypto';

export function webviewPage(body: string, style: string, script: string): string {
  const nonce = randomBytes(16).toString('hex');
  const policy = `default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-${nonce}'`;
  return `<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<style>${style}</style></head>
<body>${body}<script nonce="${nonce}">${script}</script></body></html>`;
}
