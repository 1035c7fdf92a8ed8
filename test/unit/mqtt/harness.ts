import { type MqttClientOptions, MqttClient, type MqttDelivery } from '../../../lib/mqtt/index.js';
import { InMemoryMqttBroker, type MqttBrokerOptions } from '../../../lib/testing/index.js';

/** A client whose deliveries wait for the test, and what it was told. */
export class TestClient extends MqttClient {
  /** In the order they were handed out; a redelivered one is there again. */
  readonly handedOut: MqttDelivery[] = [];
  readonly dropped: MqttDelivery[] = [];
  readonly errors: Error[] = [];
  readonly warnings: string[] = [];

  constructor(options: MqttClientOptions) {
    super({ clientId: 'client', reconnect: { initial: 1, max: 20 }, ...options });
    this.onDelivery = (delivery) => this.handedOut.push(delivery);
    this.onDropped = (delivery) => this.dropped.push(delivery);
    this.on('error', (error) => this.errors.push(error));
    this.on('warning', ({ message }) => this.warnings.push(message));
  }

  /** Payloads as text, in the order they were handed out. */
  get payloads(): string[] {
    return this.handedOut.map(({ message }) => message.payload.toString());
  }
}

const open: { client?: MqttClient; broker?: InMemoryMqttBroker }[] = [];

afterEach(async () => {
  for (const { client, broker } of open.splice(0)) {
    client?.destroy();
    await broker?.close();
  }
});

export async function startBroker(options: MqttBrokerOptions = {}): Promise<InMemoryMqttBroker> {
  const broker = await InMemoryMqttBroker.start(options);
  open.push({ broker });
  return broker;
}

export function newClient(broker: InMemoryMqttBroker, options: MqttClientOptions = {}): TestClient {
  const client = new TestClient({ url: broker.url, ...options });
  open.unshift({ client });
  return client;
}

/** A broker and a connected client that is subscribed to `t/#` with QoS 2. */
export async function startPair(
  options: MqttClientOptions = {},
  brokerOptions: MqttBrokerOptions = {},
): Promise<{ broker: InMemoryMqttBroker; client: TestClient }> {
  const broker = await startBroker(brokerOptions);
  const client = newClient(broker, options);
  await client.connect();
  await client.subscribe([{ filter: 't/#', qos: 2 }]);
  return { broker, client };
}

/** Packet identifiers of the acknowledgements of one type, in wire order. */
export function ids(broker: InMemoryMqttBroker, type: 'puback' | 'pubrec' | 'pubcomp', connection?: number): number[] {
  const filter = connection === undefined ? {} : { connection };
  return broker.log.received(type, filter).map(({ messageId }) => messageId ?? 0);
}

/** Waits until the client has handed out `count` deliveries in all. */
export function handedOut(broker: InMemoryMqttBroker, client: TestClient, count: number): Promise<true> {
  return broker.log.waitFor(() => client.handedOut.length >= count || undefined, 10_000, `${count} deliveries`);
}

/** Cuts the connection and waits for the next one. */
export async function cutAndReconnect(broker: InMemoryMqttBroker): Promise<void> {
  const before = broker.allConnections.length;
  broker.cut();
  await broker.log.waitFor(
    () => broker.connections.some((one) => one.number > before && one.session !== undefined) || undefined,
  );
}
