import { shared } from './jest.shared.mjs';

/** `npm test`: everything that needs Node alone. */
export default {
  ...shared,
  testRegex: 'test/.*\\.spec\\.ts$',
  testPathIgnorePatterns: ['/node_modules/', '<rootDir>/test/integration/'],
  testTimeout: 30_000,
};
