import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { repositoryRoot } from '../brokers/paths.js';
import { compileSample } from './compile.js';

const LIMIT = 2 * 1024 * 1024;

/** Runs the sample on its embedded brokers; gives its lines of JSON. */
function sample(out: string, args: readonly string[]): readonly Record<string, number>[] {
  const program = join(out, 'sample', '01-mqtt-to-pulsar', 'src', 'main.js');
  const { MQTT_URL: _mqtt, PULSAR_URL: _pulsar, NODE_OPTIONS: _options, ...env } = process.env;
  const done = spawnSync(process.execPath, ['--expose-gc', program, ...args], {
    cwd: repositoryRoot,
    encoding: 'utf8',
    env,
    timeout: 120_000,
  });
  if (done.status !== 0) throw new Error(`exit ${done.status ?? done.signal}\n${done.stdout}\n${done.stderr}`);
  const lines = done.stdout.trim().split('\n');
  expect(lines.at(-1)).toMatch(/^\{/);
  return lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Record<string, number>);
}

describe('the sample', () => {
  let out: string;
  beforeAll(() => {
    out = compileSample('memory-spec');
  }, 120_000);

  it('ends by itself, with everything stored once', () => {
    expect(sample(out, ['--messages', '1000', '--exit']).at(-1)).toEqual({
      published: 1000,
      stored: 1000,
      lost: 0,
      duplicates: 0,
      acknowledged: 1000,
      protocolVersion: 4,
    });
  }, 150_000);

  it('needs no more heap after 10,000 messages than after 2,000', () => {
    const lines = sample(out, ['--messages', '10000', '--exit', '--heap-at', '2000', '--heap-at', '10000']);
    const [early, late] = lines.filter((line) => 'heapAt' in line);
    expect([early?.['heapAt'], late?.['heapAt']]).toEqual([2000, 10_000]);
    expect((late?.['bytes'] ?? NaN) - (early?.['bytes'] ?? NaN)).toBeLessThan(LIMIT);
    expect(lines.at(-1)).toMatchObject({ published: 10_000, stored: 10_000, lost: 0 });
  }, 150_000);
});
