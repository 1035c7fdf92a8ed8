import { createHmac, randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Certificates, makeCertificates } from './certificates.js';
import { classDataArguments, writeClassData } from './class-data.js';
import { ManagedProcess } from './managed-process.js';
import { brokerFile, scratchFolder } from './paths.js';
import { freePort } from './ports.js';
import { PulsarAdmin } from './pulsar-admin.js';
import { type PulsarArtifacts, pulsarArtifacts } from './pulsar-artifacts.js';
import { brokerSettings, javaArguments } from './pulsar-settings.js';

export interface PulsarOptions {
  /** Configuration, data and log; a new temporary folder by default. */
  readonly folder?: string;
  readonly port?: number;
  readonly httpPort?: number;
  /** Clients are told to come to this port instead of the broker's own: where a fault proxy listens. */
  readonly advertisePort?: number;
  /** TLS beside the plain port, token and client-certificate authentication, authorization. */
  readonly secure?: boolean;
  /** Further settings of standalone.conf. */
  readonly settings?: Readonly<Record<string, string | number | boolean>>;
  /** MiB. Default 256. */
  readonly heap?: number;
}

/** What a broker started with `secure` offers beside its URL. */
export interface PulsarSecurity {
  readonly tlsUrl: string;
  readonly certificates: Certificates;
  /** `admin` may do everything, `app` produces and consumes in public/default, `stranger` may nothing, `expired` is old. */
  readonly tokens: Readonly<Record<'admin' | 'app' | 'stranger' | 'expired', string>>;
  /** Signs a token as the broker accepts it; `expiresInSeconds` from now. */
  token(role: string, expiresInSeconds?: number): string;
}

const READY_MS = 150_000;

/** A real Apache Pulsar standalone (broker, bookie and metadata in one JVM) on 127.0.0.1. */
export class Pulsar {
  readonly url: string;
  /** Past the advertised port: what an oracle uses that must not go through the fault proxy. */
  readonly directUrl: string;

  private constructor(
    readonly port: number,
    readonly folder: string,
    readonly admin: PulsarAdmin,
    readonly security: PulsarSecurity | undefined,
    private readonly startArguments: readonly string[],
    private readonly artifacts: PulsarArtifacts,
    advertisePort: number | undefined,
  ) {
    this.directUrl = `pulsar://127.0.0.1:${port}`;
    this.url = `pulsar://127.0.0.1:${advertisePort ?? port}`;
  }

  // valid for one run of the JVM
  private process!: ManagedProcess;

  static async start(options: PulsarOptions = {}): Promise<Pulsar> {
    const artifacts = await pulsarArtifacts();
    const folder = options.folder ?? scratchFolder('pulsar');
    const port = options.port ?? (await freePort());
    const httpPort = options.httpPort ?? (await freePort());
    const bookiePort = await freePort();
    const adminUrl = `http://127.0.0.1:${httpPort}`;
    const secured = options.secure === true ? await security(folder) : undefined;
    rmSync(join(folder, 'data'), { recursive: true, force: true });
    mkdirSync(join(folder, 'data'), { recursive: true });
    const settings = {
      ...brokerSettings({ port, httpPort, advertisePort: options.advertisePort }),
      ...secured?.settings,
      ...options.settings,
    };
    const file = join(folder, 'standalone.conf');
    writeFileSync(
      file,
      Object.entries(settings)
        .map(([key, value]) => `${key}=${value}\n`)
        .join(''),
      { mode: 0o600 },
    );
    const broker = new Pulsar(
      port,
      folder,
      new PulsarAdmin(adminUrl, secured?.security.tokens.admin),
      secured?.security,
      [
        ...javaArguments(artifacts.classPath, brokerFile('log4j2.xml'), options.heap ?? 256),
        ...['org.apache.pulsar.PulsarStandaloneStarter', '--config', file, '-nfw', '-nss'],
        ...['--metadata-dir', join(folder, 'data', 'metadata')],
        // A random bookie port is a new bookie to the metadata, and every older ledger unreadable after a restart.
        ...['--bookkeeper-dir', join(folder, 'data', 'bookie'), '--bookkeeper-port', String(bookiePort)],
      ],
      artifacts,
      options.advertisePort,
    );
    await broker.launch();
    if (secured !== undefined) {
      const permissions = '/admin/v2/namespaces/public/default/permissions/app';
      await broker.admin.call('POST', permissions, ['produce', 'consume']);
    }
    return broker;
  }

  get pid(): number {
    return this.process.pid;
  }

  get log(): string {
    return readFileSync(join(this.folder, 'pulsar.log'), 'utf8');
  }

  async stop(): Promise<void> {
    await this.process.stop();
  }

  async kill(): Promise<void> {
    await this.process.kill();
  }

  /** Starts it again after `stop` or `kill`, on the same ports and with its data; resolves when it serves. */
  async launch(): Promise<void> {
    this.process = await ManagedProcess.start({
      command: 'java',
      args: [...classDataArguments(this.artifacts.archive), ...this.startArguments],
      cwd: this.folder,
      log: join(this.folder, 'pulsar.log'),
    });
    await this.process.waitUntil('Pulsar', () => this.serves(), READY_MS);
    writeClassData(this.process.pid, this.artifacts.archive);
  }

  async restart(downMs = 0): Promise<void> {
    await this.stop();
    if (downMs > 0) await new Promise((resolve) => setTimeout(resolve, downMs));
    await this.launch();
  }

  /** SIGSTOP: connections stay open, nothing answers. */
  pause(): void {
    this.process.pause();
  }

  resume(): void {
    this.process.resume();
  }

  /** The admin port answers long before topics can be used: the namespace and a lookup in it tell. */
  private async serves(): Promise<boolean> {
    const namespaces = await this.admin.send('GET', '/admin/v2/namespaces/public', undefined, 3_000);
    if (namespaces.status !== 200 || !namespaces.text.includes('"public/default"')) return false;
    const probe = '/lookup/v2/topic/persistent/public/default/readiness';
    return (await this.admin.send('GET', probe, undefined, 3_000)).status === 200;
  }
}

async function security(
  folder: string,
): Promise<{ readonly security: PulsarSecurity; readonly settings: Record<string, string | number | boolean> }> {
  const certificates = makeCertificates(join(folder, 'tls'), 'admin');
  const secret = randomBytes(32);
  const secretFile = join(folder, 'token.secret');
  writeFileSync(secretFile, secret, { mode: 0o600 });
  const token = (role: string, expiresInSeconds?: number): string => {
    const claims = expiresInSeconds === undefined ? {} : { exp: Math.floor(Date.now() / 1000) + expiresInSeconds };
    const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
    const signed = `${part({ alg: 'HS256' })}.${part({ sub: role, ...claims })}`;
    return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`;
  };
  const tlsPort = await freePort();
  const providers = 'org.apache.pulsar.broker.authentication.AuthenticationProvider';
  return {
    security: {
      tlsUrl: `pulsar+ssl://localhost:${tlsPort}`,
      certificates,
      tokens: { admin: token('admin'), app: token('app'), stranger: token('stranger'), expired: token('app', -60) },
      token,
    },
    settings: {
      brokerServicePortTls: tlsPort,
      tlsCertificateFilePath: certificates.server.certificate,
      tlsKeyFilePath: certificates.server.key,
      tlsTrustCertsFilePath: certificates.ca,
      tlsRequireTrustedClientCertOnConnect: false,
      tlsAllowInsecureConnection: false,
      authenticationEnabled: true,
      authorizationEnabled: true,
      superUserRoles: 'admin',
      authenticationProviders: `${providers}Token,${providers}Tls`,
      authenticationRefreshCheckSeconds: 3,
      tokenSecretKey: `file://${secretFile}`,
      brokerClientAuthenticationPlugin: 'org.apache.pulsar.client.impl.auth.AuthenticationToken',
      brokerClientAuthenticationParameters: `token:${token('admin')}`,
    },
  };
}
