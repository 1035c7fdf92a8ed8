import { type MqttBrokerOptions } from './options.js';
import { MqttSession } from './session.js';

/** The sessions of a broker: kept over connections, ended by expiry, Clean Start or the test. */
export class SessionStore {
  private readonly sessions = new Map<string, MqttSession>();

  constructor(
    private readonly options: MqttBrokerOptions,
    private readonly onEnd: (session: MqttSession) => void,
  ) {}

  get(clientId: string): MqttSession | undefined {
    return this.sessions.get(clientId);
  }

  values(): Iterable<MqttSession> {
    return this.sessions.values();
  }

  /** The session of a client that connects: a new one if it asks for that or has none. */
  open(clientId: string, cleanStart: boolean): { readonly session: MqttSession; readonly present: boolean } {
    const existing = this.sessions.get(clientId);
    if (existing !== undefined) clearTimeout(existing.expiryTimer);
    if (existing !== undefined && !cleanStart) return { session: existing, present: true };
    if (existing !== undefined) this.end(clientId);
    const session = new MqttSession(clientId, this.options);
    this.sessions.set(clientId, session);
    return { session, present: false };
  }

  /** The connection is gone: the session ends now, later or never. */
  detach(session: MqttSession): void {
    session.connection = undefined;
    if (session.expiry === Infinity) return;
    if (session.expiry === 0) {
      this.end(session.clientId);
      return;
    }
    session.expiryTimer = setTimeout(() => this.end(session.clientId), Math.min(session.expiry * 1000, 2 ** 31 - 1));
    session.expiryTimer.unref();
  }

  /** Forgets everything about a client; true if there was something. */
  end(clientId: string): boolean {
    const session = this.sessions.get(clientId);
    if (session === undefined) return false;
    clearTimeout(session.expiryTimer);
    this.sessions.delete(clientId);
    this.onEnd(session);
    return true;
  }

  clear(): void {
    for (const session of this.sessions.values()) clearTimeout(session.expiryTimer);
    this.sessions.clear();
  }
}
