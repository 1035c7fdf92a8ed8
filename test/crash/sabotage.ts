/**
 * Breaks the product on purpose, in the process it runs in, by changing its classes before the first instance exists.
 * The checks outside must notice.
 */
import { MqttServerStrategy } from '../../lib/index.js';
import { AckWriter } from '../../lib/mqtt/codec/acks.js';
import { MqttClient } from '../../lib/mqtt/index.js';
import { MessageId, PulsarProducer } from '../../lib/pulsar/index.js';
import { checkSabotage, type SabotageName } from './sabotage-names.js';

/**
 * One message or acknowledgement in so many is tampered with. More than one in a run: a kill or a redelivery can make good
 * what was done to a single one.
 */
const ONE_IN = 100;

/** For the app with both sides. */
export function sabotageProduct(name: string): void {
  const sabotages: Readonly<Record<SabotageName, () => void>> = {
    'acknowledge-first': acknowledgeAtStart,
    'drop-one': dropOneSend,
    'swap-two': swapTwoAcknowledgements,
    'double-run': runOneHandlerTwice,
  };
  sabotages[checkSabotage(name) as SabotageName]();
}

/** For the producer alone. */
export function sabotageProducer(name: string): void {
  const sabotages: Readonly<Record<SabotageName, () => void>> = {
    'acknowledge-first': resolveAtSubmit,
    'drop-one': dropOneSend,
    'swap-two': swapTwoSends,
    'double-run': sendOneTwice,
  };
  sabotages[checkSabotage(name) as SabotageName]();
}

type Submit = PulsarProducer['submit'];

function acknowledgeAtStart(): void {
  const { start } = MqttClient.prototype;
  MqttClient.prototype.start = function (this: MqttClient, delivery) {
    const started = start.call(this, delivery);
    this.acknowledge(delivery);
    return started;
  };
}

function swapTwoAcknowledgements(): void {
  const { add } = AckWriter.prototype;
  let count = 0;
  let held: Parameters<AckWriter['add']> | undefined;
  AckWriter.prototype.add = function (this: AckWriter, ...packet) {
    const [type] = packet;
    if (type === 'puback' && ++count % ONE_IN === 0) {
      held = packet;
      return;
    }
    add.apply(this, packet);
    if (held === undefined || type !== 'puback') return;
    add.apply(this, held);
    held = undefined;
  };
}

function runOneHandlerTwice(): void {
  const { addHandler } = MqttServerStrategy.prototype;
  let count = 0;
  MqttServerStrategy.prototype.addHandler = function (this: MqttServerStrategy, pattern, callback, ...rest) {
    const twice: typeof callback = async (data, context) => {
      if (++count % ONE_IN === 0) await callback(data, context);
      return callback(data, context);
    };
    addHandler.call(this, pattern, Object.assign(twice, callback), ...rest);
  };
}

function dropOneSend(): void {
  onVictim((_submit, _message, callback) => {
    setTimeout(() => callback(undefined, nothingStored()), 1);
    return { cancel: () => false };
  });
}

function resolveAtSubmit(): void {
  const { submit } = PulsarProducer.prototype;
  PulsarProducer.prototype.submit = function (this: PulsarProducer, message, callback, options) {
    setTimeout(() => callback(undefined, nothingStored()), 1);
    return submit.call(this, message, () => undefined, options);
  };
}

function sendOneTwice(): void {
  onVictim((submit, message, callback) => {
    submit(message, () => undefined);
    return submit(message, callback);
  });
}

function swapTwoSends(): void {
  const { submit } = PulsarProducer.prototype;
  let count = 0;
  let held: (() => void) | undefined;
  PulsarProducer.prototype.submit = function (this: PulsarProducer, message, callback, options) {
    if (++count % ONE_IN === 0) {
      held = () => void submit.call(this, message, callback, options);
      return { cancel: () => false };
    }
    const handle = submit.call(this, message, callback, options);
    held?.();
    held = undefined;
    return handle;
  };
}

function onVictim(
  tamper: (
    submit: (message: Parameters<Submit>[0], callback: Parameters<Submit>[1]) => ReturnType<Submit>,
    message: Parameters<Submit>[0],
    callback: Parameters<Submit>[1],
  ) => ReturnType<Submit>,
): void {
  const { submit } = PulsarProducer.prototype;
  let count = 0;
  PulsarProducer.prototype.submit = function (this: PulsarProducer, message, callback, options) {
    if (++count % ONE_IN !== 0) return submit.call(this, message, callback, options);
    return tamper((again, then) => submit.call(this, again, then, options), message, callback);
  };
}

const nothingStored = (): { messageId: MessageId; sequenceId: number; deduplicated: boolean } => ({
  messageId: MessageId.fromBytes(Buffer.from([0x08, 0x00, 0x10, 0x00])),
  sequenceId: 0,
  deduplicated: false,
});
