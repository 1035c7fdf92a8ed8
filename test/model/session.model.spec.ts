import { Schedules } from './schedules.js';
import { defects } from './session/defects.js';
import { World } from './session/world.js';

const schedules = new Schedules({
  name: 'SESSION',
  steps: 220,
  runs: 4000,
  runsWithDefect: 1500,
  start: (seed) => new World(seed),
  seen: (world) => Object.entries(world.session.counters),
});

describe('MQTT session under random schedules', () => {
  it(`holds M1 to M5, M7 and M8 for ${schedules.runs} seeds from ${schedules.first}`, async () => {
    const seen = await schedules.playAll();
    if (schedules.few) return;
    const missing = [...seen].filter(
      ([what, count]) => count === 0 && !['refusedTransitions', 'droppedQos0'].includes(what),
    );
    expect(missing).toEqual([]);
  }, 240_000);

  it.each(Object.keys(defects))(
    'notices a session that %s',
    async (name) => {
      await expect(schedules.playWithDefect(defects[name])).rejects.toThrow(/SESSION_MODEL_SEED=/);
    },
    240_000,
  );
});
