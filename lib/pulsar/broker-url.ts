import { OptionsError, RemoteProtocolError } from '../errors.js';
import { type Endpoint } from '../net/dial.js';

const SCHEMES = { pulsar: 'tcp', 'pulsar+ssl': 'tls' } as const;
const DEFAULT_PORTS = { pulsar: 6650, 'pulsar+ssl': 6651 } as const;

/** The service addresses of an option: one URL with one or more hosts, or several URLs. @throws OptionsError */
export function parseServiceUrls(path: string, urls: string | readonly string[]): Endpoint[] {
  const endpoints = (typeof urls === 'string' ? [urls] : urls).flatMap((url) => parseUrl(url) ?? invalid(path, url));
  if (endpoints.some((endpoint) => endpoint.scheme !== endpoints[0].scheme)) {
    throw new OptionsError(path, 'URLs that are all pulsar:// or all pulsar+ssl://', 'both');
  }
  return endpoints;
}

/** One address that a broker named. @throws RemoteProtocolError */
export function parseBrokerUrl(url: string): Endpoint {
  const endpoints = parseUrl(url);
  if (endpoints?.length !== 1) throw new RemoteProtocolError(`The broker named an address that is no URL: '${url}'`);
  return endpoints[0];
}

export function brokerUrl(endpoint: Endpoint): string {
  return `${endpoint.scheme === 'tls' ? 'pulsar+ssl' : 'pulsar'}://${hostAndPort(endpoint)}`;
}

export function hostAndPort({ host, port }: Endpoint): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

function parseUrl(url: string): Endpoint[] | undefined {
  const match = /^(pulsar|pulsar\+ssl):\/\/([^/?#@]+)\/?$/.exec(url);
  if (match === null) return undefined;
  const scheme = match[1] as keyof typeof SCHEMES;
  const endpoints: Endpoint[] = [];
  for (const part of match[2].split(',')) {
    const address = /^(?:\[([^\]]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/.exec(part.trim());
    const port = address?.[3] === undefined ? DEFAULT_PORTS[scheme] : Number(address[3]);
    if (address === null || port < 1 || port > 65_535) return undefined;
    endpoints.push({ scheme: SCHEMES[scheme], host: address[1] ?? address[2], port });
  }
  return endpoints;
}

function invalid(path: string, url: string): never {
  // A URL can hold a password by mistake: it is not repeated.
  const shown = url.includes('@') ? 'a URL with user information' : `'${url}'`;
  const several = /,[^,]*:\/\//.test(url) ? '; several URLs are an array' : '';
  const expected = `pulsar://host:port or pulsar+ssl://host:port (hosts separated by commas${several})`;
  throw new OptionsError(path, expected, shown);
}
