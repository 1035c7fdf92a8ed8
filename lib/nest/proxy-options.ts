import { OptionsError } from '../errors.js';
import {
  boolean,
  checkOptions,
  func,
  integer,
  milliseconds,
  objectWith,
  oneOf,
  type OptionCheck,
  type OptionSchema,
  satisfies,
  textRecord,
  withOwnNames,
} from '../option-checks.js';
import { type MqttClientOptions, type Qos } from '../mqtt/index.js';
import { parseProducerOptions, type ProducerOptions, type PulsarClientOptions } from '../pulsar/index.js';
import { POOL_NAME } from './pulsar-topic-mapping.js';
import { type ReplyDeserializer } from './reply-deserializer.js';
import { type PayloadSerializer } from './serializers.js';

/** Options of a producer without its topic, which comes from the pattern. */
export type TopicProducerOptions = Omit<ProducerOptions, 'topic'>;

/** Options of {@link PulsarClientProxy}: those of the Pulsar client, and these. */
export interface PulsarClientProxyOptions extends PulsarClientOptions {
  /**
   * For every producer the proxy makes: batching, compression, encryption, schema, limits and so on; or a function of the
   * full topic name, which must give the same each time. With a schema, what is emitted is its value; bytes are taken as
   * encoded already.
   */
  readonly producer?: TopicProducerOptions | ((topic: string) => TopicProducerOptions);
  /** Tenant of patterns that are no full topic names. Default `public`. */
  readonly tenant?: string;
  /** Namespace of patterns that are no full topic names. Default `default`. */
  readonly namespace?: string;
  /** False: patterns that are no full topic names become `non-persistent://` topics, which nothing stores. Default true. */
  readonly persistent?: boolean;
  /** The full topic name of a pattern, in place of the mapping by `tenant` and `namespace`; must give the same each time. */
  readonly topic?: (pattern: string) => string;
  /** Producers open at a time; one more topic closes the one idle longest. Default 1,000. */
  readonly maxProducers?: number;
  /** Emits without an outcome; one more fails with ERR_QUEUE_FULL. Default 100,000. */
  readonly maxPendingEmits?: number;
  /** Milliseconds `close()` waits for emits without an outcome. Default 10,000. */
  readonly closeTimeout?: number;
  /** Makes bytes of the data. Default {@link RawOrJsonSerializer}. */
  readonly serializer?: PayloadSerializer;
}

/** Options of {@link MqttClientProxy}: those of the MQTT client, and these. */
export interface MqttClientProxyOptions extends MqttClientOptions {
  /** QoS of what is published without a record. Default 1. */
  readonly qos?: Qos;
  /** Retain flag of what is published without a record. Default false. */
  readonly retain?: boolean;
  /**
   * How data and requests look on the wire:
   * - `none` (default): the data alone; requests use the Response Topic and Correlation Data of MQTT 5
   * - `nest`: the JSON envelope and `/reply` topics of Nest's built-in `Transport.MQTT`
   */
  readonly envelope?: 'none' | 'nest';
  /** Milliseconds until the first reply and between replies of `send()`; 0 = no bound. Default 30,000. */
  readonly requestTimeout?: number;
  /** Topic for the replies to `send()`. Default: from the server's Response Information, else `nestjs-mqtt-pulsar/reply/<random>`. */
  readonly responseTopic?: string;
  /** User properties of every message it publishes (MQTT 5); those of a record are added. */
  readonly messageProperties?: Readonly<Record<string, string>>;
  /** Makes bytes of the data. Default {@link RawOrJsonSerializer}. */
  readonly serializer?: PayloadSerializer;
  /** Makes a value of a reply's bytes. Default: JSON where the text is JSON, else a string. */
  readonly deserializer?: ReplyDeserializer;
}

const name: OptionCheck = satisfies(
  'a name of letters, digits and -=:._',
  (value) => typeof value === 'string' && POOL_NAME.test(value),
);

const PULSAR: OptionSchema<Omit<PulsarClientProxyOptions, keyof PulsarClientOptions>> = {
  producer: satisfies(
    'an object of producer options without a topic, or a function that gives one',
    (value) => typeof value === 'function' || (typeof value === 'object' && value !== null && !('topic' in value)),
  ),
  tenant: name,
  namespace: name,
  persistent: boolean,
  topic: func,
  maxProducers: integer(1),
  maxPendingEmits: integer(1),
  closeTimeout: milliseconds(),
  serializer: objectWith('serialize'),
};

const MQTT: OptionSchema<Omit<MqttClientProxyOptions, keyof MqttClientOptions>> = {
  qos: oneOf(0, 1, 2),
  retain: boolean,
  envelope: oneOf('none', 'nest'),
  requestTimeout: milliseconds(),
  responseTopic: satisfies(
    'a topic name without wildcards',
    (value) => typeof value === 'string' && value !== '' && !/[+#\0]/.test(value),
  ),
  messageProperties: textRecord,
  serializer: objectWith('serialize'),
  deserializer: objectWith('deserialize'),
};

export type OwnPulsarOptions = Omit<PulsarClientProxyOptions, keyof PulsarClientOptions>;
export type OwnMqttOptions = Omit<MqttClientProxyOptions, keyof MqttClientOptions>;

/** The proxy's own options, checked, and the client's, unchecked. @throws OptionsError */
export function splitPulsarOptions(given: PulsarClientProxyOptions): {
  own: OwnPulsarOptions;
  client: PulsarClientOptions;
} {
  const { own, client } = split<OwnPulsarOptions, PulsarClientOptions>('pulsar', given, PULSAR);
  // A mistake in them shall not wait for the first emit.
  if (typeof own.producer === 'object') parseProducerOptions({ ...own.producer, topic: 'any' });
  return { own, client };
}

/** The proxy's own options, checked, and the client's, unchecked. @throws OptionsError */
export function splitMqttOptions(given: MqttClientProxyOptions): { own: OwnMqttOptions; client: MqttClientOptions } {
  return split<OwnMqttOptions, MqttClientOptions>('mqtt', given, MQTT);
}

/** Runs the parser of the client's options; a misspelt name can also mean one of the proxy's own. */
export function parseClientOptions<T>(parse: () => T, kind: 'pulsar' | 'mqtt'): T {
  return withOwnNames(parse, kind, Object.keys(kind === 'pulsar' ? PULSAR : MQTT));
}

function split<Own extends object, Client>(
  path: string,
  given: unknown,
  schema: OptionSchema<Own>,
): { own: Own; client: Client } {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new OptionsError(
      path,
      'an object',
      given === null ? 'null' : Array.isArray(given) ? 'an array' : typeof given,
    );
  }
  const own: Record<string, unknown> = {};
  const client: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(given)) (Object.hasOwn(schema, key) ? own : client)[key] = value;
  checkOptions<Own>(path, own, schema);
  return { own, client: client as Client };
}
