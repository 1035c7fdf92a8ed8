import { type MqttWire, seededRandom } from '../wire/index.js';

/** How often it looks whether a session is open, in milliseconds. */
const LOOK = 50;

/** Cuts the MQTT link again and again, each time after it has been open for a random time: every cut meets a session. */
export class LinkCutter {
  readonly figures = {
    cuts: 0,
    /** Cuts that met un-acknowledged messages. */
    metUnacknowledged: 0,
    /** Milliseconds in which a session was open. */
    openMs: 0,
  };
  private timer: NodeJS.Timeout | undefined;
  private readonly random: () => number;
  private next: number;
  private looked = 0;

  constructor(
    private readonly wire: MqttWire,
    private readonly options: { readonly minMs: number; readonly maxMs: number; readonly seed: number },
  ) {
    this.random = seededRandom(options.seed);
    this.next = this.delay();
  }

  start(): void {
    this.looked = performance.now();
    this.timer = setInterval(() => this.look(), LOOK);
  }

  stop(): void {
    clearInterval(this.timer);
  }

  private look(): void {
    const now = performance.now();
    const passed = now - this.looked;
    this.looked = now;
    const { wire, figures } = this;
    if (wire.established === 0) return;
    figures.openMs += Math.round(passed);
    this.next -= passed;
    if (this.next > 0) return;
    this.next = this.delay();
    figures.cuts++;
    // Read before the cut: the proxy forgets a connection when it closes.
    if (wire.unacknowledged > 0) figures.metUnacknowledged++;
    wire.proxy.cut();
  }

  private delay(): number {
    return this.options.minMs + this.random() * (this.options.maxMs - this.options.minMs);
  }
}
