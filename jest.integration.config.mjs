import { shared } from './jest.shared.mjs';

/** `npm run test:integration`: the suites that need real brokers (REQUIRE_BROKERS=1 makes an absent one a failure). */
export default {
  ...shared,
  testRegex: 'test/integration/.*\\.spec\\.ts$',
  globalSetup: '<rootDir>/test/integration/global-setup.mjs',
  globalTeardown: '<rootDir>/test/integration/global-teardown.mjs',
  maxWorkers: 1,
  testTimeout: 120_000,
};
