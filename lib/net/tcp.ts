import { connect } from 'node:net';
import { type Clock } from './clock.js';
import { socketTransport } from './socket-transport.js';
import { type Dialer } from './transport.js';

/** TCP (`host`, `port`) or a Unix domain socket (`path`). */
export type TcpTarget = { readonly host: string; readonly port: number } | { readonly path: string };

export function tcpDialer(
  target: TcpTarget,
  options: { readonly description: string; readonly connectTimeout: number | undefined; readonly clock: Clock },
): Dialer {
  return (handlers) => {
    const socket =
      'path' in target ? connect({ path: target.path }) : connect({ host: target.host, port: target.port });
    return socketTransport(socket, handlers, { ...options, openEvent: 'connect' });
  };
}
