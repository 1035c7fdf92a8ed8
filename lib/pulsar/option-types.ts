import { type TlsOptions } from '../net/tls.js';
import { type BackoffOptions } from '../net/backoff.js';
import { type Clock } from '../net/clock.js';
import { type Endpoint } from '../net/dial.js';
import { type Dialer } from '../net/transport.js';
import { type Authentication } from './auth.js';
import { type EncryptionOptions } from './crypto/index.js';
import { type MessageRouter } from './protocol/partitioner.js';
import { type Schema } from './schema/index.js';
import { type ProducerInterceptor } from './types.js';

export interface PulsarClientOptions {
  /**
   * `pulsar://host:6650` or `pulsar+ssl://host:6651`; several hosts (`pulsar://a:6650,b:6650`, or an array) are tried in
   * turn.
   */
  readonly url: string | readonly string[];
  /** For `pulsar+ssl://`. The broker's certificate is verified by default, against the host that is dialled. */
  readonly tls?: TlsOptions;
  /** See `tokenAuth`, `tlsAuth`, `oauth2Auth`, `basicAuth`. Default: none. */
  readonly auth?: Authentication;
  /** Milliseconds for TCP, TLS and the handshake. Default 10,000. */
  readonly connectTimeout?: number;
  /** Milliseconds until a request (lookup, PRODUCER, ...) without an answer fails. Default 30,000. */
  readonly operationTimeout?: number;
  /** Milliseconds of silence after which the broker is asked for a sign of life; closed after two. Default 30,000. */
  readonly keepAlive?: number;
  /** Connections to one broker; producers are spread over them. Default 1. */
  readonly connectionsPerBroker?: number;
  /** Bytes of messages taken in and not settled, over all producers; sends over it wait. 0 = no limit. Default 64 MiB. */
  readonly memoryLimit?: number;
  /** Between tries, with full jitter. Default 100 ms, doubling to 30 s. */
  readonly backoff?: Partial<BackoffOptions>;
  /** The broker's advertised listener to ask for in lookups. */
  readonly listenerName?: string;
  /** Milliseconds `createProducer()` tries while the broker is not there or not ready. Default 30,000. */
  readonly createTimeout?: number;
  /** Opens connections in place of ours: for tests, proxies, own sockets. */
  readonly dialer?: (endpoint: Endpoint) => Dialer;
  readonly clock?: Clock;
}

export interface BatchingOptions {
  /** Default true. */
  readonly enabled?: boolean;
  /** `default`: messages share a batch in call order. `keyBased`: one batch a key, for Key_Shared consumers. */
  readonly type?: 'default' | 'keyBased';
  /** Default 1,000. */
  readonly maxMessages?: number;
  /** Bytes before compression. Default 131,072. */
  readonly maxBytes?: number;
  /**
   * Milliseconds that a batch waits for more while others are under way; none is waited for by the first, and by one of an
   * eighth of `maxMessages` or `maxBytes` behind fewer than four. Default 1.
   */
  readonly maxDelay?: number;
}

export type AccessMode = 'shared' | 'exclusive' | 'waitForExclusive' | 'exclusiveWithFencing';

/** `T` is the type of `value` in messages, as the schema says. */
export interface ProducerOptions<T = unknown> {
  /** Full name, or a short one of `persistent://public/default/`. */
  readonly topic: string;
  /** Must be unique on the topic; with deduplication it must be the same after a restart. Default: given by the broker. */
  readonly name?: string;
  /** Milliseconds from the call until a send without a receipt fails. 0 (default) = never: the caller is held instead. */
  readonly sendTimeout?: number;
  /** Messages of one partition without an outcome; more wait in order. Default 1,000. */
  readonly maxPendingMessages?: number;
  /** What a send over `maxPendingMessages` or the memory limit does. Default `wait`; `reject` fails it with ERR_QUEUE_FULL. */
  readonly whenFull?: 'wait' | 'reject';
  /** `false` = each message is an entry of its own. */
  readonly batching?: boolean | BatchingOptions;
  /**
   * Of each batch, or message outside one. `zlib` needs no package, nor does `zstd` from Node 22.15 on; the others are
   * loaded when the producer is made, which fails with ERR_DEPENDENCY and what to install if there is none: `lz4-napi` or
   * `lz4-wasm-nodejs` for `lz4`, `snappy` or `snappyjs` for `snappy`, `@bokuweb/zstd-wasm` for `zstd`. Default `none`.
   */
  readonly compression?: CompressionName;
  /** End-to-end encryption of the payloads: the broker sees neither them nor a key that opens them. Default: none. */
  readonly encryption?: EncryptionOptions;
  /**
   * Encodes the `value` of messages, and is registered at the broker when the producer is made: `stringSchema()`,
   * `jsonSchema()`, `avroSchema()`, `protobufSchema()`. One that the topic does not accept ends the producer with
   * ERR_SCHEMA. Default: bytes.
   */
  readonly schema?: Schema<T>;
  /** Splits messages larger than `maxChunkBytes` into entries of their own; smaller ones are batched. Default false. */
  readonly chunking?: boolean;
  /** Bytes of one chunk with its metadata; at most the broker's limit, which is the default. */
  readonly maxChunkBytes?: number;
  /** The id before the first one, for topics with deduplication; the broker's is taken over if it is larger. Default -1. */
  readonly initialSequenceId?: number;
  /** Default `shared`. */
  readonly accessMode?: AccessMode;
  /** Messages without a key: `roundRobin` (default, per batch), `single`, or a function for all messages. */
  readonly routing?: 'roundRobin' | 'single' | MessageRouter;
  /** Hash of the key: `javaString` (default, as Java; Go's is the same for ASCII keys) or `murmur3` (the same in both). */
  readonly hashing?: 'javaString' | 'murmur3';
  /** Milliseconds between looks for new partitions. 0 = never. Default 60,000. */
  readonly partitionsUpdateInterval?: number;
  /** Producers of partitions are opened with their first message. Default false. */
  readonly lazyPartitions?: boolean;
  /** Shown in the topic's statistics at the broker. */
  readonly properties?: Readonly<Record<string, string>>;
  readonly interceptors?: readonly ProducerInterceptor[];
  /** Milliseconds `close()` waits for what is pending. Default 10,000. */
  readonly closeTimeout?: number;
}

export type CompressionName = 'none' | 'lz4' | 'zlib' | 'zstd' | 'snappy';
