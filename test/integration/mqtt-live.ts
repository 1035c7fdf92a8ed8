import { connectAsync, type IPublishPacket, type MqttClient as MqttJs } from 'mqtt';
import { MqttClient, type MqttClientOptions, type MqttDelivery } from '../../lib/index.js';
import { EmbeddedAedes, Mochi, Mosquitto } from '../brokers/index.js';
import { describeWithMqttBrokers, unique, until } from './harness.js';
import { WireLog } from './mqtt-wire-log.js';

/** What a suite needs of a broker; all of them listen on 127.0.0.1. */
export interface RunningBroker {
  readonly url: string;
  readonly port: number;
  /** Down and up again on the same port. */
  restart(): Promise<void>;
  stop(): Promise<void>;
  kill(): Promise<void>;
}

/**
 * Where a broker departs from the others. The suite holds each of these too: when a newer version behaves, a test says so.
 */
export type Difference =
  /** A copy that is sent again on a resumed session has no DUP: `bindWithoutDup` is needed. */
  | 'redelivers without DUP'
  /** The messages of a resumed session come in any order. */
  | 'resumes out of order'
  /** What it resends on a new connection keeps a topic alias of the old one, without the topic. */
  | 'resends with a dead topic alias'
  /**
   * A message that waited for a place in Receive Maximum is forgotten when it is sent: its acknowledgement makes no room, and
   * a lost connection loses it. Hence a Receive Maximum above anything that can be under way there.
   */
  | 'forgets what waited for Receive Maximum'
  /** PUBRELs of several QoS 2 deliveries under way get each other's packet identifiers (its in-memory persistence). */
  | 'mixes up PUBRELs'
  /** A message that matches two filters of a client comes once per filter, not once. */
  | 'one copy per matching filter'
  /** Sends more than Receive Maximum once acknowledgements come in. */
  | 'overruns Receive Maximum'
  /** Sessions are gone after a restart of the broker. */
  | 'forgets sessions at a restart'
  /** A client without a subscription has no session after a reconnect. */
  | 'keeps sessions of subscribers only'
  /** A publish that nobody has subscribed to is answered with 0, not with 0x10. */
  | 'does not say that nobody has subscribed'
  /** Takes `$share/...` for a topic like any other. */
  | 'has no shared subscriptions'
  /** A client whose id another one takes gets no DISCONNECT 0x8E. */
  | 'does not tell of a takeover'
  /** A will loses its properties but the user properties. */
  | 'publishes wills without their properties'
  /** Announces no Topic Alias Maximum: our publishes carry their topics. */
  | 'takes no topic aliases'
  /** Never uses the Topic Alias Maximum that we announce. */
  | 'sends no topic aliases';

export interface BrokerUnderTest {
  readonly name: string;
  readonly version: 4 | 5;
  readonly differences: readonly Difference[];
  start(): Promise<RunningBroker>;
}

export const mqttBrokers: readonly BrokerUnderTest[] = [
  {
    name: 'mosquitto, MQTT 5',
    version: 5,
    differences: [
      'one copy per matching filter',
      'does not tell of a takeover',
      'sends no topic aliases',
      'overruns Receive Maximum',
    ],
    start: () => Mosquitto.start(),
  },
  { name: 'mosquitto, MQTT 3.1.1', version: 4, differences: [], start: () => Mosquitto.start() },
  {
    name: 'mochi, MQTT 5',
    version: 5,
    differences: [
      'resumes out of order',
      'resends with a dead topic alias',
      'forgets what waited for Receive Maximum',
      'takes no topic aliases',
      'publishes wills without their properties',
      'does not say that nobody has subscribed',
      'forgets sessions at a restart',
    ],
    start: () => Mochi.start(),
  },
  {
    name: 'mochi, MQTT 3.1.1',
    version: 4,
    differences: ['resumes out of order', 'forgets sessions at a restart'],
    start: () => Mochi.start(),
  },
  {
    name: 'aedes, MQTT 3.1.1',
    version: 4,
    differences: [
      'redelivers without DUP',
      'mixes up PUBRELs',
      'keeps sessions of subscribers only',
      'has no shared subscriptions',
    ],
    start: () => EmbeddedAedes.start(),
  },
];

/** One running broker and everything a test opens on it; `clear()` closes the latter. */
export class LiveBroker {
  private readonly opened: (() => Promise<unknown>)[] = [];

  private constructor(
    readonly broker: RunningBroker,
    private readonly about: BrokerUnderTest,
  ) {}

  static async start(about: BrokerUnderTest): Promise<LiveBroker> {
    return new LiveBroker(await about.start(), about);
  }

  get url(): string {
    return this.broker.url;
  }

  get version(): 4 | 5 {
    return this.about.version;
  }

  differs(difference: Difference): boolean {
    return this.about.differences.includes(difference);
  }

  /** Ours, not connected yet. */
  client(options: MqttClientOptions = {}): LiveClient {
    const client = new LiveClient({
      url: this.url,
      clientId: unique('client'),
      protocolVersion: this.version,
      bindWithoutDup: this.differs('redelivers without DUP'),
      reconnect: { initial: 20, max: 500 },
      ...options,
    });
    this.opened.push(async () => client.destroy());
    return client;
  }

  async connected(options: MqttClientOptions = {}): Promise<LiveClient> {
    const client = this.client(options);
    await client.connect();
    return client;
  }

  /** A proxy before the broker. */
  async wire(): Promise<WireLog> {
    const wire = await WireLog.start(this.broker.port);
    this.opened.push(() => wire.close());
    return wire;
  }

  /** A client that is not ours, with what it received. */
  async peer(...filters: readonly string[]): Promise<Peer> {
    const client = await connectAsync(this.url, { protocolVersion: this.version, clientId: unique('peer') });
    this.opened.push(() => client.endAsync(true));
    const peer = new Peer(client);
    for (const filter of filters) await client.subscribeAsync(filter, { qos: 2 });
    return peer;
  }

  async clear(): Promise<void> {
    await Promise.all(this.opened.splice(0).map((close) => close()));
  }

  async stop(): Promise<void> {
    await this.clear();
    await this.broker.kill();
  }
}

/** Our client; keeps what it was handed and acknowledges it, unless told to hold. */
export class LiveClient extends MqttClient {
  readonly deliveries: MqttDelivery[] = [];
  hold = false;

  constructor(options: MqttClientOptions) {
    super(options);
    this.onDelivery = (delivery) => {
      this.deliveries.push(delivery);
      this.start(delivery);
      if (!this.hold) this.acknowledge(delivery);
    };
  }

  get payloads(): string[] {
    return this.deliveries.map(({ message }) => message.payload.toString());
  }

  async received(count: number): Promise<void> {
    await until(
      `${count} deliveries, have ${this.payloads.join(' ').slice(0, 200)}`,
      () => this.deliveries.length >= count,
    );
  }
}

export interface PeerMessage {
  readonly topic: string;
  readonly payload: Buffer;
  readonly qos: 0 | 1 | 2;
  readonly retain: boolean;
  readonly properties: IPublishPacket['properties'];
}

/** A client of the `mqtt` package. */
export class Peer {
  readonly messages: PeerMessage[] = [];

  constructor(readonly client: MqttJs) {
    client.on('message', (topic, payload, { qos, retain, properties }) =>
      this.messages.push({ topic, payload, qos, retain, properties }),
    );
  }

  get payloads(): string[] {
    return this.messages.map(({ payload }) => payload.toString());
  }

  async received(count: number): Promise<void> {
    await until(`${count} messages at the peer`, () => this.messages.length >= count);
  }
}

/** The suite once per broker and protocol version; `live()` is the running one. */
export function describeEachBroker(
  title: string,
  suite: (live: () => LiveBroker) => void,
  brokers: readonly BrokerUnderTest[] = mqttBrokers,
): void {
  describeWithMqttBrokers.each(brokers)(`$name: ${title}`, (about) => {
    let live: LiveBroker;
    beforeAll(async () => {
      live = await LiveBroker.start(about);
    });
    afterEach(() => live.clear());
    afterAll(() => live.stop());
    suite(() => live);
  });
}
