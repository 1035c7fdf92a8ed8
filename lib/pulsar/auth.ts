import { readFile } from 'node:fs/promises';
import { AuthenticationError } from '../errors.js';

export interface AuthRequest {
  /**
   * The broker refused what was given last, or asks for it again because it runs out (AUTH_CHALLENGE): an answer out of a
   * cache would be the same as before.
   */
  readonly fresh: boolean;
}

/**
 * Who we are, asked for on every connection and at every AUTH_CHALLENGE. `method` is Pulsar's name of the method
 * (`token`, `tls`, `basic`, or that of a broker plugin).
 */
export interface Authentication {
  readonly method: string;
  /**
   * False: `getAuthData` gives the same data for ever, so a refusal by the broker is final. Default true: a refused try is
   * repeated with backoff, each time with what `getAuthData` gives then.
   */
  readonly renewable?: boolean;
  /**
   * The data for CONNECT and AUTH_RESPONSE. A rejection counts as a failed try, and is repeated with backoff unless it is
   * an error of this package that is not `retriable`.
   */
  getAuthData(request: AuthRequest): Promise<string | Uint8Array> | string | Uint8Array;
}

/** A secret that may change: as text, from a function called each time, or from a file read each time. */
export type TokenSource = string | (() => Promise<string> | string) | { readonly file: string };

/**
 * Token authentication (JSON web tokens and the like). The token never shows up in an error or a log line. A token given
 * as text that the broker refuses ends the producers at once; with a function or a file the next try may have a better one.
 */
export function tokenAuth(source: TokenSource): Authentication {
  return {
    method: 'token',
    renewable: typeof source !== 'string',
    getAuthData: () => readSecret('tokenAuth', 'token', source),
  };
}

/** The client certificate of `tls.cert` and `tls.key` is who we are. */
export function tlsAuth(): Authentication {
  return { method: 'tls', renewable: false, getAuthData: () => '' };
}

/**
 * User name and password, for the broker's AuthenticationProviderBasic. A password given as text that the broker refuses
 * ends the producers at once.
 */
export function basicAuth(user: string, password: TokenSource): Authentication {
  return {
    method: 'basic',
    renewable: typeof password !== 'string',
    getAuthData: async () => `${user}:${await readSecret('basicAuth', 'password', password)}`,
  };
}

/** Errors of a function are passed on as the `cause`: what it says is the function's own affair. */
async function readSecret(who: string, what: string, source: TokenSource): Promise<string> {
  const secret = await read(who, what, source);
  if (typeof secret !== 'string' || secret.trim() === '') {
    const where = typeof source === 'object' ? ` in '${source.file}'` : '';
    throw new AuthenticationError(`${who}: the ${what}${where} is empty`, { retriable: typeof source !== 'string' });
  }
  return secret.trim();
}

async function read(who: string, what: string, source: TokenSource): Promise<string> {
  if (typeof source === 'string') return source;
  if (typeof source === 'function') return source();
  try {
    return await readFile(source.file, 'utf8');
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw new AuthenticationError(`${who}: the ${what} file '${source.file}' cannot be read: ${code}`, {
      cause,
      retriable: true,
    });
  }
}
