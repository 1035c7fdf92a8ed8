import { type ResolvedEndpoint, type ResolvedMqttClientOptions } from './option-types.js';

/**
 * The first server of a Server Reference [MQTT5 4.11] that the option `serverReferences` allows; credentials of the URL
 * are not taken along.
 */
export function allowedReference(
  told: { readonly serverReference: string | undefined },
  options: Pick<ResolvedMqttClientOptions, 'serverReferences' | 'endpoints'>,
): ResolvedEndpoint | undefined {
  if (told.serverReference === undefined || options.serverReferences.length === 0) return undefined;
  const { scheme, port: defaultPort, path } = options.endpoints[0].endpoint;
  if (scheme === 'unix') return undefined;
  for (const reference of told.serverReference.split(/\s+/)) {
    const server = parseReference(reference);
    if (server === undefined) continue;
    const port = server.port ?? defaultPort;
    const bracketed = server.host.includes(':') ? `[${server.host}]` : server.host;
    const names = [server.host, bracketed, `${bracketed}:${port}`];
    if (!options.serverReferences.some((allowed) => names.includes(allowed))) continue;
    return {
      endpoint: { scheme, host: server.host, port, ...(path !== undefined && { path }) },
      username: undefined,
      password: undefined,
    };
  }
  return undefined;
}

/** `host`, `host:port`, `[v6]`, `[v6]:port`. */
function parseReference(text: string): { readonly host: string; readonly port: number | undefined } | undefined {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:\s[\]]+))(?::(\d{1,5}))?$/.exec(text);
  if (match === null) return undefined;
  const port = match[3] === undefined ? undefined : Number(match[3]);
  if (port !== undefined && (port === 0 || port > 65_535)) return undefined;
  return { host: match[1] ?? match[2], port };
}
