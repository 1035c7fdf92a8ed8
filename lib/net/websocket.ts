import { WebSocket } from 'ws';
import { ConnectionError } from '../errors.js';
import { type Clock } from './clock.js';
import { errorText } from './socket-transport.js';
import { type TlsOptions, tlsConnectionOptions, tlsError } from './tls.js';
import { type Dialer } from './transport.js';

export interface WebSocketTarget {
  readonly secure: boolean;
  readonly host: string;
  readonly port: number;
  /** Path and query, default `/mqtt`. */
  readonly path: string;
  /** Subprotocol, for MQTT `mqtt` [MQTT5 6.0.0-3]. */
  readonly protocol: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A byte stream in binary WebSocket frames; a text frame closes the connection [MQTT5 6.0.0-1]. */
export function webSocketDialer(
  target: WebSocketTarget,
  tls: TlsOptions,
  options: { readonly description: string; readonly connectTimeout: number | undefined; readonly clock: Clock },
): Dialer {
  const { description, clock } = options;
  return (handlers) => {
    const host = target.host.includes(':') ? `[${target.host}]` : target.host;
    const socket = new WebSocket(
      `${target.secure ? 'wss' : 'ws'}://${host}:${target.port}${target.path}`,
      target.protocol,
      {
        headers: { ...target.headers },
        perMessageDeflate: false,
        ...(target.secure && tlsConnectionOptions(target.host, tls)),
      },
    );
    let failure: Error | undefined;
    const fail = (error: Error): void => {
      failure ??= error;
      socket.terminate();
    };
    const timer =
      options.connectTimeout === undefined
        ? undefined
        : clock.setTimer(
            () => fail(new ConnectionError(`${description}: no connection within ${options.connectTimeout} ms`)),
            options.connectTimeout,
          );
    socket.on('open', () => {
      clock.clearTimer(timer);
      if (socket.protocol === target.protocol) handlers.onOpen();
      else fail(new ConnectionError(`${description}: the server did not accept the subprotocol '${target.protocol}'`));
    });
    socket.on('message', (data, isBinary) => {
      if (!isBinary) fail(new ConnectionError(`${description}: the server sent a text frame`));
      else if (Array.isArray(data)) for (const part of data) handlers.onData(part);
      else handlers.onData(Buffer.isBuffer(data) ? data : Buffer.from(data));
    });
    socket.on('error', (error) => {
      failure ??= target.secure
        ? tlsError(error, description, tls.servername ?? target.host, tls.ca !== undefined)
        : new ConnectionError(`${description}: ${errorText(error)}`, { cause: error });
    });
    socket.on('close', () => {
      clock.clearTimer(timer);
      handlers.onClose(failure);
    });
    let congested = false;
    return {
      description,
      get bufferedBytes() {
        return socket.bufferedAmount;
      },
      write(chunk) {
        socket.send(chunk, { binary: true }, () => {
          if (congested && socket.bufferedAmount < HIGH_WATER) {
            congested = false;
            handlers.onDrain();
          }
        });
        congested ||= socket.bufferedAmount >= HIGH_WATER;
        return !congested;
      },
      pause: () => socket.pause(),
      resume: () => socket.resume(),
      end: () => {
        socket.close(1000);
        // A peer that does not answer the closing handshake must not keep us.
        clock.setTimer(() => socket.terminate(), CLOSE_HANDSHAKE_MS, false);
      },
      destroy: (error) => {
        failure ??= error;
        socket.terminate();
      },
    };
  };
}

const HIGH_WATER = 64 * 1024;
const CLOSE_HANDSHAKE_MS = 1000;
