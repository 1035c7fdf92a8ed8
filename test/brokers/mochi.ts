import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { type Certificates } from './certificates.js';
import { ManagedProcess } from './managed-process.js';
import { answersConnect } from './mqtt-ready.js';
import { brokerFile, brokersCache, scratchFolder } from './paths.js';
import { freePort, isListening } from './ports.js';

export interface MochiOptions {
  readonly port?: number;
  /** Answers as mochi does by itself: user properties of a PUBLISH come back, with reason codes that MQTT 5 has not. */
  readonly inheritProperties?: boolean;
  /** Adds a TLS and a wss listener with this server certificate; `clientCertificate` makes both demand one. */
  readonly tls?: Certificates & { readonly clientCertificate?: boolean; readonly wrongHostName?: boolean };
}

const READY_MS = 15_000;

/** mochi-mqtt, an MQTT 5 broker in Go, on 127.0.0.1: TCP, WebSocket and a Unix socket. It keeps nothing over a restart. */
export class Mochi {
  readonly url: string;
  readonly websocketUrl: string;
  readonly unixUrl: string;
  readonly tlsUrl: string | undefined;
  readonly wssUrl: string | undefined;

  private constructor(
    readonly port: number,
    private readonly folder: string,
    ports: { readonly ws: number; readonly tls: number | undefined; readonly wss: number | undefined },
    private readonly args: readonly string[],
    private process: ManagedProcess,
  ) {
    this.url = `mqtt://127.0.0.1:${port}`;
    this.websocketUrl = `ws://127.0.0.1:${ports.ws}/mqtt`;
    this.unixUrl = `unix://${join(folder, 'mqtt.sock')}`;
    this.tlsUrl = ports.tls === undefined ? undefined : `mqtts://localhost:${ports.tls}`;
    this.wssUrl = ports.wss === undefined ? undefined : `wss://localhost:${ports.wss}/mqtt`;
  }

  static async start(options: MochiOptions = {}): Promise<Mochi> {
    const folder = scratchFolder('mochi');
    const { tls } = options;
    const port = options.port ?? (await freePort());
    const ports = {
      ws: await freePort(),
      tls: tls === undefined ? undefined : await freePort(),
      wss: tls === undefined ? undefined : await freePort(),
    };
    const args = ['-tcp', `127.0.0.1:${port}`, '-ws', `127.0.0.1:${ports.ws}`, '-unix', join(folder, 'mqtt.sock')];
    if (options.inheritProperties === true) args.push('-inherit');
    if (tls !== undefined) {
      const { certificate, key } = tls.wrongHostName === true ? tls.wrongHost : tls.server;
      args.push('-tls', `127.0.0.1:${ports.tls}`, '-wss', `127.0.0.1:${ports.wss}`, '-cert', certificate, '-key', key);
      if (tls.clientCertificate === true) args.push('-client-ca', tls.ca);
    }
    const listening = [ports.ws, ports.tls, ports.wss].filter((number) => number !== undefined);
    return new Mochi(port, folder, ports, args, await launch(folder, args, port, listening));
  }

  get pid(): number {
    return this.process.pid;
  }

  async stop(): Promise<void> {
    await this.process.stop();
  }

  async kill(): Promise<void> {
    await this.process.kill();
  }

  /** On the same ports, without any session. */
  async restart(): Promise<void> {
    await this.stop();
    this.process = await launch(this.folder, this.args, this.port, []);
  }

  pause(): void {
    this.process.pause();
  }

  resume(): void {
    this.process.resume();
  }
}

/**
 * The broker's program: from the cache, or built from `test/brokers/mochi` with Go (its modules come from the Go module
 * proxy, about 3 MB, once).
 *
 * @throws Error that says what is missing
 */
export function mochiProgram(): string {
  const source = brokerFile('mochi');
  const hash = createHash('sha256');
  for (const file of ['go.mod', 'go.sum', 'main.go']) hash.update(readFileSync(join(source, file)));
  const folder = join(brokersCache(), `mochi-${hash.digest('hex').slice(0, 12)}`);
  const program = join(folder, 'mochi');
  if (existsSync(program)) return program;
  mkdirSync(folder, { recursive: true });
  const partial = `${program}.${process.pid}`;
  const build = ['build', '-mod=readonly', '-buildvcs=false', '-trimpath', '-o', partial, '.'];
  const made = spawnSync('go', build, { cwd: source, encoding: 'utf8', env: { ...process.env, CGO_ENABLED: '0' } });
  if (made.error !== undefined) throw new Error(`Go 1.21 or newer is not installed: ${made.error.message}`);
  if (made.status !== 0) throw new Error(`go build of mochi failed (Go 1.21 or newer is needed): ${made.stderr}`);
  renameSync(partial, program);
  return program;
}

async function launch(
  folder: string,
  args: readonly string[],
  port: number,
  others: readonly number[],
): Promise<ManagedProcess> {
  const process = await ManagedProcess.start({
    command: mochiProgram(),
    args,
    cwd: folder,
    log: join(folder, 'mochi.log'),
  });
  const ready = async (): Promise<boolean> =>
    (await answersConnect(port, false)) && (await Promise.all(others.map(isListening))).every((yes) => yes);
  await process.waitUntil('mochi', ready, READY_MS);
  return process;
}
