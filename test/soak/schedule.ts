import { seededRandom } from '../wire/random.js';

/** One thing that can go wrong, with its share among the others. */
export interface Fault {
  readonly name: string;
  readonly weight: number;
  run(random: () => number): void | Promise<void>;
}

/** Picks faults by seed, one after another, until it is stopped; the choice depends on the seed alone. */
export class FaultSchedule {
  readonly counts = new Map<string, number>();
  private stopped = false;
  private running: Promise<void> | undefined;

  constructor(
    private readonly faults: readonly Fault[],
    private readonly options: { readonly seed: number; readonly min: number; readonly max: number },
  ) {}

  start(): void {
    this.running = this.loop();
  }

  /** No further fault; resolves when the last one is over. */
  async stop(): Promise<void> {
    this.stopped = true;
    await this.running;
  }

  private async loop(): Promise<void> {
    const { seed, min, max } = this.options;
    const random = seededRandom(seed);
    const total = this.faults.reduce((sum, { weight }) => sum + weight, 0);
    while (!this.stopped) {
      await pause(min + random() * (max - min));
      let pick = random() * total;
      const fault = this.faults.find(({ weight }) => (pick -= weight) < 0) ?? this.faults[0];
      if (this.stopped) return;
      this.counts.set(fault.name, (this.counts.get(fault.name) ?? 0) + 1);
      await fault.run(random);
    }
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
