import { Schedules } from './schedules.js';
import { defects } from './settlement/defects.js';
import { SettlementWorld } from './settlement/world.js';
import { silence } from './strategy/world.js';

/** What follows failures: two handlers for each message, policies, dead letters and replies that end when they like. */
const schedules = new Schedules({
  name: 'SETTLEMENT',
  steps: 120,
  runs: 1000,
  runsWithDefect: 300,
  start: async (seed) => {
    const world = new SettlementWorld(seed);
    await world.start();
    return world;
  },
  seen: (world) => world.seen,
});

beforeAll(silence);

describe('the settlement of failures under random schedules', () => {
  it(`acknowledges what is done, does it once, and loses nothing, for ${schedules.runs} seeds from ${schedules.first}`, async () => {
    const seen = await schedules.playAll();
    if (schedules.few) return;
    const expected = [
      'retry',
      'redeliver',
      'deadLetter',
      'reject',
      'discard',
      'halt',
      'letter',
      'letter refused',
    ].concat(['error reply', 'value', 'cut', 'session lost', 'resume', 'close', 'destroy', 'acknowledgement']);
    expect(expected.filter((what) => (seen.get(what) ?? 0) < 50)).toEqual([]);
  }, 240_000);

  it.each(Object.keys(defects))(
    'notices a settlement that %s',
    async (name) => {
      await expect(schedules.playWithDefect(defects[name])).rejects.toThrow(/SETTLEMENT_MODEL_SEED=\d+: /);
    },
    120_000,
  );
});
