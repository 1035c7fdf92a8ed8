import { setTimeout as sleep } from 'node:timers/promises';
import { connectAsync, type MqttClient } from 'mqtt';

const DEVICES = 4;
/** Publishes under way at a time when there is no rate. */
const WINDOW = 40;

/** Simulated devices on the `mqtt` package: a client that is not ours says what the broker accepted. */
export class Devices {
  /** Messages whose PUBACK a device has seen. */
  published = 0;
  /** Numbers the broker did not accept. */
  readonly refused: number[] = [];
  private underWay = 0;
  private stopped = false;

  private constructor(
    private readonly clients: readonly MqttClient[],
    /** Makes the numbers of this run differ from those of an earlier one on the same brokers. */
    readonly run: string,
  ) {}

  static async connect(url: string, run: string): Promise<Devices> {
    const names = Array.from({ length: DEVICES }, (_, index) => `device-${index}-${run}`);
    return new Devices(await Promise.all(names.map((clientId) => connectAsync(url, { clientId }))), run);
  }

  /** Publishes the messages 0 to `count - 1` with QoS 1; resolves when the broker has answered every one. */
  async publish(count: number, perSecond: number): Promise<void> {
    const started = performance.now();
    for (let id = 0; id < count && !this.stopped; id++) {
      this.publishOne(id);
      while (perSecond === 0 && this.underWay >= WINDOW) await sleep(1);
      const due = perSecond === 0 ? 0 : started + ((id + 1) / perSecond) * 1000;
      if (due > performance.now()) await sleep(due - performance.now());
    }
    while (this.underWay > 0) await sleep(5);
  }

  async close(): Promise<void> {
    this.stopped = true;
    await Promise.all(this.clients.map((client) => client.endAsync()));
  }

  private publishOne(id: number): void {
    const device = id % this.clients.length;
    const reading = { id, run: this.run, celsius: 20 + Math.round(Math.sin(id / 50) * 50) / 10 };
    const payload = JSON.stringify(reading);
    const client = this.clients[device];
    this.underWay++;
    void client
      .publishAsync(`devices/${device}/telemetry`, payload, { qos: 1 })
      .then(
        () => void this.published++,
        () => void this.refused.push(id),
      )
      .finally(() => this.underWay--);
  }
}
