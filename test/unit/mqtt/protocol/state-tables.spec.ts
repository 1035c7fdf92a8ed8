import { connectionTransitions, nextConnectionState } from '../../../../lib/mqtt/protocol/connection-state.js';
import { Delivery, deliveryTransitions } from '../../../../lib/mqtt/protocol/delivery.js';
import { DeliveryStates } from '../../../../lib/mqtt/protocol/delivery-states.js';

it('a connection pair that is not in the table is an error', () => {
  expect(nextConnectionState('offline', 'dial')).toBe('dialing');
  expect(() => nextConnectionState('offline', 'accepted')).toThrow(/'accepted' cannot happen in state 'offline'/);
  expect(() => nextConnectionState('ended', 'dial')).toThrow();
});

it('a delivery pair that is not in the table changes nothing', () => {
  const states = new DeliveryStates();
  const message = { topic: 't', payload: Buffer.alloc(0), qos: 1 as const, retain: false, dup: false };
  const delivery = new Delivery(message, 0, 1);
  states.count(delivery);
  expect(states.move(delivery, 'retry')).toBe(false);
  expect(delivery.state).toBe('waiting');
  for (const cause of ['start', 'fail', 'redelivered', 'acknowledge', 'handed'] as const) {
    expect(states.move(delivery, cause)).toBe(true);
  }
  expect(delivery.state).toBe('settled');
  expect(states.counts).toMatchObject({ waiting: 0, running: 0, failed: 0, succeeded: 0, settled: 1 });
});

it.each([
  ['offline', connectionTransitions],
  ['waiting', deliveryTransitions],
] as const)('every state can be reached from %s', (initial, table) => {
  const rows: Readonly<Record<string, Readonly<Record<string, string>>>> = table;
  const reached = new Set<string>([initial]);
  for (const state of reached) for (const next of Object.values(rows[state])) reached.add(next);
  expect([...reached].sort()).toEqual(Object.keys(rows).sort());
});
