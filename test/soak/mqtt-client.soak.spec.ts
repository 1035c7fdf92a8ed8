import { MqttClient, type MqttDelivery } from '../../lib/mqtt/index.js';
import { InMemoryMqttBroker } from '../../lib/testing/index.js';
import { seededRandom } from '../wire/random.js';
import { type Fault, FaultSchedule, pause } from './schedule.js';

const MESSAGES = 800;
const PUBLISHES = 300;
const RECEIVE_MAXIMUM = 16;

/** What links and brokers do; none of it loses the session. */
function faults(broker: InMemoryMqttBroker, resent: Set<string>): Fault[] {
  return [
    { name: 'cut', weight: 3, run: () => broker.cut() },
    { name: 'reset', weight: 2, run: () => broker.cut({ reset: true }) },
    { name: 'truncate', weight: 2, run: (random) => broker.truncate(1 + Math.floor(random() * 6)) },
    {
      name: 'stall',
      weight: 2,
      run: async (random) => {
        broker.stall();
        await pause(random() * 20);
        broker.unstall();
      },
    },
    {
      name: 'refuse',
      weight: 1,
      run: async (random) => {
        broker.refuse();
        broker.cut();
        await pause(random() * 20);
        broker.refuse(false);
      },
    },
    {
      name: 'resend on the same connection',
      weight: 3,
      run: (random) => {
        const { connection } = broker;
        const ids = [...(connection?.session?.inFlight.keys() ?? [])];
        const id = ids[Math.floor(random() * ids.length)];
        if (connection === undefined || id === undefined) return;
        resent.add(`connection ${connection.number} (gateway): PUBACK ${id} for a message that waits for none`);
        connection.resend(id, { dup: random() < 0.5 });
      },
    },
    { name: 'disconnect', weight: 1, run: () => broker.connection?.disconnect(0x8b) },
  ];
}

/** The gateway: runs handlers that take time and fail, and remembers which texts succeeded. */
class Gateway {
  readonly succeeded = new Map<string, number>();
  failures = 0;
  running = 0;
  mostUnacknowledged = 0;

  constructor(
    private readonly client: MqttClient,
    private readonly random: () => number,
  ) {
    client.onDelivery = (delivery) => void this.run(delivery);
  }

  private async run(delivery: MqttDelivery): Promise<void> {
    this.client.start(delivery);
    this.running++;
    this.mostUnacknowledged = Math.max(this.mostUnacknowledged, this.client.window.used);
    const fails = delivery.attempt < 4 && this.random() < 0.04;
    await pause(this.random() * 6);
    this.running--;
    if (fails) {
      this.failures++;
      this.client.fail(delivery);
      this.client.reconnect('a handler failed');
      return;
    }
    const text = delivery.message.payload.toString();
    this.succeeded.set(text, (this.succeeded.get(text) ?? 0) + 1);
    this.client.acknowledge(delivery);
  }
}

describe.each([
  [5, 11, false],
  [5, 12, true],
  [4, 13, true],
] as const)(
  'MqttClient under faults, MQTT %i, seed %i, resends on the same connection: %s',
  (protocolVersion, seed, resends) => {
    it('handles every message, acknowledges none too early and all in order, and publishes everything', async () => {
      const broker = await InMemoryMqttBroker.start({
        limits: { receiveMaximum: 8 },
        maxInFlight: RECEIVE_MAXIMUM,
        enforceKeepAlive: false,
      });
      const random = seededRandom(seed);
      const client = new MqttClient({
        url: broker.url,
        clientId: 'gateway',
        protocolVersion,
        receiveMaximum: RECEIVE_MAXIMUM,
        reconnect: { initial: 2, max: 10 },
        longBackoff: { initial: 2, max: 10 },
        keepAlive: 0,
      });
      const gateway = new Gateway(client, random);

      // M1, seen from the broker: an acknowledgement for a text whose handler has not succeeded.
      const early: string[] = [];
      broker.onReceive((packet, connection) => {
        if (packet.cmd !== 'puback' && packet.cmd !== 'pubrec') return undefined;
        const entry = connection.session?.inFlight.get(packet.messageId ?? 0);
        const text = entry?.phase === 'publish' ? entry.message.payload.toString() : undefined;
        if (text !== undefined && !gateway.succeeded.has(text)) early.push(text);
        return undefined;
      });
      const published = new Map<string, number>();
      broker.onPublish = ({ payload }) => {
        const text = payload.toString();
        published.set(text, (published.get(text) ?? 0) + 1);
      };

      await client.connect();
      await client.subscribe([{ filter: 'devices/#', qos: 2 }]);
      const resent = new Set<string>();
      const schedule = new FaultSchedule(
        faults(broker, resent).filter(({ name }) => resends || !name.startsWith('resend')),
        { seed, min: 2, max: 25 },
      );
      schedule.start();

      const own: Promise<unknown>[] = [];
      for (let index = 0; index < MESSAGES; index++) {
        broker.publish(`devices/${index % 7}`, `in-${index}`, { qos: random() < 0.3 ? 2 : 1 });
        if (index < PUBLISHES) {
          const qos = index % 2 === 0 ? 1 : 2;
          own.push(client.publish({ topic: 'up', payload: `out-${qos}-${index}`, qos }));
        }
        if (index % 8 === 0) await pause(3);
      }
      await broker.log.waitFor(() => gateway.succeeded.size === MESSAGES, 60_000, 'every message');
      await schedule.stop();
      broker.unstall();
      await Promise.all(own);
      const quiet = (): boolean =>
        broker.session('gateway')?.inFlight.size === 0 &&
        gateway.running === 0 &&
        client.window.used === 0 &&
        client.status.state === 'connected';
      await broker.log.waitFor(quiet, 20_000, 'every acknowledgement');

      expect(early).toEqual([]);
      // A copy that crosses its PUBACK is a new message to the client [MQTT-4.3.2-5], and gets a PUBACK of its own.
      const crossed = (text: string): boolean => [...resent].some((known) => text.startsWith(known));
      expect(broker.violations.filter((text) => !crossed(text))).toEqual([]);
      expect(gateway.failures).toBeGreaterThan(5);
      expect([...schedule.counts.keys()].length).toBeGreaterThan(5);
      expect(gateway.running).toBe(0);
      // M6; a copy that crossed its PUBACK counts twice for a moment.
      if (!resends) expect(gateway.mostUnacknowledged).toBeLessThanOrEqual(RECEIVE_MAXIMUM);
      // M8: in one session and process a handler succeeds once, for QoS 2 always, for QoS 1 as long as the copy can be bound.
      const qos2 = new Set(
        broker.log.entries.flatMap((entry) =>
          entry.type === 'publish' && entry.direction === 'out' && (entry.packet as { qos: number }).qos === 2
            ? [String((entry.packet as { payload: Buffer }).payload)]
            : [],
        ),
      );
      expect(qos2.size).toBeGreaterThan(MESSAGES / 5);
      expect([...gateway.succeeded].filter(([text, count]) => qos2.has(text) && count > 1)).toEqual([]);
      // What we published: at least once with QoS 1, exactly once with QoS 2.
      expect(published.size).toBe(PUBLISHES);
      expect([...published].filter(([text, count]) => text.startsWith('out-2-') && count !== 1)).toEqual([]);
      expect(client.window.used).toBe(0);
      expect(client.stats).toMatchObject({ sessionsLost: 0, pendingPublishes: 0, pendingPublishBytes: 0 });
      // A copy that crossed its PUBACK, and lost its connection: the broker has no reason to send it again, so it is held.
      const { deliveries } = client.stats;
      expect(deliveries).toMatchObject({ waiting: 0, running: 0, retrying: 0, failed: client.unclaimed().length });
      const held = deliveries.failed + deliveries.succeeded;
      if (!resends) expect(held).toBe(0);
      await client.close();
      expect(client.stats.abandoned).toBe(held);
      await broker.close();
    }, 90_000);
  },
);
