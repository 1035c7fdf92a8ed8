/** What every jest project of this repository shares: ESM tests, TypeScript through swc with Nest's decorator metadata. */
export const shared = {
  testEnvironment: 'node',
  // A symbol on globalThis is how copies of the package find each other: jest must not take it away between files.
  testEnvironmentOptions: { globalsCleanup: 'off' },
  moduleFileExtensions: ['ts', 'js', 'mjs', 'json'],
  extensionsToTreatAsEsm: ['.ts'],
  moduleNameMapper: { '^(\\.{1,2}/.*)\\.js$': '$1', '^(\\./avsc)\\.cjs$': '$1.cts' },
  transform: {
    '^.+\\.cts$': ['@swc/jest', { jsc: { parser: { syntax: 'typescript' } }, module: { type: 'commonjs' } }],
    '^.+\\.ts$': [
      '@swc/jest',
      {
        jsc: {
          parser: { syntax: 'typescript', decorators: true },
          transform: { legacyDecorator: true, decoratorMetadata: true },
          target: 'es2023',
          keepClassNames: true,
        },
        module: { type: 'es6' },
        sourceMaps: 'inline',
      },
    ],
  },
  modulePathIgnorePatterns: ['<rootDir>/dist', '<rootDir>/out', '<rootDir>/.cache'],
  workerIdleMemoryLimit: '768MB',
};
