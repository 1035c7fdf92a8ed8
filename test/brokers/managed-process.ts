import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

export interface ManagedProcessOptions {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** Standard output and error are appended to this file. */
  readonly log: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** One server process that never outlives the process that started it, however that one ends. */
export class ManagedProcess {
  readonly pid: number;
  /** Resolves when the process is gone, with what ended it. */
  readonly ended: Promise<number | NodeJS.Signals>;
  private end: number | NodeJS.Signals | undefined;

  private constructor(
    private readonly child: ChildProcess,
    private readonly log: string,
  ) {
    if (child.pid === undefined) throw new Error(`could not start ${child.spawnfile}`);
    this.pid = child.pid;
    running.add(this);
    this.ended = new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        this.end = code ?? signal ?? 'SIGKILL';
        running.delete(this);
        resolve(this.end);
      });
    });
  }

  static async start(options: ManagedProcessOptions): Promise<ManagedProcess> {
    mkdirSync(dirname(options.log), { recursive: true });
    const out = openSync(options.log, 'a');
    const [command, args] = dieWithParent(options.command, options.args);
    // A session of its own: Ctrl-C at the terminal reaches us alone, and we stop the servers in order.
    const child = spawn(command, args, {
      cwd: options.cwd,
      detached: true,
      stdio: ['ignore', out, out],
      env: { ...process.env, ...options.env },
    });
    closeSync(out);
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve);
      child.once('error', (error) => reject(new Error(`could not start ${options.command}: ${error.message}`)));
    });
    child.unref();
    return new ManagedProcess(child, options.log);
  }

  get alive(): boolean {
    return this.end === undefined;
  }

  /** SIGTERM, and SIGKILL after `graceMs`. */
  async stop(graceMs = 15_000): Promise<void> {
    if (!this.alive) return;
    this.child.ref();
    this.child.kill('SIGCONT');
    this.child.kill('SIGTERM');
    const timer = setTimeout(() => this.child.kill('SIGKILL'), graceMs);
    await this.ended;
    clearTimeout(timer);
  }

  async kill(): Promise<void> {
    if (!this.alive) return;
    this.child.ref();
    this.child.kill('SIGKILL');
    await this.ended;
  }

  /** SIGSTOP: connections stay open, nothing answers. */
  pause(): void {
    this.child.kill('SIGSTOP');
  }

  resume(): void {
    this.child.kill('SIGCONT');
  }

  /** Polls until `ready` resolves to true; rejects with the log's end when the process dies or the time is up. */
  async waitUntil(what: string, ready: () => Promise<boolean>, timeoutMs: number): Promise<void> {
    const deadline = Date.now() + timeoutMs;
    while (!(await ready().catch(() => false))) {
      if (!this.alive) throw new Error(`${what} ended with ${this.end}\n${this.tail()}`);
      if (Date.now() > deadline) throw new Error(`${what} not ready after ${timeoutMs} ms\n${this.tail()}`);
      await sleep(100);
    }
  }

  tail(lines = 25): string {
    if (!existsSync(this.log)) return '';
    const text = readFileSync(this.log, 'utf8').trimEnd().split('\n');
    return text
      .slice(-lines)
      .map((line) => line.slice(0, 300))
      .join('\n');
  }
}

const running = new Set<ManagedProcess>();
process.on('exit', () => {
  for (const server of running) {
    try {
      process.kill(server.pid, 'SIGKILL');
    } catch {
      // already gone
    }
  }
});

/** Where util-linux has it, the kernel ends the server when we die without running our exit handler. */
function dieWithParent(command: string, args: readonly string[]): [string, readonly string[]] {
  const setpriv = '/usr/bin/setpriv';
  return existsSync(setpriv) ? [setpriv, ['--pdeathsig', 'KILL', '--', command, ...args]] : [command, args];
}
