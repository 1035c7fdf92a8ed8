import { OptionsError } from '../errors.js';
import { type BackoffOptions, DEFAULT_BACKOFF } from '../net/backoff.js';
import { type Clock, systemClock } from '../net/clock.js';
import { createDialer, type Endpoint } from '../net/dial.js';
import { type TlsOptions } from '../net/tls.js';
import { type Dialer } from '../net/transport.js';
import {
  arrayOf,
  boolean,
  checkOptions,
  checkUrlIsSet,
  either,
  func,
  integer,
  isArray,
  isBoolean,
  isFunction,
  isPlainObject,
  isText,
  milliseconds,
  nonEmptyText,
  number,
  object,
  objectWith,
  oneOf,
  type OptionSchema,
  required,
  satisfies,
  secret,
  text,
  textRecord,
} from '../option-checks.js';
import { brokerUrl, parseServiceUrls } from './broker-url.js';
import { type EncryptionOptions } from './crypto/index.js';
import { Identity } from './identity.js';
import { type BatchingOptions, type ProducerOptions, type PulsarClientOptions } from './option-types.js';
import { parseTopicName, type TopicName } from './protocol/topic-name.js';
import { type Schema } from './schema/index.js';

const pem = secret('a PEM string or Buffer', (value) => typeof value === 'string' || value instanceof Uint8Array);

const tls: OptionSchema<TlsOptions> = {
  ca: either('a PEM string, a Buffer, or an array of them', [isArray, arrayOf(pem)], [() => true, pem]),
  cert: pem,
  key: pem,
  passphrase: secret('a string', isText),
  pfx: pem,
  servername: text,
  alpnProtocols: arrayOf(nonEmptyText),
  minVersion: oneOf('TLSv1.2', 'TLSv1.3'),
  rejectUnauthorized: boolean,
};

const backoff: OptionSchema<BackoffOptions> = {
  initial: milliseconds(1),
  max: milliseconds(1),
  factor: number(1, 100),
};

const clientSchema: OptionSchema<PulsarClientOptions> = {
  url: required(
    either(
      'a URL such as pulsar://localhost:6650, or an array of them',
      [isText, nonEmptyText],
      [isArray, arrayOf(nonEmptyText, 1)],
    ),
  ),
  tls: object(tls),
  auth: objectWith('getAuthData'),
  connectTimeout: milliseconds(1),
  operationTimeout: milliseconds(1),
  keepAlive: milliseconds(),
  connectionsPerBroker: integer(1, 1000),
  memoryLimit: integer(0, Number.MAX_SAFE_INTEGER, 'bytes'),
  backoff: object(backoff),
  listenerName: nonEmptyText,
  createTimeout: milliseconds(1),
  dialer: func,
  clock: objectWith('now', 'wallTime', 'random', 'setTimer', 'clearTimer', 'endOfTurn'),
};

const batching: OptionSchema<BatchingOptions> = {
  enabled: boolean,
  type: oneOf('default', 'keyBased'),
  maxMessages: integer(1, 1_000_000),
  maxBytes: integer(1, Number.MAX_SAFE_INTEGER, 'bytes'),
  maxDelay: milliseconds(),
};

const encryption: OptionSchema<EncryptionOptions> = {
  keys: required(arrayOf(nonEmptyText, 1)),
  keyReader: required(objectWith('getPublicKey')),
  rotateAfter: milliseconds(1),
  failureAction: oneOf('fail', 'send'),
};

const producerSchema: OptionSchema<ProducerOptions> = {
  topic: required(nonEmptyText),
  name: nonEmptyText,
  sendTimeout: milliseconds(),
  maxPendingMessages: integer(1),
  whenFull: oneOf('wait', 'reject'),
  batching: either('true, false or batching options', [isBoolean, boolean], [isPlainObject, object(batching)]),
  compression: oneOf('none', 'lz4', 'zlib', 'zstd', 'snappy'),
  encryption: object(encryption),
  schema: objectWith('encode', 'decode'),
  chunking: boolean,
  maxChunkBytes: integer(1024, Number.MAX_SAFE_INTEGER, 'bytes'),
  initialSequenceId: integer(-1),
  accessMode: oneOf('shared', 'exclusive', 'waitForExclusive', 'exclusiveWithFencing'),
  routing: either("'roundRobin', 'single' or a function", [isText, oneOf('roundRobin', 'single')], [isFunction, func]),
  hashing: oneOf('javaString', 'murmur3'),
  partitionsUpdateInterval: milliseconds(),
  lazyPartitions: boolean,
  properties: textRecord,
  interceptors: arrayOf(
    satisfies(
      'an object with beforeSend() or afterReceipt()',
      (value) => isPlainObject(value) && (isFunction(value['beforeSend']) || isFunction(value['afterReceipt'])),
    ),
  ),
  closeTimeout: milliseconds(),
};

export interface ResolvedPulsarClientOptions {
  readonly serviceUrls: readonly Endpoint[];
  readonly identity: Identity | undefined;
  readonly connectTimeout: number;
  readonly operationTimeout: number;
  readonly keepAlive: number;
  readonly connectionsPerBroker: number;
  readonly memoryLimit: number;
  readonly backoff: BackoffOptions;
  readonly listenerName: string | undefined;
  readonly createTimeout: number;
  readonly dialer: (endpoint: Endpoint) => Dialer;
  readonly clock: Clock;
}

/** @throws OptionsError */
export function parseClientOptions(options: PulsarClientOptions): ResolvedPulsarClientOptions {
  checkUrlIsSet('pulsar', options, 'a URL such as pulsar://localhost:6650, or an array of them');
  checkOptions<PulsarClientOptions>('pulsar', options, clientSchema);
  const serviceUrls = parseServiceUrls('pulsar.url', options.url);
  const secure = serviceUrls[0].scheme === 'tls';
  if (!secure && options.tls !== undefined) {
    throw new OptionsError('pulsar.tls', 'a pulsar+ssl:// URL beside it', `'${brokerUrl(serviceUrls[0])}'`);
  }
  const { auth, clock = systemClock, connectTimeout = 10_000 } = options;
  const certificate = options.tls?.cert ?? options.tls?.pfx;
  if (auth?.method === 'tls' && certificate === undefined) {
    throw new OptionsError('pulsar.tls.cert', 'the client certificate for tlsAuth()', 'nothing');
  }
  return {
    serviceUrls,
    identity: auth && new Identity(auth),
    connectTimeout,
    operationTimeout: options.operationTimeout ?? 30_000,
    keepAlive: options.keepAlive ?? 30_000,
    connectionsPerBroker: options.connectionsPerBroker ?? 1,
    memoryLimit: options.memoryLimit ?? 64 * 1024 * 1024,
    backoff: parseBackoff(options.backoff),
    listenerName: options.listenerName,
    createTimeout: options.createTimeout ?? 30_000,
    clock,
    dialer:
      options.dialer ??
      ((endpoint) =>
        createDialer(endpoint, {
          description: brokerUrl(endpoint),
          connectTimeout,
          clock,
          ...(options.tls !== undefined && { tls: options.tls }),
        })),
  };
}

export interface ResolvedProducerOptions extends Required<
  Omit<ProducerOptions, 'topic' | 'name' | 'batching' | 'maxChunkBytes' | 'encryption' | 'schema'>
> {
  readonly topic: TopicName;
  readonly name: string | undefined;
  readonly batching: Required<Omit<BatchingOptions, 'enabled'>> | undefined;
  readonly maxChunkBytes: number | undefined;
  readonly encryption: EncryptionOptions | undefined;
  readonly schema: Schema<unknown> | undefined;
}

/** @throws OptionsError */
export function parseProducerOptions(options: ProducerOptions): ResolvedProducerOptions {
  checkOptions<ProducerOptions>('producer', options, producerSchema);
  const given = options.batching ?? true;
  const batch = typeof given === 'boolean' ? { enabled: given } : given;
  if (options.maxChunkBytes !== undefined && options.chunking !== true) {
    throw new OptionsError('producer.maxChunkBytes', 'chunking: true beside it', 'chunking off');
  }
  return {
    topic: parseTopicName(options.topic),
    name: options.name,
    sendTimeout: options.sendTimeout ?? 0,
    maxPendingMessages: options.maxPendingMessages ?? 1000,
    whenFull: options.whenFull ?? 'wait',
    batching:
      batch.enabled === false
        ? undefined
        : {
            type: batch.type ?? 'default',
            maxMessages: batch.maxMessages ?? 1000,
            maxBytes: batch.maxBytes ?? 128 * 1024,
            maxDelay: batch.maxDelay ?? 1,
          },
    compression: options.compression ?? 'none',
    encryption: options.encryption,
    schema: options.schema,
    chunking: options.chunking ?? false,
    maxChunkBytes: options.maxChunkBytes,
    initialSequenceId: options.initialSequenceId ?? -1,
    accessMode: options.accessMode ?? 'shared',
    routing: options.routing ?? 'roundRobin',
    hashing: options.hashing ?? 'javaString',
    partitionsUpdateInterval: options.partitionsUpdateInterval ?? 60_000,
    lazyPartitions: options.lazyPartitions ?? false,
    properties: options.properties ?? {},
    interceptors: options.interceptors ?? [],
    closeTimeout: options.closeTimeout ?? 10_000,
  };
}

function parseBackoff(given: Partial<BackoffOptions> = {}): BackoffOptions {
  const resolved = {
    initial: given.initial ?? DEFAULT_BACKOFF.initial,
    max: given.max ?? DEFAULT_BACKOFF.max,
    factor: given.factor ?? DEFAULT_BACKOFF.factor,
  };
  if (resolved.max < resolved.initial) {
    throw new OptionsError('pulsar.backoff.max', `at least backoff.initial (${resolved.initial})`, `${resolved.max}`);
  }
  return resolved;
}
