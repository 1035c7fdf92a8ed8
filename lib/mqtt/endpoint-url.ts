import { OptionsError } from '../errors.js';
import { nearestName } from '../option-checks.js';
import { type Endpoint } from '../net/dial.js';
import { type ResolvedEndpoint } from './option-types.js';

const SCHEMES = {
  'mqtt:': ['tcp', 1883],
  'tcp:': ['tcp', 1883],
  'mqtts:': ['tls', 8883],
  'ssl:': ['tls', 8883],
  'tls:': ['tls', 8883],
  'ws:': ['ws', 80],
  'wss:': ['wss', 443],
  'unix:': ['unix', 0],
} as const satisfies Record<string, readonly [Endpoint['scheme'], number]>;

/** One broker URL. Errors show it without user info. */
export function parseMqttUrl(url: string, path: string): ResolvedEndpoint {
  if (!url.includes('://') && !url.startsWith('unix:')) {
    // It can hold a password all the same.
    const shown = url.includes('@') ? 'something with user information' : `'${url}'`;
    throw new OptionsError(path, 'a URL such as mqtt://host:1883 (put mqtt:// before it)', shown);
  }
  const [, authority = ''] = /:\/\/([^/?#]*)/.exec(url) ?? [];
  // A comma can stand in a password.
  if (authority.slice(authority.lastIndexOf('@') + 1).includes(',')) {
    throw new OptionsError(
      path,
      "one URL; several are an array: ['mqtt://a:1883', 'mqtt://b:1883']",
      'a list in one text',
    );
  }
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    throw new OptionsError(path, 'a URL such as mqtt://host:1883', `'${withoutUserInfo(url)}'`);
  }
  if (!Object.hasOwn(SCHEMES, parsed.protocol)) {
    const known = Object.keys(SCHEMES).map((scheme) => scheme.slice(0, -1));
    const name = parsed.protocol.slice(0, -1);
    throw new OptionsError(path, `a URL with one of ${known.join(', ')}`, `'${name}'`, nearestName(name, known));
  }
  const [scheme, defaultPort] = SCHEMES[parsed.protocol as keyof typeof SCHEMES];
  const credentials = {
    username: parsed.username === '' ? undefined : decode(parsed.username, path),
    password: parsed.password === '' ? undefined : Buffer.from(decode(parsed.password, path)),
  };
  if (scheme === 'unix') {
    const socketPath = decode(parsed.pathname, path);
    if (socketPath === '' || socketPath === '/') throw new OptionsError(path, 'unix:///path/to/socket', `'${url}'`);
    return { endpoint: { scheme, host: '', port: 0, path: socketPath }, ...credentials };
  }
  if (parsed.hostname === '') throw new OptionsError(path, 'a URL with a host', `'${withoutUserInfo(url)}'`);
  const host = parsed.hostname.replace(/^\[(.*)\]$/, '$1');
  const port = parsed.port === '' ? defaultPort : Number(parsed.port);
  const isWebSocket = scheme === 'ws' || scheme === 'wss';
  if (!isWebSocket && parsed.pathname !== '' && parsed.pathname !== '/') {
    throw new OptionsError(path, `no path in a ${parsed.protocol}// URL`, `'${parsed.pathname}'`);
  }
  const webSocketPath = parsed.pathname === '' || parsed.pathname === '/' ? '/mqtt' : parsed.pathname;
  return {
    endpoint: { scheme, host, port, ...(isWebSocket && { path: webSocketPath + parsed.search }) },
    ...credentials,
  };
}

function decode(part: string, path: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw new OptionsError(path, 'valid percent-encoding in user name, password and path', 'an invalid one');
  }
}

function withoutUserInfo(url: string): string {
  return url.replace(/\/\/[^@/]*@/, '//***@');
}
