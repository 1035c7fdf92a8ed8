import { type Packet, parser, type Parser } from 'mqtt-packet';
import { TcpProxy } from '../wire/index.js';

export interface SeenPacket {
  readonly connection: number;
  readonly from: 'client' | 'server';
  readonly packet: Packet;
}

/** A proxy before a broker that keeps every packet, decoded with mqtt-packet, and can cut and stall the link. */
export class WireLog {
  readonly packets: SeenPacket[] = [];
  /** Sees every packet before the other side has it. */
  onPacket: ((seen: SeenPacket) => void) | undefined = undefined;
  /** Bytes that mqtt-packet could not read. */
  malformed = 0;

  private constructor() {}

  // set once by start()
  proxy!: TcpProxy;

  static async start(targetPort: number): Promise<WireLog> {
    const log = new WireLog();
    log.proxy = await TcpProxy.start({ targetPort, tap: (connection) => log.tap(connection) });
    return log;
  }

  get url(): string {
    return `mqtt://127.0.0.1:${this.proxy.port}`;
  }

  of<C extends Packet['cmd']>(from: SeenPacket['from'], cmd: C): Extract<Packet, { cmd: C }>[] {
    return this.packets
      .filter((seen) => seen.from === from && seen.packet.cmd === cmd)
      .map(({ packet }) => packet as Extract<Packet, { cmd: C }>);
  }

  /** Most QoS 1 and 2 publishes of the client at one time without PUBACK, PUBCOMP or a refusing PUBREC, on one connection. */
  get mostPublishesUnderWay(): number {
    let most = 0;
    const open = new Map<number, Set<number>>();
    for (const { connection, from, packet } of this.packets) {
      const ids = open.get(connection) ?? new Set();
      open.set(connection, ids);
      if (from === 'client' && packet.cmd === 'publish' && packet.qos > 0) ids.add(packet.messageId ?? 0);
      else if (from === 'server' && (packet.cmd === 'puback' || packet.cmd === 'pubcomp'))
        ids.delete(packet.messageId ?? 0);
      else if (from === 'server' && packet.cmd === 'pubrec' && (packet.reasonCode ?? 0) >= 0x80) {
        ids.delete(packet.messageId ?? 0);
      }
      most = Math.max(most, ids.size);
    }
    return most;
  }

  async close(): Promise<void> {
    await this.proxy.close();
  }

  private tap(connection: number): {
    fromClient(chunk: Buffer): void;
    fromServer(chunk: Buffer): void;
    closed(): void;
  } {
    let fromServer: Parser | undefined;
    const open = (from: SeenPacket['from'], version: number): Parser => {
      const decoder = parser({ protocolVersion: version });
      decoder.on('error', () => this.malformed++);
      decoder.on('packet', (packet) => {
        if (packet.cmd === 'connect') fromServer = open('server', packet.protocolVersion ?? 4);
        const seen = { connection, from, packet };
        this.packets.push(seen);
        this.onPacket?.(seen);
      });
      return decoder;
    };
    const fromClient = open('client', 4);
    return {
      fromClient: (chunk) => fromClient.parse(chunk),
      fromServer: (chunk) => fromServer?.parse(chunk),
      closed: () => undefined,
    };
  }
}
