import { Schedules } from './schedules.js';
import { defects } from './strategy/defects.js';
import { silence, StrategyWorld } from './strategy/world.js';

/** What the two cores' models cannot see: how many handlers run, and in which order per key. */
const schedules = new Schedules({
  name: 'STRATEGY',
  steps: 120,
  runs: 1000,
  runsWithDefect: 300,
  start: async (seed) => {
    const world = new StrategyWorld(seed);
    await world.start();
    return world;
  },
  seen: (world) => world.seen,
});

beforeAll(silence);

describe('the strategy under random schedules', () => {
  it(`holds M1, M6, M8 and M9 for ${schedules.runs} seeds from ${schedules.first}`, async () => {
    const seen = await schedules.playAll();
    if (schedules.few) return;
    const expected = ['dial', 'cut', 'session lost', 'copy', 'success', 'failure', 'stalled'];
    expect(expected.filter((what) => (seen.get(what) ?? 0) < 100)).toEqual([]);
  }, 240_000);

  it.each(Object.keys(defects))(
    'notices a strategy that %s',
    async (name) => {
      await expect(schedules.playWithDefect(defects[name])).rejects.toThrow(
        /STRATEGY_MODEL_SEED=\d+: (M\d|message|the broker)/,
      );
    },
    120_000,
  );
});
