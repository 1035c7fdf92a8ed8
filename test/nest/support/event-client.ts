import { ClientProxy, type ReadPacket } from '@nestjs/microservices';

/** A proxy that is not ours and takes events only: what a dead-letter target has to be. */
export abstract class EventClient extends ClientProxy {
  connect(): Promise<void> {
    return Promise.resolve();
  }
  close(): void {
    // Nothing is open.
  }
  unwrap<T>(): T {
    throw new Error('nothing to unwrap');
  }
  protected publish(): () => void {
    throw new Error('not a requester');
  }
  protected abstract override dispatchEvent<T>(packet: ReadPacket): Promise<T>;
}
