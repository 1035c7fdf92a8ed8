import { type ChildProcess, fork } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { repositoryRoot } from '../brokers/index.js';
import { type AppConfig, type AppReport, type AppRequest } from './app-config.js';
import { type HandlerFigures, readMarkers } from './markers.js';

/** One process of the app under test. */
export class ChildApp {
  readonly statuses: { readonly status: string; readonly health: string }[] = [];
  /** Most un-acknowledged messages that its session held at a time, by its own account. */
  maxHeld = 0;
  private readonly waiting = new Map<AppReport['kind'], (report: AppReport) => void>();
  private ended = false;

  private constructor(
    private readonly child: ChildProcess,
    private readonly config: AppConfig,
  ) {
    child.on('message', (report: AppReport) => {
      if (report.kind === 'status') this.statuses.push({ status: report.status, health: report.health });
      if (report.kind === 'held') this.maxHeld = report.most;
      this.waiting.get(report.kind)?.(report);
    });
    child.once('exit', () => (this.ended = true));
    children.add(child);
    child.once('exit', () => children.delete(child));
  }

  /** Starts it; resolves when it is subscribed. */
  static async start(config: AppConfig): Promise<ChildApp> {
    const program = join(repositoryRoot, 'out', 'test', 'crash', 'app.js');
    const child = fork(program, [], {
      execArgv: ['--enable-source-maps', '--expose-gc'],
      env: { ...process.env, APP_CONFIG: JSON.stringify(config) },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    const app = new ChildApp(child, config);
    // A broker that sends a whole backlog before the SUBACK, over a link that is cut meanwhile, takes its time.
    await app.report('ready', 120_000);
    return app;
  }

  /** The last status that it told. */
  get status(): string {
    return this.statuses.at(-1)?.status ?? 'silent';
  }

  get alive(): boolean {
    return !this.ended;
  }

  /** What its handlers wrote until now, or until its end. */
  get handlers(): HandlerFigures {
    return readMarkers(this.config.markers);
  }

  /** SIGKILL: nothing of it runs any more when this resolves. */
  async kill(): Promise<void> {
    if (this.ended) return;
    const gone = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGKILL');
    await gone;
  }

  /**
   * SIGKILL at a moment when handlers run; resolves to how many did. The process is stopped first: nothing of it runs any
   * more between the look and the kill.
   */
  async killWhileRunning(timeoutMs: number): Promise<number> {
    for (const deadline = Date.now() + timeoutMs; !this.ended && Date.now() < deadline; await sleep(5)) {
      this.child.kill('SIGSTOP');
      await sleep(20);
      const { running } = this.handlers;
      if (running === 0) {
        this.child.kill('SIGCONT');
        continue;
      }
      await this.kill();
      return running;
    }
    await this.kill();
    return 0;
  }

  /** Bytes of heap in use after a forced collection. */
  async heap(): Promise<number> {
    const report = this.report('heap', 20_000);
    this.request({ kind: 'heap' });
    const answer = await report;
    return answer.kind === 'heap' ? answer.bytes : NaN;
  }

  /** `app.close()`, then the process ends by itself; rejects when something keeps it alive. */
  async close(timeoutMs = 30_000): Promise<void> {
    if (this.ended) return;
    const gone = new Promise<number | null>((resolve) => this.child.once('exit', resolve));
    this.request({ kind: 'close' });
    const timer = setTimeout(() => this.child.kill('SIGABRT'), timeoutMs);
    const code = await gone;
    clearTimeout(timer);
    if (code !== 0) throw new Error(`the app did not end well within ${timeoutMs} ms after close(): exit ${code}`);
  }

  private request(request: AppRequest): void {
    this.child.send(request);
  }

  private report(kind: AppReport['kind'], timeoutMs: number): Promise<AppReport> {
    return new Promise((resolve, reject) => {
      const fail = (why: string): void => {
        clearTimeout(timer);
        this.waiting.delete(kind);
        reject(new Error(`the app did not report '${kind}': ${why}`));
      };
      const onExit = (code: number | null, signal: string | null): void => fail(`it ended with ${code ?? signal}`);
      const timer = setTimeout(() => fail(`nothing in ${timeoutMs} ms`), timeoutMs);
      this.child.once('exit', onExit);
      this.waiting.set(kind, (report) => {
        clearTimeout(timer);
        this.waiting.delete(kind);
        this.child.off('exit', onExit);
        resolve(report);
      });
    });
  }
}

const children = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL');
});
