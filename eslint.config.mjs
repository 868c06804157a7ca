// The extension's lint: what the compiler does not see, above all promises that nobody waits for.
import eslint from '@eslint/js';
import { defineConfig } from 'eslint/config';
import typescript from 'typescript-eslint';

export default defineConfig(
  { ignores: ['dist/', '.build/', 'node_modules/', 'tests/editor/rig/'] },
  eslint.configs.recommended,
  {
    files: ['extension/**/*.mjs', 'tests/editor/**/*.mjs', '*.mjs'],
    languageOptions: { globals: { console: 'readonly', process: 'readonly', URL: 'readonly', setTimeout: 'readonly' } },
  },
  {
    files: ['extension/**/*.ts'],
    extends: [typescript.configs.recommendedTypeChecked],
    languageOptions: { parserOptions: { project: './tsconfig.json' } },
    rules: {
      '@typescript-eslint/no-floating-promises': [
        'error',
        { allowForKnownSafeCalls: [{ from: 'package', package: 'node:test', name: 'test' }] },
      ],
    },
  },
);
