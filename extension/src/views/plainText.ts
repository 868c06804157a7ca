/** Terminal text -> plain text: an output channel shows escape sequences as they are and knows no carriage return. */

// CSI sequences (colours, cursor), OSC sequences (titles, links), and the remaining two-character escapes.
// eslint-disable-next-line no-control-regex -- control characters are what is looked for
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

/** Progress bars redraw their line with a lone carriage return: each state becomes a line of its own. */
export function plain(text: string): string {
  return text.replace(ESCAPES, '').replace(/\r+\n/g, '\n').replace(/\r/g, '\n');
}
