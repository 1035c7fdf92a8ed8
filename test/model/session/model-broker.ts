/** An MQTT broker as the specification describes it, for one client; bytes by mqtt-packet, which is not our codec. */
import mqtt, { type Packet } from 'mqtt-packet';
import { type SeededRandom } from './random.js';

/** A message for the client. `uid` is known to the model only: two messages may look the same. */
export interface ModelMessage {
  readonly uid: number;
  readonly topic: string;
  readonly payload: string;
  readonly qos: 1 | 2 | 0;
}

export interface BrokerTraits {
  readonly version: 4 | 5;
  /** Sends DUP on redelivery; aedes does not. */
  readonly setsDup: boolean;
  /** Redelivers in any order (mochi). */
  readonly shufflesRedelivery: boolean;
  /** Sends over the Receive Maximum of the client. */
  readonly overruns: boolean;
  /** Sends again on the same connection (AWS IoT, NATS). */
  readonly resends: boolean;
  /** Receive Maximum for the client's publishes (5). */
  readonly receiveMaximum: number;
  readonly topicAliasMaximum: number;
}

interface Inflight {
  readonly message: ModelMessage;
  readonly packetId: number;
  /** QoS 2: PUBREC came, PUBREL is out. */
  released: boolean;
  sentHere: boolean;
}

/** A packet on its way to the client, with what the model knows of it. */
export interface Outgoing {
  readonly bytes: Buffer;
  readonly cmd: string;
  readonly packetId: number;
  readonly message: ModelMessage | undefined;
}

export class ModelBroker {
  // the session
  hasSession = false;
  readonly queue: ModelMessage[] = [];
  readonly inflight = new Map<number, Inflight>();
  /** QoS 2 of the client between PUBLISH and PUBREL. */
  readonly incoming = new Set<number>();
  /** Payloads the client has handed over, in order of arrival, repetitions included. */
  readonly stored: string[] = [];
  /** Messages dropped with a session. */
  readonly lost: ModelMessage[] = [];

  // the connection
  connected = false;
  disconnectReceived = false;
  clientReceiveMaximum = 65_535;
  private aliases = new Map<number, string>();
  readonly out: Outgoing[] = [];

  constructor(
    readonly traits: BrokerTraits,
    private readonly random: SeededRandom,
  ) {}

  private send(packet: Packet, message?: ModelMessage): void {
    const bytes = mqtt.generate(packet, { protocolVersion: this.traits.version });
    const packetId = (packet as { messageId?: number }).messageId ?? 0;
    this.out.push({ bytes, cmd: packet.cmd, packetId, message });
  }

  /** Accepts the CONNECT. @param keep the session is still there */
  accept(receiveMaximum: number, keep: boolean): void {
    const sessionPresent = keep && this.hasSession;
    if (!sessionPresent) {
      for (const { message } of this.inflight.values()) this.lost.push(message);
      this.lost.push(...this.queue);
      this.queue.length = 0;
      this.inflight.clear();
      this.incoming.clear();
    }
    this.hasSession = true;
    this.connected = true;
    this.disconnectReceived = false;
    this.clientReceiveMaximum = receiveMaximum;
    this.aliases = new Map();
    this.send({
      cmd: 'connack',
      sessionPresent,
      ...(this.traits.version === 5
        ? {
            reasonCode: 0,
            properties: {
              receiveMaximum: this.traits.receiveMaximum,
              ...(this.traits.topicAliasMaximum > 0 && { topicAliasMaximum: this.traits.topicAliasMaximum }),
            },
          }
        : { returnCode: 0 }),
    });
    const again = [...this.inflight.values()];
    for (const entry of this.traits.shufflesRedelivery ? this.random.shuffle(again) : again) {
      if (entry.released) this.send({ cmd: 'pubrel', messageId: entry.packetId });
      else this.publish(entry, this.traits.setsDup);
    }
    this.pump();
  }

  refuse(): void {
    this.send({
      cmd: 'connack',
      sessionPresent: false,
      ...(this.traits.version === 5 ? { reasonCode: 0x88 } : { returnCode: 3 }),
    });
  }

  disconnect(): void {
    if (this.traits.version === 5) this.send({ cmd: 'disconnect', reasonCode: 0x8b });
  }

  private publish(entry: Inflight, dup: boolean): void {
    entry.sentHere = true;
    const { topic, payload, qos } = entry.message;
    this.send({ cmd: 'publish', topic, payload, qos, dup, retain: false, messageId: entry.packetId }, entry.message);
  }

  /** New messages, as far as the window allows. */
  pump(): void {
    while (this.connected && this.queue.length > 0) {
      const message = this.queue[0];
      if (message.qos === 0) {
        this.queue.shift();
        this.send(
          { cmd: 'publish', topic: message.topic, payload: message.payload, qos: 0, dup: false, retain: false },
          message,
        );
        continue;
      }
      const windowed = this.traits.version === 5 && !this.traits.overruns;
      if (windowed && this.inflight.size >= this.clientReceiveMaximum) return;
      if (this.inflight.size >= 12) return;
      this.queue.shift();
      // The lowest free identifier: they are reused as soon as that is allowed.
      let packetId = 1;
      while (this.inflight.has(packetId)) packetId += 1;
      const entry: Inflight = { message, packetId, released: false, sentHere: false };
      this.inflight.set(packetId, entry);
      this.publish(entry, false);
    }
  }

  /** The same message again on the same connection. */
  resendOne(): void {
    const entries = [...this.inflight.values()].filter((entry) => !entry.released && entry.sentHere);
    if (entries.length > 0) this.publish(this.random.pick(entries), this.random.chance(0.5));
  }

  /** An acknowledgement of something that never was. */
  sendStray(): void {
    const messageId = 60_000 + this.random.below(5);
    this.send({ cmd: this.random.pick(['puback', 'pubrec', 'pubrel', 'pubcomp'] as const), messageId });
  }

  /** One packet of the client. */
  receive(packet: Packet): void {
    switch (packet.cmd) {
      case 'publish': {
        const topic = this.resolve(packet.topic, packet.properties?.topicAlias);
        const text = `${topic} ${packet.payload.toString()}`;
        const messageId = packet.messageId ?? 0;
        if (packet.qos === 2 && this.incoming.has(messageId)) this.send({ cmd: 'pubrec', messageId });
        else {
          this.stored.push(text);
          if (packet.qos === 1) this.send({ cmd: 'puback', messageId });
          if (packet.qos === 2) {
            this.incoming.add(messageId);
            this.send({ cmd: 'pubrec', messageId });
          }
        }
        return;
      }
      case 'puback':
        this.inflight.delete(packet.messageId ?? 0);
        this.pump();
        return;
      case 'pubrec': {
        const entry = this.inflight.get(packet.messageId ?? 0);
        if (entry !== undefined && (packet.reasonCode ?? 0) >= 0x80) this.inflight.delete(entry.packetId);
        else if (entry !== undefined) {
          entry.released = true;
          this.send({ cmd: 'pubrel', messageId: entry.packetId });
        }
        this.pump();
        return;
      }
      case 'pubrel':
        this.incoming.delete(packet.messageId ?? 0);
        this.send({ cmd: 'pubcomp', messageId: packet.messageId });
        return;
      case 'pubcomp':
        this.inflight.delete(packet.messageId ?? 0);
        this.pump();
        return;
      case 'subscribe':
        this.send({
          cmd: 'suback',
          messageId: packet.messageId,
          granted: packet.subscriptions.map(({ qos }) => (this.random.chance(0.1) ? 0x80 : qos)),
        });
        return;
      case 'unsubscribe':
        this.send({ cmd: 'unsuback', messageId: packet.messageId, granted: packet.unsubscriptions.map(() => 0) });
        return;
      case 'pingreq':
        this.send({ cmd: 'pingresp' });
        return;
      case 'disconnect':
        this.disconnectReceived = true;
        return;
      default:
        throw new Error(`unexpected ${packet.cmd} from the client`);
    }
  }

  private resolve(topic: string, alias: number | undefined): string {
    if (alias === undefined) return topic;
    if (alias < 1 || alias > this.traits.topicAliasMaximum) throw new Error(`topic alias ${alias} out of range`);
    if (topic !== '') {
      this.aliases.set(alias, topic);
      return topic;
    }
    const known = this.aliases.get(alias);
    if (known === undefined) throw new Error(`topic alias ${alias} without a topic`);
    return known;
  }

  /** The connection is gone with everything on its way. */
  cut(): void {
    this.connected = false;
    this.out.length = 0;
    for (const entry of this.inflight.values()) entry.sentHere = false;
  }
}
