// Runs the room rules (dependency-cruiser.cjs) over lib and sample and asserts that they saw the whole tree.
import { readdirSync } from 'node:fs';
import { cruise } from 'dependency-cruiser';
import extractDepcruiseOptions from 'dependency-cruiser/config-utl/extract-depcruise-options';
import extractTSConfig from 'dependency-cruiser/config-utl/extract-ts-config';

const sources = ['lib', 'sample'].flatMap((dir) =>
  readdirSync(dir, { recursive: true }).filter((file) => file.endsWith('.ts')),
).length;
const options = await extractDepcruiseOptions('./dependency-cruiser.cjs');
const result = await cruise(['lib', 'sample'], options, undefined, { tsConfig: extractTSConfig('./tsconfig.json') });
const { violations, totalCruised, totalDependenciesCruised } = result.output.summary;
for (const { rule, from, to } of violations) console.error(`${rule.severity} ${rule.name}: ${from} -> ${to}`);
if (totalCruised < sources) {
  console.error(
    `only ${totalCruised} modules were seen, ${sources} source files are there: is TypeScript the pinned version?`,
  );
  process.exit(1);
}
console.log(`${violations.length} violations (${totalCruised} modules, ${totalDependenciesCruised} dependencies)`);
process.exit(violations.length ? 1 : 0);
