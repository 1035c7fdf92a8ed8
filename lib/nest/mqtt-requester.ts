import { randomBytes } from 'node:crypto';
import { TransportError } from '../errors.js';
import {
  assertGranted,
  type MqttClient,
  type MqttMessage,
  type Properties,
  type PublishRequest,
} from '../mqtt/index.js';
import { type Clock } from '../net/clock.js';
import { type ReplyDeserializer } from './reply-deserializer.js';
import { REPLY_PROPERTY, type ReplyKind } from './reply-protocol.js';
import { type PendingRequest, type ReplyCallback, RequestTable } from './request-table.js';

/** What the requesters use of the client. */
export type RequestClient = Pick<
  MqttClient,
  'submit' | 'subscribe' | 'unsubscribe' | 'protocolVersion' | 'connection' | 'clientId'
>;

/** How requests find their replies. */
export interface MqttRequester {
  readonly table: RequestTable;
  /** @returns what ends the interest in replies */
  request(message: OutgoingRequest, callback: ReplyCallback): () => void;
  /** A message on the connection. */
  receive(message: MqttMessage): void;
}

export interface OutgoingRequest {
  readonly route: string;
  readonly timeoutMs: number;
  /** The message to publish; `id` is for envelopes that carry one. */
  readonly publish: (id: string) => PublishRequest;
}

/** MQTT 5 request and response: Response Topic and Correlation Data [MQTT5 4.10]. One response topic for all requests. */
export class ResponseTopicRequester implements MqttRequester {
  readonly table: RequestTable;
  private readonly instance = randomBytes(8);
  private counter = 0;
  private subscribed: Promise<string> | undefined = undefined;

  constructor(
    private readonly client: RequestClient,
    private readonly responseTopic: string | undefined,
    private readonly deserializer: ReplyDeserializer,
    clock: Clock,
  ) {
    this.table = new RequestTable(clock);
  }

  request(message: OutgoingRequest, callback: ReplyCallback): () => void {
    const correlationData = Buffer.alloc(16);
    this.instance.copy(correlationData);
    correlationData.writeBigUInt64BE(BigInt(++this.counter), 8);
    const key = correlationData.toString('latin1');
    const request = this.table.open(key, message.route, message.timeoutMs, callback);
    this.topic()
      .then((responseTopic) => this.send(request, message, { responseTopic, correlationData }))
      .catch((error: unknown) => request.fail(error));
    return () => request.abandon();
  }

  receive(message: MqttMessage): void {
    const { correlationData, userProperties } = message.properties ?? {};
    const request = this.table.find(correlationData?.toString('latin1'));
    if (request === undefined) return;
    const kind = userProperties?.find(([name]) => name === REPLY_PROPERTY)?.[1] as ReplyKind | undefined;
    const value = (): unknown => this.deserializer.deserialize(message.payload, { message });
    if (kind === 'error') request.replyError(parseJsonOrText(message.payload));
    else if (kind === 'end') request.reply(undefined, true);
    // A responder that does not know the property gives one reply.
    else request.reply(value, kind !== 'next');
  }

  private send(request: PendingRequest, message: OutgoingRequest, own: Properties): void {
    if (!request.open) return;
    const publish = message.publish(request.key);
    // The responder need not begin what nobody will wait for any more.
    const expiry = message.timeoutMs > 0 ? { messageExpiryInterval: Math.ceil(message.timeoutMs / 1000) } : undefined;
    publishRequest(this.client, request, { ...publish, properties: { ...expiry, ...publish.properties, ...own } });
  }

  /** Subscribes once; a failed try is forgotten, so that the next request tries again. */
  private topic(): Promise<string> {
    if (this.client.protocolVersion === 4) {
      return Promise.reject(
        new TransportError(
          'ERR_NOT_SUPPORTED',
          "send() needs MQTT 5 (this connection is 3.1.1), or the option envelope: 'nest'",
        ),
      );
    }
    this.subscribed ??= this.subscribe().catch((error: unknown) => {
      this.subscribed = undefined;
      throw error;
    });
    return this.subscribed;
  }

  private async subscribe(): Promise<string> {
    const { connection, clientId } = this.client;
    const prefix = connection?.responseInformation?.replace(/\/+$/, '') ?? 'nestjs-mqtt-pulsar/reply';
    const topic = this.responseTopic ?? `${prefix}/${encodeURIComponent(clientId)}`;
    assertGranted(await this.client.subscribe([{ filter: topic, qos: 1 }]), { allowLower: true });
    return topic;
  }
}

/** Publishes a request; what goes wrong with that is the error of the request. */
export function publishRequest(client: RequestClient, request: PendingRequest, message: PublishRequest): void {
  request.handle = client.submit(message, (error, result) => {
    if (error !== undefined) request.fail(error);
    else if (result?.reasonCode === NO_MATCHING_SUBSCRIBERS) {
      request.fail(
        new TransportError('ERR_PUBLISH', `send('${request.route}'): nobody has subscribed to it (0x10)`, {
          retriable: true,
        }),
      );
    }
  });
}

/** PUBACK and PUBREC [MQTT5 3.4.2.1]. */
const NO_MATCHING_SUBSCRIBERS = 0x10;

export function parseJsonOrText(payload: Buffer): unknown {
  const text = payload.toString('utf8');
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
