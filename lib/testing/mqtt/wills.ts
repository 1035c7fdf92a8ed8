import { type IConnectPacket } from 'mqtt-packet';
import { type BrokerMessage } from './session.js';

type Will = NonNullable<IConnectPacket['will']>;

/** Wills of lost connections: published at once, or after Will Delay Interval unless the client is back [MQTT-3.1.3-9]. */
export class Wills {
  private readonly pending = new Map<string, { readonly timer: NodeJS.Timeout; publish(): void }>();

  constructor(private readonly send: (message: BrokerMessage) => void) {}

  /** @param sessionExpiry seconds that the session still lives: the will is published at its end at the latest */
  connectionLost(clientId: string, will: Will, sessionExpiry: number): void {
    const publish = (): void => {
      this.pending.delete(clientId);
      this.send(toMessage(clientId, will));
    };
    const delay = Math.min(will.properties?.willDelayInterval ?? 0, sessionExpiry);
    if (delay === 0) return publish();
    const timer = setTimeout(publish, Math.min(delay * 1000, 2 ** 31 - 1)).unref();
    this.pending.set(clientId, { timer, publish });
  }

  /** The client is back in time. */
  cancel(clientId: string): void {
    clearTimeout(this.pending.get(clientId)?.timer);
    this.pending.delete(clientId);
  }

  sessionEnded(clientId: string): void {
    const will = this.pending.get(clientId);
    if (will === undefined) return;
    clearTimeout(will.timer);
    will.publish();
  }

  clear(): void {
    for (const { timer } of this.pending.values()) clearTimeout(timer);
    this.pending.clear();
  }
}

function toMessage(clientId: string, will: Will): BrokerMessage {
  const { willDelayInterval: _delay, messageExpiryInterval, ...properties } = will.properties ?? {};
  return {
    topic: will.topic,
    payload: Buffer.from(will.payload as Buffer),
    qos: will.qos ?? 0,
    retain: will.retain ?? false,
    properties: will.properties === undefined ? undefined : properties,
    expiresAt: messageExpiryInterval === undefined ? undefined : performance.now() + messageExpiryInterval * 1000,
    publisher: clientId,
  };
}
