import { MqttRecord } from '@nestjs/microservices';
import { type Properties, type Qos, type UserProperty } from '../mqtt/index.js';

/** What can be said about one MQTT message besides its data. */
export interface MqttPublishRecordOptions {
  /** Default: the proxy's `qos`. */
  readonly qos?: Qos;
  /** Default: the proxy's `retain`. */
  readonly retain?: boolean;
  /** MQTT 5; ignored where the connection is 3.1.1. Times in seconds. */
  readonly properties?: Properties;
  /** False: the delivery whose handler emits it is acknowledged without waiting for it. Default true. */
  readonly holdsAcknowledgement?: boolean;
  /** `none`: the data alone, also where the proxy has `envelope: 'nest'`. */
  readonly envelope?: 'none';
  /** For `send()`: milliseconds until the first reply and between replies; 0 = no bound. Default: the proxy's. */
  readonly requestTimeout?: number;
}

const BRAND = Symbol.for('nestjs-mqtt-pulsar/mqtt-publish-record');

/**
 * Data for `MqttClientProxy.emit()` and `send()` together with QoS, retain flag and MQTT 5 properties. `data` as there;
 * `null` and `undefined` are an empty payload (which removes a retained message).
 */
export class MqttPublishRecord<T = unknown> {
  readonly [BRAND] = true;

  constructor(
    readonly data: T,
    readonly options: MqttPublishRecordOptions = {},
  ) {}
}

/** Builds a {@link MqttPublishRecord}: `new MqttPublishRecordBuilder(data).setQos(2).setRetain().build()`. */
export class MqttPublishRecordBuilder<T = unknown> {
  private options: { -readonly [K in keyof MqttPublishRecordOptions]: MqttPublishRecordOptions[K] } = {};

  constructor(private data?: T) {}

  setData(data: T): this {
    this.data = data;
    return this;
  }

  setQos(qos: Qos): this {
    this.options.qos = qos;
    return this;
  }

  setRetain(retain = true): this {
    this.options.retain = retain;
    return this;
  }

  /** Adds to the properties there are. */
  setProperties(properties: Properties): this {
    this.options.properties = { ...this.options.properties, ...properties };
    return this;
  }

  /** Adds one; names may repeat, the order is kept. */
  addUserProperty(name: string, value: string): this {
    const userProperties: UserProperty[] = [...(this.options.properties?.userProperties ?? []), [name, value]];
    return this.setProperties({ userProperties });
  }

  setContentType(contentType: string): this {
    return this.setProperties({ contentType });
  }

  /** Seconds. */
  setMessageExpiryInterval(seconds: number): this {
    return this.setProperties({ messageExpiryInterval: seconds });
  }

  /** False: the acknowledgement of the delivery does not wait for this emit, and its failure does not fail the delivery. */
  setHoldsAcknowledgement(holdsAcknowledgement: boolean): this {
    this.options.holdsAcknowledgement = holdsAcknowledgement;
    return this;
  }

  /** For `send()`, in milliseconds. */
  setRequestTimeout(milliseconds: number): this {
    this.options.requestTimeout = milliseconds;
    return this;
  }

  build(): MqttPublishRecord<T> {
    return new MqttPublishRecord(this.data as T, { ...this.options });
  }
}

/** Our record, also of another copy of this package, or Nest's own `MqttRecord`; `undefined` for plain data. */
export function asPublishRecord(
  value: unknown,
): { readonly data: unknown; readonly options: MqttPublishRecordOptions } | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (BRAND in value) return value as MqttPublishRecord;
  if (value instanceof MqttRecord) return { data: value.data, options: builtInOptions(value as MqttRecord<unknown>) };
  return undefined;
}

/** Nest's record has the property names of the `mqtt` package. Its `dup` is the session's business, not the caller's. */
function builtInOptions({ options = {} }: MqttRecord<unknown>): MqttPublishRecordOptions {
  const { qos, retain, properties: given } = options;
  return {
    ...(qos !== undefined && { qos }),
    ...(retain !== undefined && { retain }),
    ...(given !== undefined && { properties: builtInProperties(given) }),
  };
}

type BuiltInProperties = NonNullable<NonNullable<MqttRecord['options']>['properties']>;

function builtInProperties(given: BuiltInProperties): Properties {
  const properties: Properties = {};
  if (given.payloadFormatIndicator !== undefined)
    properties.payloadFormatIndicator = given.payloadFormatIndicator ? 1 : 0;
  if (given.messageExpiryInterval !== undefined) properties.messageExpiryInterval = given.messageExpiryInterval;
  if (given.responseTopic !== undefined) properties.responseTopic = given.responseTopic;
  if (given.correlationData !== undefined) properties.correlationData = given.correlationData;
  if (given.contentType !== undefined) properties.contentType = given.contentType;
  if (given.userProperties !== undefined) {
    properties.userProperties = Object.entries(given.userProperties).flatMap(([name, value]) =>
      (Array.isArray(value) ? value : [value]).map((text): UserProperty => [name, text]),
    );
  }
  return properties;
}
