import { type Clock, systemClock } from './clock.js';
import { tcpDialer } from './tcp.js';
import { type TlsOptions, tlsDialer } from './tls.js';
import { type Dialer } from './transport.js';
import { webSocketDialer } from './websocket.js';

/** One address of a peer, already parsed and complete. */
export interface Endpoint {
  readonly scheme: 'tcp' | 'tls' | 'ws' | 'wss' | 'unix';
  /** Host name or IP address (IPv6 without brackets); empty for `unix`. */
  readonly host: string;
  /** 0 for `unix`. */
  readonly port: number;
  /** Path of the WebSocket (with query) or of the Unix socket. */
  readonly path?: string;
}

export interface DialOptions {
  /** How the endpoint is called in logs and errors; must not hold a secret. Default: scheme, host and port. */
  readonly description?: string;
  readonly tls?: TlsOptions;
  /** Milliseconds; undefined = no bound of ours. */
  readonly connectTimeout?: number;
  /** WebSocket subprotocol. Default `mqtt`. */
  readonly websocketProtocol?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly clock?: Clock;
}

/** The function that opens one connection to `endpoint` each time it is called. */
export function createDialer(endpoint: Endpoint, options: DialOptions = {}): Dialer {
  const settings = {
    description: options.description ?? describeEndpoint(endpoint),
    connectTimeout: options.connectTimeout,
    clock: options.clock ?? systemClock,
  };
  const { host, port } = endpoint;
  switch (endpoint.scheme) {
    case 'unix':
      return tcpDialer({ path: endpoint.path ?? '' }, settings);
    case 'tcp':
      return tcpDialer({ host, port }, settings);
    case 'tls':
      return tlsDialer({ host, port }, options.tls ?? {}, settings);
    case 'ws':
    case 'wss':
      return webSocketDialer(
        {
          secure: endpoint.scheme === 'wss',
          host,
          port,
          path: endpoint.path ?? '/mqtt',
          protocol: options.websocketProtocol ?? 'mqtt',
          ...(options.headers !== undefined && { headers: options.headers }),
        },
        options.tls ?? {},
        settings,
      );
  }
}

/** `scheme://host:port`, without user info, path or query. */
export function describeEndpoint(endpoint: Endpoint): string {
  if (endpoint.scheme === 'unix') return `unix:${endpoint.path ?? ''}`;
  const host = endpoint.host.includes(':') ? `[${endpoint.host}]` : endpoint.host;
  return `${endpoint.scheme}://${host}:${endpoint.port}`;
}
