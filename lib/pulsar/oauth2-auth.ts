import { OptionsError } from '../errors.js';
import { systemClock } from '../net/clock.js';
import {
  boolean,
  checkOptions,
  func,
  isFunction,
  isText,
  milliseconds,
  nonEmptyText,
  oneOf,
  type OptionSchema,
  secret,
} from '../option-checks.js';
import { type Authentication } from './auth.js';
import { OAuth2TokenEndpoint } from './oauth2-token.js';

/** Where tokens come from, and who asks for them. URLs are https://, or http:// on the own machine. */
export interface OAuth2Options {
  /**
   * The authorization server; its token endpoint is looked up at `<issuerUrl>/.well-known/openid-configuration`. Not
   * needed with `tokenUrl`, or where the key file names it.
   */
  readonly issuerUrl?: string;
  /** The token endpoint itself. */
  readonly tokenUrl?: string;
  readonly clientId?: string;
  /** As text, or from a function called for every token. */
  readonly clientSecret?: string | (() => Promise<string> | string);
  /**
   * Path of a JSON file with `client_id`, `client_secret` and perhaps `issuer_url`, as Pulsar's other clients use it, in
   * place of `clientId` and `clientSecret`. Read again for every token.
   */
  readonly keyFile?: string;
  readonly audience?: string;
  /** Scopes separated by spaces. */
  readonly scope?: string;
  /** How the client proves who it is: `post` (default, in the form) or `basic` (in the Authorization header). */
  readonly clientAuthentication?: 'post' | 'basic';
  /** Milliseconds for one request to the authorization server. Default 10,000. */
  readonly requestTimeout?: number;
  /** Allows http:// to other machines. Default false. */
  readonly allowHttp?: boolean;
  /** In place of the global `fetch`: for a proxy, or certificate authorities of your own. */
  readonly fetch?: typeof globalThis.fetch;
}

const schema: OptionSchema<OAuth2Options> = {
  issuerUrl: nonEmptyText,
  tokenUrl: nonEmptyText,
  clientId: nonEmptyText,
  clientSecret: secret('a string or a function', (value) => isText(value) || isFunction(value)),
  keyFile: nonEmptyText,
  audience: nonEmptyText,
  scope: nonEmptyText,
  clientAuthentication: oneOf('post', 'basic'),
  requestTimeout: milliseconds(1),
  allowHttp: boolean,
  fetch: func,
};

/**
 * OAuth 2.0 client credentials (RFC 6749, section 4.4): fetches tokens and gives them to the broker. Needs the package
 * `oauth4webapi`. A token is used by all connections until a tenth of its life (at most 30 s) is left; at an AUTH_CHALLENGE
 * and after a refusal a new one is fetched. What the authorization server refuses for good (`invalid_client` and the other
 * answers of RFC 6749, section 5.2) ends the producers, unless the secret comes from a function or a file; everything
 * else is tried again with backoff. Secrets and tokens never show up in an error or a log line.
 *
 * @throws OptionsError
 */
export function oauth2Auth(options: OAuth2Options): Authentication {
  checkOptions<OAuth2Options>('oauth2', options, schema);
  const { clientId, clientSecret, keyFile, issuerUrl, tokenUrl } = options;
  if (keyFile === undefined && (clientId === undefined || clientSecret === undefined)) {
    throw new OptionsError('oauth2.clientId', 'clientId and clientSecret, or keyFile', 'neither');
  }
  if (keyFile !== undefined && (clientId !== undefined || clientSecret !== undefined)) {
    throw new OptionsError('oauth2.keyFile', 'clientId and clientSecret, or keyFile', 'both');
  }
  if (issuerUrl !== undefined && tokenUrl !== undefined) {
    throw new OptionsError('oauth2.issuerUrl', 'issuerUrl or tokenUrl', 'both');
  }
  if (issuerUrl === undefined && tokenUrl === undefined && keyFile === undefined) {
    throw new OptionsError('oauth2.issuerUrl', 'issuerUrl or tokenUrl', 'neither');
  }
  const endpoint = new OAuth2TokenEndpoint({
    ...(issuerUrl !== undefined && { issuer: authorizationUrl('oauth2.issuerUrl', issuerUrl, options) }),
    ...(tokenUrl !== undefined && { tokenEndpoint: authorizationUrl('oauth2.tokenUrl', tokenUrl, options) }),
    options,
    checkUrl: (where, url) => authorizationUrl(where, url, options),
    now: () => systemClock.now(),
  });
  return { method: 'token', getAuthData: ({ fresh }) => endpoint.token(fresh) };
}

function authorizationUrl(path: string, text: string, { allowHttp = false }: OAuth2Options): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const plain = url?.protocol === 'http:' && (allowHttp || LOOPBACK.has(url.hostname));
  // A URL can hold a password by mistake: it is not repeated.
  if (url === undefined || url.username !== '' || url.password !== '') {
    throw new OptionsError(path, 'a URL without user information', 'something else');
  }
  if (url.protocol !== 'https:' && !plain) {
    throw new OptionsError(path, 'an https:// URL (http:// with allowHttp)', `'${url.protocol}//${url.host}'`);
  }
  return url;
}

const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);
