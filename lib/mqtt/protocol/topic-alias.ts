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

  /** The alias for `topic`, and whether the server knows it already; undefined where none is to be used. */
  use(topic: string): { readonly alias: number; readonly known: boolean } | undefined {
    if (this.maximum === 0) return undefined;
    let alias = this.aliases.get(topic);
    const known = alias !== undefined;
    if (alias !== undefined) this.aliases.delete(topic);
    else if (this.aliases.size < this.maximum) alias = this.aliases.size + 1;
    else alias = this.evict();
    this.aliases.set(topic, alias);
    return { alias, known };
  }

  private evict(): number {
    const [topic, alias] = this.aliases.entries().next().value as [string, number];
    this.aliases.delete(topic);
    return alias;
  }
}
