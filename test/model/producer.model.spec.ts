import { defects } from './producer/defects.js';
import { World } from './producer/world.js';

const STEPS = 160;

/** Runs one schedule; a breach is reported with its seed, so that it can be played again. */
function run(seed: number): World {
  let world: World | undefined;
  try {
    world = new World(seed);
    for (let i = 0; i < STEPS; i++) world.step();
    world.finish();
    return world;
  } catch (error) {
    const tail = world?.log.slice(-Number(process.env.PRODUCER_MODEL_LOG ?? 40)).join('\n') ?? '';
    throw new Error(`PRODUCER_MODEL_SEED=${seed}: ${(error as Error).message}\n${tail}`, { cause: error });
  }
}

/**
 * PRODUCER_MODEL_SEED=n plays one seed again, PRODUCER_MODEL_LOG=n shows more of its end, PRODUCER_MODEL_RUNS=n sets the
 * number of seeds, PRODUCER_MODEL_FIRST=n where they begin.
 */
describe('Pulsar producer under random schedules', () => {
  const only = process.env.PRODUCER_MODEL_SEED;
  const runs = only === undefined ? Number(process.env.PRODUCER_MODEL_RUNS ?? 2500) : 1;
  const first = Number(only ?? process.env.PRODUCER_MODEL_FIRST ?? 1);

  it(`holds P1 to P9 for ${runs} seeds from ${first}`, () => {
    const seen = new Map<string, number>();
    for (let seed = first; seed < first + runs; seed++) {
      for (const [what, count] of run(seed).seen) seen.set(what, (seen.get(what) ?? 0) + count);
    }
    if (only !== undefined || runs < 1000) return;
    // A schedule in which nothing happens would hold everything.
    const expected = [
      'cut',
      'broker close',
      'refusal',
      'orderBroken',
      'future receipt',
      'stale event',
      'queued',
      'terminated',
      'cancelled',
      'flushed',
      'possibleDuplicate',
      ...['stored', 'a duplicate', 'ERR_DEDUPLICATED', 'ERR_SEND_TIMEOUT', 'ERR_CLOSED'].map(
        (what) => `outcome ${what}`,
      ),
    ];
    expect(expected.filter((what) => (seen.get(what) ?? 0) < 10)).toEqual([]);
  });

  it.each(Object.keys(defects))('notices a producer that %s', (name) => {
    const restore = defects[name]();
    try {
      expect(() => {
        for (let seed = 1; seed <= 1500; seed++) run(seed);
      }).toThrow(/PRODUCER_MODEL_SEED=\d+: (P\d|the core asks|send \d+ waits)/);
    } finally {
      restore();
    }
  });
});
