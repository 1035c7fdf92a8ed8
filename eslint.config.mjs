import prettier from 'eslint-config-prettier';
import tseslint from 'typescript-eslint';

const timersAndIo = [
  'setTimeout',
  'setInterval',
  'setImmediate',
  'clearTimeout',
  'clearInterval',
  'queueMicrotask',
  'process',
  'console',
  'performance',
  'Promise',
  'fetch',
].map((name) => ({ name, message: 'The cores are sans-IO: take it as an argument or put it in the outbox.' }));

export default tseslint.config(
  { ignores: ['node_modules', 'dist', 'out', 'coverage', '.cache', '.brokers', 'test-results'] },
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.recommendedTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      '@typescript-eslint/no-unused-vars': [
        'error',
        { argsIgnorePattern: '^_', varsIgnorePattern: '^_', caughtErrors: 'none' },
      ],
      '@typescript-eslint/consistent-type-imports': [
        'error',
        { fixStyle: 'inline-type-imports', disallowTypeAnnotations: false },
      ],
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      '@typescript-eslint/require-await': 'off',
      eqeqeq: ['error', 'smart'],
    },
  },
  {
    files: ['lib/**/*.ts'],
    rules: { 'no-console': 'error', '@typescript-eslint/explicit-module-boundary-types': 'error' },
  },
  {
    // The sans-IO cores: no timer, promise, clock, randomness or I/O (ARCHITECTURE, "The cores are sans-IO").
    files: ['lib/*/protocol/**/*.ts', 'lib/*/codec/**/*.ts'],
    rules: {
      'max-lines': ['error', { max: 400, skipBlankLines: false, skipComments: false }],
      'no-restricted-globals': ['error', ...timersAndIo],
      'no-restricted-properties': [
        'error',
        { object: 'Date', property: 'now', message: 'Time is an argument (`now`).' },
        { object: 'Math', property: 'random', message: 'Randomness is an argument (`jitter`).' },
        { object: 'crypto', property: 'randomUUID', message: 'Randomness is an argument.' },
      ],
      'no-restricted-syntax': [
        'error',
        { selector: 'AwaitExpression', message: 'A core never awaits.' },
        { selector: ':function[async=true]', message: 'A core has no async function.' },
        { selector: "NewExpression[callee.name='Date']", message: 'Time is an argument (`now`).' },
      ],
    },
  },
  {
    files: ['lib/*/codec/proto/**'],
    rules: { 'max-lines': 'off' },
  },
  {
    files: ['test/**/*.ts', 'sample/**/*.ts'],
    rules: {
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-call': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
      '@typescript-eslint/unbound-method': 'off',
    },
  },
  { files: ['**/*.mjs', '**/*.cjs'], extends: [tseslint.configs.disableTypeChecked] },
  prettier,
);
