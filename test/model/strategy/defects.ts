/** Defects planted into the strategy for the length of one run: the model must notice every one of them. */
import { MqttClient } from '../../../lib/mqtt/index.js';
import { DeliveryGate } from '../../../lib/nest/delivery-gate.js';
import { MqttServerStrategy } from '../../../lib/nest/mqtt-server.strategy.js';

/** Private members are patched, so the types are left behind here. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Loose = any;

function patch(target: { prototype: Loose }, name: string, make: (original: Loose) => Loose): () => void {
  const original: Loose = target.prototype[name];
  target.prototype[name] = make(original);
  return () => (target.prototype[name] = original);
}

export const defects: { readonly [name: string]: () => () => void } = {
  'frees the key when the handler ends': () =>
    patch(
      DeliveryGate,
      'yieldSlot',
      (original) =>
        function (this: Loose, entry: Loose) {
          original.call(this, entry);
          if (entry.hasKey === true) this.passKeyOn(entry);
        },
    ),
  'gives a key to the youngest': () =>
    patch(
      DeliveryGate,
      'passKeyOn',
      (original) =>
        function (this: Loose, entry: Loose) {
          const [holder, ...waiting] = this.waitingByKey.get(entry.key);
          this.waitingByKey.set(entry.key, [holder, ...waiting.reverse()]);
          original.call(this, entry);
        },
    ),
  'runs more than the concurrency': () =>
    patch(
      DeliveryGate,
      'start',
      (original) =>
        function (this: Loose, entry: Loose) {
          if (entry.sequence % 5 === 0) this.running -= 1;
          original.call(this, entry);
        },
    ),
  'acknowledges what failed': () =>
    patch(
      MqttClient,
      'fail',
      () =>
        function (this: Loose, delivery: Loose) {
          return this.acknowledge(delivery) as boolean;
        },
    ),
  'never reconnects': () => patch(MqttClient, 'reconnect', () => () => undefined),
  'runs a copy of what waits': () =>
    patch(
      MqttServerStrategy,
      'again',
      (original) =>
        function (this: Loose, task: Loose) {
          original.call(this, task);
          if (task.hasSlot === true) task.begin();
        },
    ),
  'forgets what a lost session has left': () =>
    patch(
      MqttServerStrategy,
      'again',
      (original) =>
        function (this: Loose, task: Loose) {
          if (task.delivery.orphaned !== true) original.call(this, task);
        },
    ),
};
