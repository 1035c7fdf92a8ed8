import { type ChildProcess, fork } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type MqttServerOptions } from '../../lib/index.js';
import { repositoryRoot, scratchFolder } from '../brokers/index.js';
import { until } from './harness.js';
import type { LiveAppConfig, LiveAppReport, LiveAppRequest } from './live-app.js';

type Of<K extends LiveAppReport['kind']> = Extract<LiveAppReport, { kind: K }>;

/** One process of `live-app.ts`. */
export class LiveApp {
  readonly reports: LiveAppReport[] = [];
  private gone: number | string | undefined;

  private constructor(
    private readonly child: ChildProcess,
    private readonly journal: string,
  ) {
    child.on('message', (report: LiveAppReport) => this.reports.push(report));
    child.once('exit', (code, signal) => (this.gone = code ?? signal ?? 'SIGKILL'));
    running.add(this);
  }

  /** Resolves when it is subscribed. */
  static async start(
    options: Omit<LiveAppConfig, 'journal' | 'options'> & { readonly strategy: MqttServerOptions },
  ): Promise<LiveApp> {
    const { strategy, ...rest } = options;
    const journal = join(scratchFolder('live-app'), 'journal');
    const config: LiveAppConfig = { ...rest, journal, options: strategy };
    const program = join(repositoryRoot, 'out', 'test', 'integration', 'live-app.js');
    const env = { ...process.env, NODE_OPTIONS: '', LIVE_APP: JSON.stringify(config) };
    const child = fork(program, [], { env, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    const app = new LiveApp(child, journal);
    await until('the app', () => app.gone !== undefined || app.of('ready').length > 0);
    if (app.gone !== undefined) throw new Error(`the app ended with ${app.gone} before it was ready`);
    return app;
  }

  of<K extends LiveAppReport['kind']>(kind: K): Of<K>[] {
    return this.reports.filter((report): report is Of<K> => report.kind === kind);
  }

  get status(): Of<'status'> | undefined {
    return this.of('status').at(-1);
  }

  logged(text: string): number {
    return this.of('log').filter(({ line }) => line.includes(text)).length;
  }

  /** Payloads whose handler began, once per run. */
  get started(): string[] {
    return this.lines('S');
  }

  /** Payloads whose handler had its receipt. */
  get ended(): string[] {
    return this.lines('E');
  }

  tell(kind: LiveAppRequest['kind'], only?: string): void {
    this.child.send({ kind, ...(only !== undefined && { only }) });
  }

  /** From one instruction to the next. */
  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await until('its end', () => this.gone !== undefined);
    running.delete(this);
  }

  /** In good order; rejects where something keeps the process alive. */
  async close(): Promise<void> {
    if (this.gone !== undefined) return;
    this.tell('close');
    await until('its end', () => this.gone !== undefined);
    running.delete(this);
    if (this.gone !== 0) throw new Error(`the app ended with ${this.gone}`);
  }

  private lines(kind: 'S' | 'E'): string[] {
    const text = existsSync(this.journal) ? readFileSync(this.journal, 'utf8') : '';
    const whole = text.slice(0, text.lastIndexOf('\n') + 1).split('\n');
    return whole.filter((line) => line.startsWith(`${kind} `)).map((line) => line.slice(2));
  }
}

const running = new Set<LiveApp>();

/** Of a suite: for `afterEach`. */
export async function killLiveApps(): Promise<void> {
  for (const app of [...running]) await app.kill();
}
