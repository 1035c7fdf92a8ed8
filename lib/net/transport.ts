/** One byte stream to a peer: TCP, TLS, WebSocket, a Unix socket, or one that the user brings. */
export interface Transport {
  /** Where it leads, for log lines and errors: never holds a secret. Example: `mqtts://broker:8883`. */
  readonly description: string;
  /** Bytes written and not yet handed to the operating system. */
  readonly bufferedBytes: number;
  /** Hands bytes over; the buffer must not change afterwards. False: wait for `onDrain` before writing much more. */
  write(chunk: Uint8Array): boolean;
  /** Stops reading; the peer's bytes wait in the operating system. */
  pause(): void;
  resume(): void;
  /** Writes what is buffered, then closes. `onClose` follows. */
  end(): void;
  /** Closes now. `onClose` follows, later and once. */
  destroy(error?: Error): void;
}

/**
 * What a transport tells its user. No call is made before the dialling function has returned; `onClose` is the last one,
 * comes exactly once (also when the connection never opened) and carries the reason unless the end was orderly.
 */
export interface TransportHandlers {
  onOpen(): void;
  /** The chunk belongs to the receiver: it is not written to again. */
  onData(chunk: Buffer): void;
  onDrain(): void;
  onClose(error?: Error): void;
}

/** Starts a connection and returns at once; `handlers.onOpen` or `handlers.onClose` follows. */
export type Dialer = (handlers: TransportHandlers) => Transport;
