import { defects } from './session/defects.js';
import { World } from './session/world.js';

const STEPS = 220;

/** Runs one schedule; a breach is reported with its seed, so that it can be played again. */
function run(seed: number): World {
  let world: World | undefined;
  try {
    world = new World(seed);
    for (let i = 0; i < STEPS; i++) world.step();
    world.finish();
    return world;
  } catch (error) {
    const tail = world?.log.slice(-Number(process.env.SESSION_MODEL_LOG ?? 40)).join('\n') ?? '';
    throw new Error(`SESSION_MODEL_SEED=${seed}: ${(error as Error).message}\n${tail}`, { cause: error });
  }
}

/**
 * SESSION_MODEL_SEED=n plays one seed again, SESSION_MODEL_LOG=n shows more of its end, SESSION_MODEL_RUNS=n sets the number
 * of seeds, SESSION_MODEL_FIRST=n where they begin.
 */
describe('MQTT session under random schedules', () => {
  const only = process.env.SESSION_MODEL_SEED;
  const runs = only === undefined ? Number(process.env.SESSION_MODEL_RUNS ?? 4000) : 1;
  const first = Number(only ?? process.env.SESSION_MODEL_FIRST ?? 1);

  it(`holds M1 to M5, M7 and M8 for ${runs} seeds from ${first}`, () => {
    const seen: { [what: string]: number } = {};
    for (let seed = first; seed < first + runs; seed++) {
      for (const [what, count] of Object.entries(run(seed).session.counters)) seen[what] = (seen[what] ?? 0) + count;
    }
    if (only !== undefined) return;
    // A schedule in which nothing happens would hold everything.
    for (const what of Object.keys(seen)) {
      if (!['refusedTransitions', 'droppedQos0'].includes(what)) expect([what, seen[what] > 0]).toEqual([what, true]);
    }
  });

  it.each(Object.keys(defects))('notices a session that %s', (name) => {
    const restore = defects[name]();
    try {
      expect(() => {
        for (let seed = 1; seed <= 1500; seed++) run(seed);
      }).toThrow(/SESSION_MODEL_SEED=/);
    } finally {
      restore();
    }
  });
});
