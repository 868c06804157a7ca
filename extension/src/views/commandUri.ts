/** `command:NAME?["a"]`, as VS Code follows it where a link may run a command. */
export function commandUri(command: string, argument: unknown): string {
  return `command:${command}?${encodeURIComponent(JSON.stringify([argument]))}`;
}
