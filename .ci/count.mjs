// Adds up jest's JSON results: `N passed, N failed`. A failed stage that no jest result stands for counts as one failure, so
// does a suite that could not run; a test that was skipped is one too, because nothing here may be skipped.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const [folder, failedStages] = process.argv.slice(2);
let passed = 0;
let failed = 0;
for (const file of readdirSync(folder).filter((name) => name.endsWith('.json'))) {
  const result = JSON.parse(readFileSync(join(folder, file), 'utf8'));
  const skipped = result.numPendingTests + result.numTodoTests;
  if (skipped > 0) console.log(`${file}: ${skipped} tests were skipped`);
  passed += result.numPassedTests;
  failed += result.numFailedTests + result.numRuntimeErrorTestSuites + skipped;
}
if (passed + failed === 0) console.log('no jest result was written');
failed = Math.max(failed, Number(failedStages));
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 || passed === 0 ? 1 : 0);
