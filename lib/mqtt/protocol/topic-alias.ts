import { RemoteProtocolError } from '../../errors.js';
import { PROTOCOL_ERROR, TOPIC_ALIAS_INVALID } from '../codec/malformed.js';
import { type PublishPacket } from '../codec/packets.js';

/** The aliases that the server has given on this connection. */
export class InboundAliases {
  private readonly topics: (string | undefined)[] = [];

  /** @param maximum the Topic Alias Maximum of our CONNECT */
  constructor(private readonly maximum: number) {}

  /**
   * The packet's topic.
   *
   * @throws RemoteProtocolError 0x94 for an alias out of range [MQTT-3.3.2-9], 0x82 for an unknown one without a topic
   */
  resolve(packet: PublishPacket): string {
    const alias = packet.properties?.topicAlias;
    if (alias === undefined) return packet.topic;
    if (alias === 0 || alias > this.maximum) {
      throw new RemoteProtocolError(
        `The server used topic alias ${alias}, allowed are 1 to ${this.maximum}`,
        TOPIC_ALIAS_INVALID,
      );
    }
    if (packet.topic !== '') {
      this.topics[alias] = packet.topic;
      return packet.topic;
    }
    const topic = this.topics[alias];
    if (topic === undefined) {
      throw new RemoteProtocolError(`The server used topic alias ${alias} before it gave a topic`, PROTOCOL_ERROR);
    }
    return topic;
  }
}

/** Gives our topics aliases on one connection, the least recently used one is taken away [MQTT-3.3.2-7]. */
export class OutboundAliases {
  /** In the order of their last use. */
  private readonly aliases = new Map<string, number>();

  /** @param maximum the Topic Alias Maximum of CONNACK; 0 = none */
  constructor(private readonly maximum: number) {}

  /**
   * The alias that a publish to `topic` would use, and whether the server knows it already; undefined where none is to be
   * used. Nothing changes before `written()`: the server learns an alias from a packet that leaves, and from no other.
   */
  propose(topic: string): TopicAlias | undefined {
    if (this.maximum === 0) return undefined;
    const own = this.aliases.get(topic);
    if (own !== undefined) return { alias: own, known: true };
    if (this.aliases.size < this.maximum) return { alias: this.aliases.size + 1, known: false };
    const [leastRecent] = this.aliases.values();
    return { alias: leastRecent, known: false };
  }

  /** The publish leaves with what `propose()` gave for its topic right before. */
  written(topic: string, { alias, known }: TopicAlias): void {
    if (known) this.aliases.delete(topic);
    else if (this.aliases.size === this.maximum) {
      const [leastRecent] = this.aliases.keys();
      this.aliases.delete(leastRecent);
    }
    this.aliases.set(topic, alias);
  }
}

interface TopicAlias {
  readonly alias: number;
  readonly known: boolean;
}
