import { type MqttMessageContext } from './mqtt-message.context.js';
import { messageProperties } from './message-properties.js';

/** What can be said about one message besides its data. Times are milliseconds since the Unix epoch, or a `Date`. */
export interface PulsarRecordOptions {
  /** Partition and compaction key. */
  readonly key?: string;
  /** The key as bytes; wins over `key`. */
  readonly keyBytes?: Uint8Array;
  /** Key for Key_Shared subscriptions where it differs from `key`. */
  readonly orderingKey?: string | Uint8Array;
  readonly properties?: Readonly<Record<string, string>>;
  readonly eventTime?: number | Date;
  /** For deduplication by the caller: ascending per producer. */
  readonly sequenceId?: number;
  /** Not delivered before that time (Shared and Key_Shared subscriptions). */
  readonly deliverAt?: number | Date;
  /** Not delivered before that many milliseconds have passed. */
  readonly deliverAfter?: number;
  /** Names of the clusters it is replicated to. */
  readonly replicationClusters?: readonly string[];
  /** Sent alone, not in a batch. */
  readonly disableBatching?: boolean;
  /** False: the delivery whose handler emits it is acknowledged without waiting for it. Default true. */
  readonly holdsAcknowledgement?: boolean;
}

const BRAND = Symbol.for('nestjs-mqtt-pulsar/pulsar-record');

/**
 * Data for `PulsarClientProxy.emit()` together with its key, properties, times and so on.
 *
 * `data` as in `emit()`: bytes and strings as they are, anything else by the serializer; where the producer has a schema,
 * bytes as they are and anything else as the schema's value. `null` and `undefined` are sent as a tombstone (a message
 * without a value, which a compacted topic takes as the removal of its key).
 */
export class PulsarRecord<T = unknown> {
  readonly [BRAND] = true;

  constructor(
    readonly data: T,
    readonly options: PulsarRecordOptions = {},
  ) {}
}

/** True for a record of this package, also of another copy of it. */
export function isPulsarRecord(value: unknown): value is PulsarRecord {
  return typeof value === 'object' && value !== null && BRAND in value;
}

/** Builds a {@link PulsarRecord}: `new PulsarRecordBuilder(data).setKey('device-7').build()`. */
export class PulsarRecordBuilder<T = unknown> {
  private readonly options: { -readonly [K in keyof PulsarRecordOptions]: PulsarRecordOptions[K] } = {};
  private data: T | undefined;
  private readonly dataGiven: boolean;

  /** Without an argument the data is what `from()` finds, or `setData()` gives. */
  constructor(...data: [data?: T]) {
    this.dataGiven = data.length > 0;
    this.data = data[0];
  }

  setData(data: T): this {
    this.data = data;
    return this;
  }

  /** A string, or bytes (which go out as the message's binary key). */
  setKey(key: string | Uint8Array): this {
    if (typeof key === 'string') {
      this.options.key = key;
      delete this.options.keyBytes;
    } else {
      this.options.keyBytes = key;
      delete this.options.key;
    }
    return this;
  }

  setOrderingKey(orderingKey: string | Uint8Array): this {
    this.options.orderingKey = orderingKey;
    return this;
  }

  /** Adds to the properties there are; the same name is overwritten. */
  setProperties(properties: Readonly<Record<string, string>>): this {
    this.options.properties = { ...this.options.properties, ...properties };
    return this;
  }

  setProperty(name: string, value: string): this {
    return this.setProperties({ [name]: value });
  }

  setEventTime(eventTime: number | Date): this {
    this.options.eventTime = eventTime;
    return this;
  }

  setSequenceId(sequenceId: number): this {
    this.options.sequenceId = sequenceId;
    return this;
  }

  setDeliverAt(deliverAt: number | Date): this {
    this.options.deliverAt = deliverAt;
    return this;
  }

  setDeliverAfter(milliseconds: number): this {
    this.options.deliverAfter = milliseconds;
    return this;
  }

  setReplicationClusters(clusters: readonly string[]): this {
    this.options.replicationClusters = [...clusters];
    return this;
  }

  setDisableBatching(disableBatching = true): this {
    this.options.disableBatching = disableBatching;
    return this;
  }

  /** False: the acknowledgement of the delivery does not wait for this emit, and its failure does not fail the delivery. */
  setHoldsAcknowledgement(holdsAcknowledgement: boolean): this {
    this.options.holdsAcknowledgement = holdsAcknowledgement;
    return this;
  }

  /**
   * Takes over what an MQTT message brought: its topic as key, the time it was received as event time, its user properties
   * and, under names that begin with `mqtt.`, topic, QoS, retain flag, content type, expiry and so on
   * ({@link messageProperties}). The data is the payload, unless the builder was given other data.
   */
  from(context: Pick<MqttMessageContext, 'getMessage' | 'getReceivedAt'>): this {
    const message = context.getMessage();
    const receivedAt = Math.round(context.getReceivedAt());
    if (!this.dataGiven && this.data === undefined) this.data = message.payload as T;
    this.setKey(message.topic).setEventTime(receivedAt);
    return this.setProperties(messageProperties(message, receivedAt));
  }

  build(): PulsarRecord<T> {
    return new PulsarRecord(this.data as T, { ...this.options });
  }
}
