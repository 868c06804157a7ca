import { execFileSync } from 'node:child_process';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { ServerCommand } from '../src/protocol';

test('report.ts is what the schema makes', () => {
  execFileSync(process.execPath, ['extension/build/types.mjs', '--check'], { stdio: 'pipe' });
});

interface Manifest {
  contributes: {
    commands: { command: string }[];
    configuration: { properties: Record<string, { markdownDescription?: string; description?: string }> };
  };
}
const MANIFEST = JSON.parse(readFileSync('package.json', 'utf8')) as Manifest;

test('every command of the manifest is registered, and none has the name of a command of the server', () => {
  const source = readFileSync('extension/src/commands.ts', 'utf8');
  for (const { command } of MANIFEST.contributes.commands) {
    assert.ok(source.includes(`'${command}':`), `${command} is not registered`);
    assert.ok(!(Object.values(ServerCommand) as string[]).includes(command), `${command} would be registered twice`);
  }
});

test('every setting has a description', () => {
  for (const [name, setting] of Object.entries(MANIFEST.contributes.configuration.properties)) {
    assert.ok((setting.markdownDescription ?? setting.description ?? '').length > 20 || name.endsWith('trace.server'), name);
  }
});

test('the lock file names no download address', () => {
  assert.doesNotMatch(readFileSync('package-lock.json', 'utf8'), /"resolved"/);
  assert.doesNotMatch(readFileSync('tests/editor/rig/package-lock.json', 'utf8'), /"resolved"/);
});
