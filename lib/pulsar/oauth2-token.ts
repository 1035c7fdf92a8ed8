import { readFile } from 'node:fs/promises';
import { AuthenticationError, isTransportError } from '../errors.js';
import { type OAuth2Options } from './oauth2-auth.js';
import { loadFirst } from './optional-module.js';

type Library = typeof import('oauth4webapi');
type AuthorizationServer = import('oauth4webapi').AuthorizationServer;

export interface OAuth2TokenSettings {
  readonly issuer?: URL;
  readonly tokenEndpoint?: URL;
  readonly options: OAuth2Options;
  /** Of the key file or the server's metadata. @throws OptionsError */
  readonly checkUrl: (where: string, url: string) => URL;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

interface Client {
  readonly id: string;
  readonly secret: string;
  readonly issuer: URL | undefined;
}

/** Fetches tokens, one request at a time, and keeps the last one while it is good. */
export class OAuth2TokenEndpoint {
  private library: Library | undefined = undefined;
  private server: AuthorizationServer | undefined = undefined;
  private current: { readonly token: string; readonly renewAt: number } | undefined = undefined;
  private fetching: Promise<string> | undefined = undefined;

  constructor(private readonly settings: OAuth2TokenSettings) {}

  /** @param fresh not the one that is kept */
  token(fresh: boolean): Promise<string> {
    if (fresh) this.current = undefined;
    if (this.current !== undefined && this.settings.now() < this.current.renewAt) {
      return Promise.resolve(this.current.token);
    }
    this.fetching ??= this.fetch().finally(() => (this.fetching = undefined));
    return this.fetching;
  }

  private async fetch(): Promise<string> {
    this.library ??= await loadFirst('OAuth2 authentication', [
      { name: 'oauth4webapi', use: (exports) => exports as unknown as Library },
    ]);
    const client = await this.client();
    try {
      this.server ??= await this.discover(this.library, client);
      return await this.request(this.library, this.server, client);
    } catch (error) {
      throw this.failure(this.library, client, error);
    }
  }

  private async client(): Promise<Client> {
    const { clientId, clientSecret, keyFile } = this.settings.options;
    if (keyFile !== undefined) return this.readKeyFile(keyFile);
    const secret = typeof clientSecret === 'function' ? await clientSecret() : clientSecret;
    if (typeof secret !== 'string' || secret === '') {
      throw new AuthenticationError('oauth2Auth: the client secret is empty', { retriable: this.renewableSecret });
    }
    return { id: clientId ?? '', secret, issuer: this.settings.issuer };
  }

  /** The cause of a failure is left out: a JSON parser quotes what it could not read. */
  private async readKeyFile(file: string): Promise<Client> {
    const refuse = (why: string): AuthenticationError =>
      new AuthenticationError(`oauth2Auth: the key file '${file}' ${why}`, { retriable: true });
    const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
      throw refuse(`cannot be read: ${error.code}`);
    });
    let key: Record<string, unknown>;
    try {
      key = JSON.parse(text) as Record<string, unknown>;
    } catch {
      throw refuse('is no JSON');
    }
    const { client_id: id, client_secret: secret, issuer_url: issuer } = key ?? {};
    if (typeof id !== 'string' || typeof secret !== 'string') throw refuse("has no 'client_id' and 'client_secret'");
    const { tokenEndpoint, checkUrl } = this.settings;
    const named = typeof issuer === 'string' ? checkUrl(`oauth2.keyFile: issuer_url`, issuer) : undefined;
    const used = this.settings.issuer ?? named;
    if (used === undefined && tokenEndpoint === undefined) throw refuse("has no 'issuer_url', and no option names it");
    return { id, secret, issuer: used };
  }

  private async discover(library: Library, { issuer }: Client): Promise<AuthorizationServer> {
    const { tokenEndpoint, checkUrl } = this.settings;
    if (tokenEndpoint !== undefined) return { issuer: tokenEndpoint.origin, token_endpoint: tokenEndpoint.href };
    if (issuer === undefined) throw new TypeError('no issuer');
    const response = await library.discoveryRequest(issuer, this.requestOptions(library));
    const server = await library.processDiscoveryResponse(issuer, response);
    checkUrl(`the token_endpoint of '${issuer.href}'`, server.token_endpoint ?? '');
    return server;
  }

  private async request(library: Library, server: AuthorizationServer, client: Client): Promise<string> {
    const { audience, scope, clientAuthentication } = this.settings.options;
    const proof = clientAuthentication === 'basic' ? library.ClientSecretBasic : library.ClientSecretPost;
    const response = await library.clientCredentialsGrantRequest(
      server,
      { client_id: client.id },
      proof(client.secret),
      { ...(audience !== undefined && { audience }), ...(scope !== undefined && { scope }) },
      this.requestOptions(library),
    );
    const answer = await library.processClientCredentialsResponse(server, { client_id: client.id }, response);
    const { access_token: token, expires_in: seconds } = answer;
    const life = seconds === undefined ? Infinity : seconds * 1000;
    // A token that runs out on its way to the broker would be refused.
    const margin = Math.min(life / 10, MARGIN);
    this.current = { token, renewAt: this.settings.now() + life - margin };
    return token;
  }

  private requestOptions(library: Library): {
    readonly signal: AbortSignal;
    readonly [key: symbol]: unknown;
  } {
    const { requestTimeout = 10_000, fetch } = this.settings.options;
    return {
      signal: AbortSignal.timeout(requestTimeout),
      // The URLs were checked; the library knows no loopback.
      [library.allowInsecureRequests]: true,
      ...(fetch !== undefined && { [library.customFetch]: fetch }),
    };
  }

  private get renewableSecret(): boolean {
    const { clientSecret, keyFile } = this.settings.options;
    return keyFile !== undefined || typeof clientSecret === 'function';
  }

  /** The library's errors carry the response; only what is known to be harmless is taken from them. */
  private failure(library: Library, client: Client, error: unknown): Error {
    if (isTransportError(error)) return error;
    const { origin, pathname } = this.settings.tokenEndpoint ?? client.issuer ?? new URL('about:blank');
    const where = `oauth2Auth: ${origin}${pathname}`;
    if (error instanceof library.ResponseBodyError) {
      const detail = error.error_description === undefined ? '' : `: ${error.error_description}`;
      const text = `${where} answered ${error.error} (HTTP ${error.status})${detail}`;
      const final = FINAL_ANSWERS.has(error.error) && !this.renewableSecret;
      return new AuthenticationError(text.replaceAll(client.secret, '***'), { retriable: !final });
    }
    return new AuthenticationError(`${where}: ${this.reason(error).replaceAll(client.secret, '***')}`, {
      retriable: true,
    });
  }

  private reason(error: unknown): string {
    const { name, message, cause } = error as Partial<Error>;
    if (name === 'TimeoutError') return `no answer within ${this.settings.options.requestTimeout ?? 10_000} ms`;
    const { code, status } = (cause ?? {}) as { readonly code?: unknown; readonly status?: unknown };
    if (typeof code === 'string') return `no answer: ${code}`;
    return `${message ?? 'no answer'}${typeof status === 'number' ? ` (HTTP ${status})` : ''}`;
  }
}

/** RFC 6749, section 5.2: answers that the same request gets again. */
const FINAL_ANSWERS = new Set([
  'invalid_client',
  'invalid_grant',
  'invalid_request',
  'invalid_scope',
  'unauthorized_client',
  'unsupported_grant_type',
  // Of Auth0 and others, for a wrong audience.
  'access_denied',
]);

/** Milliseconds before its end that a token is replaced, unless it lives shorter than ten times this. */
const MARGIN = 30_000;
