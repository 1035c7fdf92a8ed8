import { shared } from './jest.shared.mjs';

/** `npm run test:integration`: the suites that need real brokers (REQUIRE_BROKERS=1 makes an absent one a failure). */
export default {
  ...shared,
  testRegex: 'test/integration/.*\\.spec\\.ts$',
  maxWorkers: 1,
  testTimeout: 120_000,
};
