import { ConnectionError, LocalProtocolError } from '../errors.js';
import { type ResolvedMqttClientOptions } from './option-types.js';
import { type MqttSession } from './protocol/session.js';
import { type Waiter } from './waiter.js';

/** An AUTH exchange that the owner of the client has begun, and who waits for its end [MQTT5 4.12.1]. */
export class Reauthentication {
  private waiter: Waiter<void> | undefined = undefined;

  constructor(
    private readonly session: Pick<MqttSession, 'reauthenticate'>,
    private readonly authentication: ResolvedMqttClientOptions['authentication'],
    /** Has the session's packets written. */
    private readonly write: () => void,
  ) {}

  async begin(): Promise<void> {
    if (this.authentication === undefined)
      throw new LocalProtocolError("reauthenticate() needs the option 'authentication'");
    const data = await this.authentication.start();
    const started = this.session.reauthenticate(data === undefined ? undefined : Buffer.from(data));
    if (!started) throw new ConnectionError('No MQTT 5 connection is there to authenticate again');
    const done = new Promise<void>((resolve, reject) => (this.waiter = { resolve, reject }));
    this.write();
    return done;
  }

  succeeded(): void {
    this.waiter?.resolve();
    this.waiter = undefined;
  }

  failed(error: Error): void {
    this.waiter?.reject(error);
    this.waiter = undefined;
  }
}
