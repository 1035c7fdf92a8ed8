import { defects } from './producer/defects.js';
import { World } from './producer/world.js';
import { Schedules } from './schedules.js';

const schedules = new Schedules({
  name: 'PRODUCER',
  steps: 160,
  runs: 2500,
  runsWithDefect: 1500,
  start: (seed) => new World(seed),
  seen: (world) => world.seen,
});

const EXPECTED = [
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
  ...['stored', 'a duplicate', 'ERR_DEDUPLICATED', 'ERR_SEND_TIMEOUT', 'ERR_CLOSED'].map((what) => `outcome ${what}`),
];

describe('Pulsar producer under random schedules', () => {
  it(`holds P1 to P9 for ${schedules.runs} seeds from ${schedules.first}`, async () => {
    const seen = await schedules.playAll();
    if (schedules.few) return;
    expect(EXPECTED.filter((what) => (seen.get(what) ?? 0) < 10)).toEqual([]);
  }, 240_000);

  it.each(Object.keys(defects))(
    'notices a producer that %s',
    async (name) => {
      await expect(schedules.playWithDefect(defects[name])).rejects.toThrow(
        /PRODUCER_MODEL_SEED=\d+: (P\d|the core asks|send \d+ waits)/,
      );
    },
    240_000,
  );
});
