/**
 * `npm run test:sequences [-- file]`: plays recorded byte sequences of a server against the public `MqttClient`.
 *
 * Prints what failed, what is left out and why, and `passed/total` as the last line. Exit 0 if all passed, 1 if not, 2 if
 * the file is absent or not in the format.
 */
import { readFileSync } from 'node:fs';
import { parseSequences, type Sequence } from './sequence.js';
import { report, runSequences } from './run.js';

const DEFAULT_FILE = '../shared/mqtt-sequences/client.ndjson';

const file = process.argv[2] ?? DEFAULT_FILE;
const sequences = load(file);
const result = await runSequences(sequences);
console.log(`${sequences.length} sequences of ${file}`);
for (const line of report(result)) console.log(line);
process.exitCode = result.passed === result.total ? 0 : 1;

function load(path: string): Sequence[] {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    console.error(
      `No sequences at '${path}' (${(error as Error).message}). Give a file: npm run test:sequences -- FILE`,
    );
    process.exit(2);
  }
  try {
    const sequences = parseSequences(text);
    if (sequences.length > 0) return sequences;
    console.error(`'${path}' holds no sequence`);
  } catch (error) {
    console.error(`'${path}' is no sequence file: ${(error as Error).message}`);
  }
  process.exit(2);
}
