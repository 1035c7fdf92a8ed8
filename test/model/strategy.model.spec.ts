import { defects } from './strategy/defects.js';
import { silence, StrategyWorld } from './strategy/world.js';

const STEPS = 120;

beforeAll(silence);

/** Runs one schedule; a breach is reported with its seed, so that it can be played again. */
async function run(seed: number): Promise<StrategyWorld> {
  let world: StrategyWorld | undefined;
  try {
    world = new StrategyWorld(seed);
    await world.start();
    for (let i = 0; i < STEPS; i++) await world.step();
    await world.finish();
    return world;
  } catch (error) {
    const tail = world?.log.slice(-Number(process.env.STRATEGY_MODEL_LOG ?? 40)).join('\n') ?? '';
    throw new Error(`STRATEGY_MODEL_SEED=${seed}: ${(error as Error).message}\n${tail}`, { cause: error });
  }
}

/**
 * What the two cores' models cannot see: how many handlers run, and in which order per key. STRATEGY_MODEL_SEED=n plays one
 * seed again, STRATEGY_MODEL_LOG=n shows more of its end, STRATEGY_MODEL_RUNS=n sets the number of seeds,
 * STRATEGY_MODEL_FIRST=n where they begin.
 */
describe('the strategy under random schedules', () => {
  const only = process.env.STRATEGY_MODEL_SEED;
  const runs = only === undefined ? Number(process.env.STRATEGY_MODEL_RUNS ?? 1000) : 1;
  const first = Number(only ?? process.env.STRATEGY_MODEL_FIRST ?? 1);

  it(`holds M1, M6, M8 and M9 for ${runs} seeds from ${first}`, async () => {
    const seen = new Map<string, number>();
    for (let seed = first; seed < first + runs; seed++) {
      for (const [what, count] of (await run(seed)).seen) seen.set(what, (seen.get(what) ?? 0) + count);
    }
    if (only !== undefined || runs < 1000) return;
    // A schedule in which nothing happens would hold everything.
    const expected = ['dial', 'cut', 'session lost', 'copy', 'success', 'failure', 'stalled'];
    expect(expected.filter((what) => (seen.get(what) ?? 0) < 100)).toEqual([]);
  }, 120_000);

  it.each(Object.keys(defects))(
    'notices a strategy that %s',
    async (name) => {
      const restore = defects[name]();
      try {
        let noticed: unknown;
        for (let seed = 1; seed <= 300 && noticed === undefined; seed++) {
          await run(seed).catch((error: unknown) => (noticed = error));
        }
        expect(String(noticed)).toMatch(/STRATEGY_MODEL_SEED=\d+: (M\d|message|the broker)/);
      } finally {
        restore();
      }
    },
    60_000,
  );
});
