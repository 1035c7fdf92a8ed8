/** Watches the publishes of a session: identifiers, order, quota, and that each one is settled exactly once. */
import { type Packet } from 'mqtt-packet';
import { type OutboundPublish } from '../../../lib/mqtt/protocol/outbound-publish.js';
import { type PublishRequest } from '../../../lib/mqtt/protocol/types.js';
import { type Outgoing } from './model-broker.js';
import { check } from './observer.js';
import { type SeededRandom } from './random.js';

interface Watched {
  readonly number: number;
  readonly text: string;
  readonly qos: 0 | 1 | 2;
  publish: OutboundPublish | undefined;
  settled: 'ok' | 'failed' | undefined;
}

export class PublishWatch {
  private readonly all: Watched[] = [];
  /** Identifiers in use by the client: from its packet until the final answer reached it. */
  private live = new Map<number, string>();
  /** The stage PUBREL was reached: no PUBLISH may follow [MQTT-4.3.3-6]. */
  private releasing = new Set<number>();
  private lastNumber = 0;
  private unacknowledged = new Set<number>();

  /** QoS 2 between PUBLISH and PUBCOMP on this connection. */
  private openQos2 = new Set<number>();

  constructor(
    private readonly receiveMaximum: number,
    private readonly qos2Maximum: number,
  ) {}

  submit(qos: 0 | 1 | 2, publish: (request: PublishRequest, token: unknown) => OutboundPublish): void {
    const number = this.all.length + 1;
    const watched: Watched = { number, text: `p ${number}`, qos, publish: undefined, settled: undefined };
    this.all.push(watched);
    try {
      watched.publish = publish({ topic: 'p', payload: String(number), qos }, watched);
    } catch {
      // A full queue, or QoS 0 offline: it was never taken over.
      watched.settled = 'failed';
    }
  }

  settled(publish: OutboundPublish): void {
    const watched = publish.token as Watched;
    check(watched.settled === undefined, `publish ${watched.number} was settled twice`);
    check((publish.error === undefined) !== (publish.result === undefined), 'a settled publish has error or result');
    watched.settled = publish.error === undefined ? 'ok' : 'failed';
  }

  cancelOne(random: SeededRandom, cancel: (publish: OutboundPublish) => boolean): void {
    if (this.all.length === 0) return;
    const { publish, settled } = random.pick(this.all);
    if (publish === undefined) return;
    const could = settled === undefined && !publish.written && publish.stage === 'queued';
    check(cancel(publish) === could, 'cancel() told the wrong thing');
  }

  /** A packet of the client on the wire. */
  written(packet: Packet): void {
    const id = packet.messageId ?? 0;
    switch (packet.cmd) {
      case 'publish': {
        if (packet.qos === 0) return;
        const number = Number(packet.payload.toString());
        const what = `publish ${number}`;
        const user = this.live.get(id);
        check(user === undefined || user === what, `M7: identifier ${id} of ${user} was reused for ${what}`);
        check(packet.dup === (user === what), `${what}: DUP is ${packet.dup}`);
        check(!this.releasing.has(id), `${what} was sent after its PUBREL [MQTT-4.3.3-6]`);
        check(number > this.lastNumber, `${what} after publish ${this.lastNumber} on one connection [MQTT-4.6.0-1]`);
        this.lastNumber = number;
        this.live.set(id, what);
        this.unacknowledged.add(id);
        if (packet.qos === 2) this.openQos2.add(id);
        check(this.openQos2.size <= this.qos2Maximum, 'too many QoS 2 publishes are open for 3.1.1');
        check(this.unacknowledged.size <= this.receiveMaximum, "the server's Receive Maximum was exceeded");
        return;
      }
      case 'pubrel':
        if (this.live.has(id)) {
          this.releasing.add(id);
          this.openQos2.add(id);
        }
        return;
      case 'subscribe':
      case 'unsubscribe':
        check(!this.live.has(id), `M7: identifier ${id} of ${this.live.get(id)} was reused for ${packet.cmd}`);
        this.live.set(id, packet.cmd);
        return;
      default:
    }
  }

  /** A packet of the server is about to reach the client. */
  answering({ cmd, packetId, bytes }: Outgoing): void {
    const refused = cmd === 'pubrec' && bytes.length > 4 && bytes[4] >= 0x80;
    if (cmd === 'puback' || cmd === 'pubcomp' || cmd === 'suback' || cmd === 'unsuback' || refused) {
      if (this.expects(cmd, packetId)) {
        this.live.delete(packetId);
        this.releasing.delete(packetId);
        this.unacknowledged.delete(packetId);
        this.openQos2.delete(packetId);
      }
    }
  }

  private expects(cmd: string, id: number): boolean {
    const user = this.live.get(id) ?? '';
    if (cmd === 'suback') return user === 'subscribe';
    if (cmd === 'unsuback') return user === 'unsubscribe';
    return user.startsWith('publish');
  }

  connected(sessionPresent: boolean): void {
    if (sessionPresent) return;
    this.live = new Map([...this.live].filter(([, user]) => !user.startsWith('publish')));
    this.releasing = new Set();
  }

  connectionLost(): void {
    this.lastNumber = 0;
    this.unacknowledged = new Set();
    this.openQos2 = new Set();
    for (const [id, user] of this.live) if (!user.startsWith('publish')) this.live.delete(id);
  }

  /** @param stored what the broker got, in order */
  finish(stored: readonly string[]): void {
    const got = new Set(stored);
    for (const { number, text, qos, settled } of this.all) {
      check(settled !== undefined, `publish ${number} was never settled`);
      check(
        settled !== 'ok' || qos === 0 || got.has(text),
        `publish ${number} succeeded, but the broker does not have it`,
      );
    }
  }
}
