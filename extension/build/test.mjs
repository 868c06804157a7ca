// Unit tests of the parts that need no editor: bundled for this Node, then run by its own test runner.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { build } from 'esbuild';

const FOLDER = '.build/extension-tests';
const entryPoints = readdirSync('extension/test').filter(name => name.endsWith('.test.ts')).map(name => `extension/test/${name}`);

await build({
  entryPoints,
  outdir: FOLDER,
  bundle: true,
  platform: 'node',
  target: 'node20',
  format: 'esm',
  outExtension: { '.js': '.mjs' },
  sourcemap: 'inline',
  logLevel: 'warning',
});

const files = entryPoints.map(name => name.replace('extension/test', FOLDER).replace(/\.ts$/, '.mjs'));
process.exit(spawnSync(process.execPath, ['--enable-source-maps', '--test', ...files], { stdio: 'inherit' }).status ?? 1);
