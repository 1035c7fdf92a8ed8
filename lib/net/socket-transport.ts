/** A `net.Socket` (TCP, Unix, TLS, or one the user brings) as a {@link Transport}. */
import { type Socket } from 'node:net';
import { ConnectionError, type TransportError } from '../errors.js';
import { type Clock, type TimerHandle } from './clock.js';
import { type Transport, type TransportHandlers } from './transport.js';

export interface SocketTransportOptions {
  readonly description: string;
  /** The event that means "usable": `connect` for TCP and Unix sockets, `secureConnect` for TLS. */
  readonly openEvent: 'connect' | 'secureConnect';
  /** Milliseconds until an unopened connection is given up; undefined = never. */
  readonly connectTimeout: number | undefined;
  readonly clock: Clock;
  /** Turns a socket error into ours; the default names the peer and the system's error code. */
  readonly mapError?: (error: Error) => TransportError;
}

/** Wires the socket to the handlers; the socket must be connecting and have no listeners of ours yet. */
export function socketTransport(
  socket: Socket,
  handlers: TransportHandlers,
  options: SocketTransportOptions,
): Transport {
  const { description, clock } = options;
  let failure: Error | undefined;
  let timer: TimerHandle | undefined;
  const opened = (): void => {
    clock.clearTimer(timer);
    handlers.onOpen();
  };
  if (options.connectTimeout !== undefined) {
    const timeoutMs = options.connectTimeout;
    timer = clock.setTimer(() => {
      socket.destroy(new ConnectionError(`${description}: no connection within ${timeoutMs} ms`));
    }, timeoutMs);
  }
  socket.setNoDelay?.(true);
  socket.once(options.openEvent, opened);
  socket.on('data', (chunk: Buffer) => handlers.onData(chunk));
  socket.on('drain', () => handlers.onDrain());
  socket.on('error', (error) => {
    failure = error;
  });
  socket.once('close', () => {
    clock.clearTimer(timer);
    handlers.onClose(failure === undefined ? undefined : toTransportError(failure, options));
  });
  return {
    description,
    get bufferedBytes() {
      return socket.writableLength;
    },
    write: (chunk) => socket.write(chunk),
    pause: () => void socket.pause(),
    resume: () => void socket.resume(),
    end: () => {
      // A peer that never closes its side must not keep ours: the readable side is ended with the writable one.
      socket.end(() => socket.destroy());
    },
    destroy: (error) => void socket.destroy(error),
  };
}

function toTransportError(error: Error, options: SocketTransportOptions): Error {
  if (error instanceof ConnectionError) return error;
  if (options.mapError !== undefined) return options.mapError(error);
  return new ConnectionError(`${options.description}: ${errorText(error)}`, { cause: error });
}

/** The system's code where there is one (`ECONNREFUSED`), else the message. An AggregateError has its parts' codes. */
export function errorText(error: Error): string {
  if (error instanceof AggregateError) {
    return [...new Set(error.errors.map((part) => (part instanceof Error ? errorText(part) : String(part))))].join(
      ', ',
    );
  }
  const { code } = error as NodeJS.ErrnoException;
  return code === undefined || error.message.includes(code) ? error.message : `${code}: ${error.message}`;
}
