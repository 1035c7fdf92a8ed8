import { setTimeout as sleep } from 'node:timers/promises';
import { connectAsync, type MqttClient } from 'mqtt';

/** Topic of the device that publishes message `id`. */
export const topicOf = (id: number): string => `devices/d${id % 50}/telemetry`;

/**
 * Publishes under way per client. A client of mosquitto 2.0.11 with more than `max_inflight_messages` (20) QoS 2 publishes
 * under way loses some of them: PUBREC and PUBCOMP come, and no subscriber ever gets the message.
 */
const WINDOW = 10;

/** Simulated devices: clients of the `mqtt` package that publish numbered messages with QoS 1 and 2 in turn. */
export class Devices {
  /** Numbers whose PUBACK or PUBCOMP the device has seen. */
  readonly accepted = new Set<number>();
  readonly rejected = new Map<number, string>();
  /** Messages handed to the clients, answered or not. */
  published = 0;
  private readonly underWay: number[];

  private constructor(private readonly clients: readonly MqttClient[]) {
    this.underWay = clients.map(() => 0);
  }

  static async connect(url: string): Promise<Devices> {
    const versions = [5, 4, 5, 4] as const;
    const clients = await Promise.all(
      versions.map((protocolVersion, index) =>
        connectAsync(url, { protocolVersion, clientId: `device-${index}-${process.pid}`, reconnectPeriod: 200 }),
      ),
    );
    return new Devices(clients);
  }

  /**
   * Publishes the numbers `first` to `first + count - 1`, about `perSecond` of them a second, or fewer if `enough` says so
   * before.
   *
   * @returns how many
   */
  async publish(first: number, count: number, perSecond: number, enough = (): boolean => false): Promise<number> {
    const started = performance.now();
    for (let sent = 0; sent < count; sent++) {
      if (enough()) return sent;
      while ((this.underWay[(first + sent) % this.clients.length] ?? 0) >= WINDOW) await sleep(1);
      this.publishOne(first + sent);
      const due = started + ((sent + 1) / perSecond) * 1000;
      if (due > performance.now() + 2) await sleep(due - performance.now());
    }
    return count;
  }

  publishOne(id: number, payload = `{"id":${id},"at":${Date.now()},"value":${(id * 37) % 100}}`): void {
    const index = id % this.clients.length;
    const client = this.clients[index];
    const count = (change: number): void => void (this.underWay[index] = (this.underWay[index] ?? 0) + change);
    const qos = Math.floor(id / this.clients.length) % 2 === 0 ? 1 : 2;
    this.published++;
    count(1);
    client
      .publishAsync(topicOf(id), payload, { qos })
      .then(
        () => this.accepted.add(id),
        (error: Error) => this.rejected.set(id, error.message),
      )
      .finally(() => count(-1));
  }

  /** Everything that the broker has accepted from them is among `ids`. */
  allIn(ids: ReadonlySet<number>): boolean {
    return [...this.accepted].every((id) => ids.has(id));
  }

  /** Until the broker has answered every publish. */
  async settled(timeoutMs = 30_000): Promise<void> {
    const deadline = Date.now() + timeoutMs;
    for (let left = this.total(); left > 0; left = this.total()) {
      if (Date.now() > deadline) throw new Error(`the MQTT broker left ${left} publishes of devices unanswered`);
      await sleep(20);
    }
  }

  private total(): number {
    return this.underWay.reduce((sum, count) => sum + count, 0);
  }

  async close(): Promise<void> {
    await Promise.all(this.clients.map((client) => client.endAsync()));
  }
}
