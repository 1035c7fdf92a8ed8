import { readFile } from 'node:fs/promises';
import { AuthenticationError, isTransportError } from '../errors.js';

/**
 * Who we are, asked for on every connection and at every AUTH_CHALLENGE. `method` is Pulsar's name of the method
 * (`token`, `tls`, `basic`, or that of a broker plugin).
 */
export interface Authentication {
  readonly method: string;
  /** The data for CONNECT and AUTH_RESPONSE. A rejection counts as a failed try and is retried with backoff. */
  getAuthData(): Promise<string | Uint8Array> | string | Uint8Array;
}

/** A JSON web token: as text, from a function called each time, or from a file read each time. */
export type TokenSource = string | (() => Promise<string> | string) | { readonly file: string };

/** Token authentication. The token never shows up in an error or a log line. */
export function tokenAuth(source: TokenSource): Authentication {
  return {
    method: 'token',
    getAuthData: async () => {
      const token = await readToken(source);
      if (typeof token !== 'string' || token.trim() === '') {
        throw new AuthenticationError('tokenAuth: the token is empty', { retriable: true });
      }
      return token.trim();
    },
  };
}

/** The client certificate of `tls.cert` and `tls.key` is who we are. */
export function tlsAuth(): Authentication {
  return { method: 'tls', getAuthData: () => '' };
}

/** User name and password, for the broker's AuthenticationProviderBasic. */
export function basicAuth(user: string, password: string): Authentication {
  return { method: 'basic', getAuthData: () => `${user}:${password}` };
}

/** The data, with any failure of the source turned into an AuthenticationError that can be retried. */
export async function authData(auth: Authentication): Promise<Buffer> {
  try {
    const data = await auth.getAuthData();
    return typeof data === 'string' ? Buffer.from(data, 'utf8') : Buffer.from(data);
  } catch (cause) {
    if (isTransportError(cause)) throw cause;
    throw new AuthenticationError(`The '${auth.method}' authentication gave no data`, { cause, retriable: true });
  }
}

async function readToken(source: TokenSource): Promise<string> {
  if (typeof source === 'string') return source;
  if (typeof source === 'function') return source();
  return readFile(source.file, 'utf8');
}
