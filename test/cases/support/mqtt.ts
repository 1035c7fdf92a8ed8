import { MqttClient, type MqttClientOptions, type MqttDelivery } from '../../../lib/mqtt/index.js';
import { InMemoryMqttBroker, type MqttBrokerConnection, type MqttBrokerOptions } from '../../../lib/testing/index.js';

/** The client of this package on an in-memory broker, with what it was handed. */
export class MqttBench {
  /** Every call of `onDelivery`, in order; a failed delivery that came again is in it twice. */
  readonly deliveries: MqttDelivery[] = [];
  readonly warnings: string[] = [];

  private constructor(
    readonly broker: InMemoryMqttBroker,
    readonly client: MqttClient,
  ) {}

  /** Connected, and subscribed to `t/#` at QoS 2 unless `filters` says otherwise. */
  static async start(
    options: Partial<MqttClientOptions> = {},
    settings: { readonly broker?: MqttBrokerOptions; readonly filters?: readonly string[] } = {},
  ): Promise<MqttBench> {
    const broker = await InMemoryMqttBroker.start(settings.broker);
    const client = new MqttClient({
      url: broker.url,
      clientId: 'device-gateway',
      reconnect: { initial: 5, max: 20 },
      ...options,
    });
    const bench = new MqttBench(broker, client);
    client.onDelivery = (delivery) => {
      bench.deliveries.push(delivery);
      broker.log.changed();
    };
    client.on('warning', ({ message }) => bench.warnings.push(message));
    await client.connect();
    const filters = settings.filters ?? ['t/#'];
    if (filters.length > 0) await client.subscribe(filters.map((filter) => ({ filter, qos: 2 })));
    return bench;
  }

  get connection(): MqttBrokerConnection {
    const { connection } = this.broker;
    if (connection === undefined) throw new Error('no connection is open');
    return connection;
  }

  /** The first delivery with this text (of the given attempt), once it is there. */
  delivery(text: string, attempt = 1): Promise<MqttDelivery> {
    return this.broker.log.waitFor(
      () => this.deliveries.find((one) => one.message.payload.toString() === text && one.attempt === attempt),
      undefined,
      `delivery '${text}', attempt ${attempt}`,
    );
  }

  /** How often a text was handed out. */
  runs(text: string): number {
    return this.deliveries.filter((one) => one.message.payload.toString() === text).length;
  }

  /** Cuts the connection and waits until the client is back. */
  async reconnected(act: () => void = () => this.broker.cut()): Promise<MqttBrokerConnection> {
    const { number } = this.connection;
    act();
    return this.broker.log.waitFor(() => {
      const { connection } = this.broker;
      return connection !== undefined && connection.number > number && connection.session !== undefined && connection;
    });
  }

  /** Identifiers of the acknowledgements received so far. */
  acknowledged(type: 'puback' | 'pubrec' = 'puback', connection?: number): (number | undefined)[] {
    const filter = connection === undefined ? {} : { connection };
    return this.broker.log.received(type, filter).map((packet) => packet.messageId);
  }

  /** A round trip: everything the client wanted to write before it has reached the broker, and the answers came back. */
  async settled(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    await this.client.publish({ topic: 'barrier', payload: '', qos: 1 });
  }

  async stop(): Promise<void> {
    await this.client.close({ timeout: 500 });
    await this.broker.close();
  }
}
