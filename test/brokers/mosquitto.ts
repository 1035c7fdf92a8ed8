import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Certificates } from './certificates.js';
import { ManagedProcess } from './managed-process.js';
import { answersConnect } from './mqtt-ready.js';
import { scratchFolder } from './paths.js';
import { freePort } from './ports.js';

export interface MosquittoOptions {
  /** Configuration, persistence and log; a new temporary folder by default. */
  readonly folder?: string;
  readonly port?: number;
  /**
   * `unlimited` (default): nothing a disconnected client missed is dropped. `defaults`: mosquitto's own limit of 1,000
   * queued messages, over which it drops the newest without a sign.
   */
  readonly queue?: 'unlimited' | 'defaults';
  /** Adds a TLS listener with this server certificate; `clientCertificate` makes it demand one. */
  readonly tls?: Certificates & { readonly clientCertificate?: boolean; readonly wrongHostName?: boolean };
  /** Adds a listener on a Unix socket (Debian's build has none for WebSockets). */
  readonly unixSocket?: boolean;
  /** Demands this user name and password on every listener. */
  readonly credentials?: { readonly username: string; readonly password: string };
  /** Further lines of mosquitto.conf, before the first listener (they hold for all). */
  readonly settings?: readonly string[];
}

interface Listeners {
  readonly tls: number | undefined;
  readonly unix: string | undefined;
}

const READY_MS = 15_000;

/** A real mosquitto (the Debian package) on 127.0.0.1 with persistence on. */
export class Mosquitto {
  readonly url: string;
  readonly tlsUrl: string | undefined;
  readonly unixUrl: string | undefined;

  private constructor(
    readonly port: number,
    readonly folder: string,
    listeners: Listeners,
    private process: ManagedProcess,
  ) {
    this.url = `mqtt://127.0.0.1:${port}`;
    this.tlsUrl = listeners.tls === undefined ? undefined : `mqtts://localhost:${listeners.tls}`;
    this.unixUrl = listeners.unix === undefined ? undefined : `unix://${listeners.unix}`;
  }

  static async start(options: MosquittoOptions = {}): Promise<Mosquitto> {
    requireMosquitto();
    const folder = options.folder ?? scratchFolder('mosquitto');
    const port = options.port ?? (await freePort());
    const listeners = {
      tls: options.tls === undefined ? undefined : await freePort(),
      unix: options.unixSocket === true ? join(folder, 'mqtt.sock') : undefined,
    };
    rmSync(join(folder, 'data'), { recursive: true, force: true });
    mkdirSync(join(folder, 'data'), { recursive: true });
    writeFileSync(join(folder, 'mosquitto.conf'), configuration(options, folder, port, listeners).join('\n') + '\n');
    return new Mosquitto(port, folder, listeners, await launch(folder, port, options.credentials !== undefined));
  }

  get pid(): number {
    return this.process.pid;
  }

  get log(): string {
    return readFileSync(join(this.folder, 'mosquitto.log'), 'utf8');
  }

  /** Ends it in good order: sessions and queued messages are on disk afterwards. */
  async stop(): Promise<void> {
    await this.process.stop();
  }

  async kill(): Promise<void> {
    await this.process.kill();
  }

  /** Stops it and starts it again on the same ports with the same sessions. */
  async restart(downMs = 0): Promise<void> {
    await this.stop();
    if (downMs > 0) await new Promise((resolve) => setTimeout(resolve, downMs));
    this.process = await launch(this.folder, this.port, true);
  }

  pause(): void {
    this.process.pause();
  }

  resume(): void {
    this.process.resume();
  }
}

/** The version of the installed mosquitto, or undefined where none is installed. */
export function mosquittoVersion(): string | undefined {
  const { stdout } = spawnSync('mosquitto', ['-h'], { encoding: 'utf8' });
  return /mosquitto version (\S+)/.exec(stdout ?? '')?.[1];
}

function requireMosquitto(): void {
  if (mosquittoVersion() === undefined) throw new Error('mosquitto is not installed: apt-get install mosquitto');
}

function configuration(options: MosquittoOptions, folder: string, port: number, listeners: Listeners): string[] {
  const lines = [
    'user root',
    'per_listener_settings false',
    'persistence true',
    `persistence_location ${join(folder, 'data')}/`,
    'autosave_interval 5',
    'log_dest stdout',
    'log_type error',
    'log_type warning',
    'log_type notice',
    'log_type information',
  ];
  if (options.queue !== 'defaults') lines.push('max_queued_messages 0', 'max_queued_bytes 0');
  if (options.credentials === undefined) lines.push('allow_anonymous true');
  else lines.push('allow_anonymous false', `password_file ${passwordFile(folder, options.credentials)}`);
  lines.push(...(options.settings ?? []), `listener ${port} 127.0.0.1`);
  if (options.tls !== undefined && listeners.tls !== undefined) {
    const pair = options.tls.wrongHostName === true ? options.tls.wrongHost : options.tls.server;
    lines.push(
      `listener ${listeners.tls} 127.0.0.1`,
      `cafile ${options.tls.ca}`,
      `certfile ${pair.certificate}`,
      `keyfile ${pair.key}`,
      `require_certificate ${options.tls.clientCertificate === true}`,
    );
  }
  if (listeners.unix !== undefined) lines.push(`listener 0 ${listeners.unix}`);
  return lines;
}

function passwordFile(folder: string, credentials: { readonly username: string; readonly password: string }): string {
  const file = join(folder, 'passwords');
  writeFileSync(file, `${credentials.username}:${credentials.password}\n`, { mode: 0o600 });
  const made = spawnSync('mosquitto_passwd', ['-U', file], { encoding: 'utf8' });
  if (made.status !== 0) throw new Error(`mosquitto_passwd failed: ${made.error?.message ?? made.stderr}`);
  return file;
}

async function launch(folder: string, port: number, refusalIsAnswer: boolean): Promise<ManagedProcess> {
  const process = await ManagedProcess.start({
    command: 'mosquitto',
    args: ['-c', join(folder, 'mosquitto.conf')],
    cwd: folder,
    log: join(folder, 'mosquitto.log'),
  });
  await process.waitUntil('mosquitto', () => answersConnect(port, refusalIsAnswer), READY_MS);
  return process;
}
