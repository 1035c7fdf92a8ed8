/** The link between a client and the model's broker: packets move when the schedule says so. */
import mqtt, { type Packet } from 'mqtt-packet';
import { type Transport, type TransportHandlers } from '../../lib/net/index.js';
import { ModelBroker } from './session/model-broker.js';

/** Grants everything: refused filters are the business of the session's model. */
export class GrantingBroker extends ModelBroker {
  override receive(packet: Packet): void {
    if (packet.cmd !== 'subscribe') return super.receive(packet);
    const granted = packet.subscriptions.map(({ qos }) => qos);
    const bytes = mqtt.generate(
      { cmd: 'suback', messageId: packet.messageId, granted },
      { protocolVersion: this.traits.version },
    );
    this.out.push({ bytes, cmd: 'suback', packetId: packet.messageId ?? 0, message: undefined });
  }
}

/** What a model sees of the link. */
export interface WireWatch {
  /** A packet of the client, before the broker gets it. */
  fromClient(packet: Packet): void;
  /** A packet of the broker, before the client gets it. */
  toClient?(packet: ModelBroker['out'][number]): void;
  /** A packet of the client that never arrives. */
  lost?(packet: Packet): void;
  dialled?(): void;
}

export class ModelWire {
  private handlers: TransportHandlers | undefined = undefined;
  private parser: ReturnType<typeof mqtt.parser> | undefined = undefined;
  private readonly toBroker: Packet[] = [];
  private paused = false;
  private keepSession = true;

  constructor(
    private readonly broker: ModelBroker,
    private readonly watch: WireWatch,
  ) {}

  get connected(): boolean {
    return this.handlers !== undefined;
  }

  /** Moves up to `count` packets each way. */
  exchange(count: number): void {
    for (let moved = 0; moved < count; moved++) {
      const packet = this.toBroker.shift();
      if (packet !== undefined) this.fromClient(packet);
      if (this.paused || this.handlers === undefined) continue;
      const out = this.broker.out.shift();
      if (out === undefined) continue;
      this.watch.toClient?.(out);
      this.handlers.onData(out.bytes);
    }
  }

  /** The next CONNECT finds no session. */
  loseSession(): void {
    this.keepSession = false;
  }

  cut(): void {
    const { handlers } = this;
    if (handlers === undefined) return;
    this.unplug();
    handlers.onClose();
  }

  dial(handlers: TransportHandlers): Transport {
    this.watch.dialled?.();
    this.parser = mqtt.parser({ protocolVersion: this.broker.traits.version });
    this.parser.on('packet', (packet) => this.toBroker.push(packet));
    let over = false;
    const close = (): void => {
      if (over) return;
      over = true;
      process.nextTick(() => {
        if (this.handlers === handlers) this.unplug();
        handlers.onClose();
      });
    };
    process.nextTick(() => {
      this.handlers = handlers;
      this.paused = false;
      handlers.onOpen();
    });
    return {
      description: 'model',
      bufferedBytes: 0,
      write: (chunk) => {
        if (!over) this.parser?.parse(Buffer.from(chunk));
        return true;
      },
      pause: () => (this.paused = true),
      resume: () => (this.paused = false),
      end: () => {
        // What was written before arrives.
        for (const packet of this.toBroker.splice(0)) this.fromClient(packet);
        close();
      },
      destroy: close,
    };
  }

  private fromClient(packet: Packet): void {
    if (packet.cmd === 'connect') {
      this.broker.accept(packet.properties?.receiveMaximum ?? 65_535, this.keepSession);
      this.keepSession = true;
      return;
    }
    if (!this.broker.connected) return;
    this.watch.fromClient(packet);
    this.broker.receive(packet);
  }

  private unplug(): void {
    this.handlers = undefined;
    for (const packet of this.toBroker.splice(0)) this.watch.lost?.(packet);
    this.broker.cut();
  }
}
