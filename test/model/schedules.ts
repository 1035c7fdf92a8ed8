/** One random schedule of a core: every input it can get, and what must hold after each. */
interface Schedule {
  /** What happened, newest last. */
  readonly log: readonly string[];
  step(): void | Promise<void>;
  /** Lets everything come to its end, and checks what must hold then. */
  finish(): void | Promise<void>;
}

interface Settings<S extends Schedule> {
  /**
   * Begins the names of the variables: `<name>_MODEL_SEED=n` plays one seed again, `_LOG=n` shows more of the end of one
   * that failed, `_RUNS=n` sets how many are played, `_FIRST=n` where they begin.
   */
  readonly name: string;
  readonly steps: number;
  readonly runs: number;
  /** How many seeds must be enough to notice a planted defect. */
  readonly runsWithDefect: number;
  readonly start: (seed: number) => S | Promise<S>;
  /** How often a finished schedule saw what: a run in which nothing happens would hold everything. */
  readonly seen: (world: S) => Iterable<readonly [what: string, count: number]>;
}

/** Seeded random schedules; a breach is reported with its seed, so that it can be played again. */
export class Schedules<S extends Schedule> {
  readonly runs: number;
  readonly first: number;
  private readonly only: string | undefined;

  constructor(private readonly settings: Settings<S>) {
    this.only = this.variable('SEED');
    this.runs = this.only === undefined ? Number(this.variable('RUNS') ?? settings.runs) : 1;
    this.first = Number(this.only ?? this.variable('FIRST') ?? 1);
  }

  /** True if so few are played that some things need not happen. */
  get few(): boolean {
    return this.only !== undefined || this.runs < 1000;
  }

  /** Plays them all; what was seen, added up. */
  async playAll(): Promise<Map<string, number>> {
    const seen = new Map<string, number>();
    for (let seed = this.first; seed < this.first + this.runs; seed++) {
      const world = await this.play(seed);
      for (const [what, count] of this.settings.seen(world)) seen.set(what, (seen.get(what) ?? 0) + count);
    }
    return seen;
  }

  /** Plays seeds from 1 with a planted defect, until one breaks. */
  async playWithDefect(plant: () => () => void): Promise<void> {
    const restore = plant();
    try {
      for (let seed = 1; seed <= this.settings.runsWithDefect; seed++) await this.play(seed);
    } finally {
      restore();
    }
  }

  private async play(seed: number): Promise<S> {
    let world: S | undefined;
    try {
      world = await this.settings.start(seed);
      for (let i = 0; i < this.settings.steps; i++) {
        // Awaiting every step of a core, which has no promises, would only cost time.
        const step = world.step();
        if (step !== undefined) await step;
      }
      await world.finish();
      return world;
    } catch (error) {
      const tail = world?.log.slice(-Number(this.variable('LOG') ?? 40)).join('\n') ?? '';
      const name = `${this.settings.name}_MODEL_SEED`;
      throw new Error(`${name}=${seed}: ${(error as Error).message}\n${tail}`, { cause: error });
    }
  }

  private variable(name: string): string | undefined {
    return process.env[`${this.settings.name}_MODEL_${name}`];
  }
}
