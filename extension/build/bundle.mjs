// extension/src -> dist/extension.js: one CommonJS file with everything but VS Code's own API, and the licences of what is in it.
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { build } from 'esbuild';

const { metafile } = await build({
  entryPoints: ['extension/src/extension.ts'],
  outfile: 'dist/extension.js',
  bundle: true,
  platform: 'node',
  target: 'node20',
  format: 'cjs',
  external: ['vscode'],
  minify: true,
  keepNames: true,
  metafile: true,
  logLevel: 'warning',
});

const packages = new Set(
  Object.keys(metafile.inputs).flatMap(input => input.match(/^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/) ?? []),
);
const licences = await Promise.all([...packages].sort().map(licence));
await writeFile('dist/extension.licences.txt', licences.join('\n\n'));

async function licence(folder) {
  const { name, version } = JSON.parse(await readFile(`${folder}/package.json`, 'utf8'));
  const file = (await readdir(folder)).find(entry => /^licen[cs]e/i.test(entry));
  if (file === undefined) {
    throw new Error(`${folder} has no licence file`);
  }
  return `${name} ${version}\n\n${await readFile(`${folder}/${file}`, 'utf8')}`;
}
