import { setTimeout as sleep } from 'node:timers/promises';
import { connectAsync, type MqttClient } from 'mqtt';

/** Topic of the device that publishes message `id`. */
export const topicOf = (id: number): string => `devices/d${id % 50}/telemetry`;

/** Simulated devices: clients of the `mqtt` package that publish numbered messages with QoS 1 and 2 in turn. */
export class Devices {
  /** Numbers whose PUBACK or PUBCOMP the device has seen. */
  readonly accepted = new Set<number>();
  readonly rejected = new Map<number, string>();
  private underWay = 0;

  private constructor(private readonly clients: readonly MqttClient[]) {}

  static async connect(url: string): Promise<Devices> {
    const versions = [5, 4, 5, 4] as const;
    const clients = await Promise.all(
      versions.map((protocolVersion, index) =>
        connectAsync(url, { protocolVersion, clientId: `device-${index}-${process.pid}`, reconnectPeriod: 200 }),
      ),
    );
    return new Devices(clients);
  }

  /** Publishes the numbers `first` to `first + count - 1`, about `perSecond` of them a second. */
  async publish(first: number, count: number, perSecond: number): Promise<void> {
    const started = performance.now();
    for (let sent = 0; sent < count; sent++) {
      this.publishOne(first + sent);
      const due = started + ((sent + 1) / perSecond) * 1000;
      if (due > performance.now() + 2) await sleep(due - performance.now());
    }
  }

  publishOne(id: number, payload = `{"id":${id},"at":${Date.now()},"value":${(id * 37) % 100}}`): void {
    const client = this.clients[id % this.clients.length] as MqttClient;
    const qos = Math.floor(id / this.clients.length) % 2 === 0 ? 1 : 2;
    this.underWay++;
    client
      .publishAsync(topicOf(id), payload, { qos })
      .then(
        () => this.accepted.add(id),
        (error: Error) => this.rejected.set(id, error.message),
      )
      .finally(() => this.underWay--);
  }

  /** Until the broker has answered every publish. */
  async settled(timeoutMs = 30_000): Promise<void> {
    const deadline = Date.now() + timeoutMs;
    while (this.underWay > 0) {
      if (Date.now() > deadline)
        throw new Error(`the MQTT broker left ${this.underWay} publishes of devices unanswered`);
      await sleep(20);
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.clients.map((client) => client.endAsync()));
  }
}
