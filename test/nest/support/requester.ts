import { type InMemoryMqttBroker, type MqttPackets } from '../../../lib/testing/index.js';

/** A reply as a requester sees it, whatever the protocol version. */
export interface Reply {
  readonly kind: 'next' | 'last' | 'end' | 'error';
  /** The value, or the error. */
  readonly value: unknown;
  readonly topic: string;
  readonly payload: string;
}

/** A requester that is not ours: MQTT 5 with a Response Topic, or 3.1.1 in the envelope of Nest's built-in transport. */
export class Requester {
  /** Of the request, where there is one. */
  readonly id = 'request-7';

  constructor(
    private readonly broker: InMemoryMqttBroker,
    readonly version: 4 | 5,
  ) {}

  /** @param data JSON text */
  ask(topic: string, data = '1', qos: 0 | 1 | 2 = 1): void {
    if (this.version === 5) {
      const properties = { responseTopic: `replies/${topic}`, correlationData: Buffer.from(this.id) };
      this.broker.publish(topic, data, { qos, properties });
    } else this.broker.publish(topic, `{"pattern":"${topic}","data":${data},"id":"${this.id}"}`, { qos });
  }

  /** What has come so far for requests on this topic, in order. */
  replies(topic: string, since = 0): Reply[] {
    const wanted = this.version === 5 ? `replies/${topic}` : `${topic}/reply`;
    const packets = this.broker.log.received('publish', { since }).filter((packet) => packet.topic === wanted);
    return packets.map((packet) => (this.version === 5 ? this.responseOf(packet) : this.envelopeOf(packet)));
  }

  private responseOf({ topic, payload, properties }: MqttPackets['publish']): Reply {
    if (properties?.correlationData?.toString() !== this.id) throw new Error('a reply without the Correlation Data');
    const kind = (properties.userProperties as Record<string, string>)['nest-reply'] as Reply['kind'];
    const text = payload.toString();
    return { kind, value: valueOf(text), topic, payload: text };
  }

  private envelopeOf({ topic, payload }: MqttPackets['publish']): Reply {
    const text = payload.toString();
    const packet = JSON.parse(text) as Record<string, unknown>;
    if (packet['id'] !== this.id) throw new Error('a reply without the id');
    if ('err' in packet) return { kind: 'error', value: packet['err'], topic, payload: text };
    const kind = packet['isDisposed'] !== true ? 'next' : 'response' in packet ? 'last' : 'end';
    return { kind, value: packet['response'], topic, payload: text };
  }
}

/** Text is sent as it is, everything else as JSON. */
function valueOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text === '' ? undefined : text;
  }
}

/** What the broker answers to our own publishes is kept back until the returned function is called. */
export function holdPubacks(broker: InMemoryMqttBroker): () => void {
  const kept: (() => void)[] = [];
  const stop = broker.onSend((packet, connection) => {
    if (packet.cmd !== 'puback') return undefined;
    kept.push(() => connection.send(packet));
    return 'withhold';
  });
  return () => {
    stop();
    for (const send of kept.splice(0)) send();
  };
}
