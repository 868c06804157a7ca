// engine/dynascope/report/schema.json -> extension/src/report.ts. With `--check` nothing is written: exit 1 when it is out of date.
import { readFile, writeFile } from 'node:fs/promises';
import { compile } from 'json-schema-to-typescript';

const SCHEMA = 'engine/dynascope/report/schema.json';
const TYPES = 'extension/src/report.ts';
const BANNER = `// Made from ${SCHEMA} by \`npm run types\`. Do not edit.`;

// The tool names a schema's root after its file; a root that is a reference would otherwise become an alias of itself.
function inlinedRoot(schema) {
  const { $ref, ...rest } = schema;
  const name = $ref.split('/').at(-1);
  const { [name]: root, ...definitions } = rest.$defs;
  return { name, schema: { ...root, $defs: definitions } };
}

const { name, schema } = inlinedRoot(JSON.parse(await readFile(SCHEMA, 'utf8')));
const types = await compile(schema, name, {
  bannerComment: BANNER,
  style: { singleQuote: true, printWidth: 120 },
  additionalProperties: false,
});

if (!process.argv.includes('--check')) {
  await writeFile(TYPES, types);
} else if ((await readFile(TYPES, 'utf8').catch(() => '')) !== types) {
  console.error(`${TYPES} is not what ${SCHEMA} makes: run \`npm run types\`.`);
  process.exit(1);
}
