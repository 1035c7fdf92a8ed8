import { type PulsarCommands } from './commands.js';
import { type PulsarBrokerConnection } from './connection.js';
import { answerError, type PulsarHost } from './host.js';

/** Default of `max_message_size`, in bytes. */
export const MAX_MESSAGE_SIZE = 5 * 1024 * 1024;
/** "No request": how the broker fills a request id that belongs to none. */
export const NO_REQUEST = -1;

/** CONNECT, authentication and its refresh, PING. */
export class SessionHandler {
  constructor(private readonly host: PulsarHost) {}

  async connect(command: PulsarCommands['connect'], connection: PulsarBrokerConnection): Promise<void> {
    const { options } = this.host;
    connection.connect = command;
    if (!(await this.isKnown(command.authMethodName ?? 'none', command.authData, connection))) {
      if (connection.open) this.refuse(connection, 'Failed to authenticate');
      return;
    }
    if (!connection.open) return;
    connection.connected = true;
    connection.answer('connected', {
      serverVersion: 'In-Memory-Pulsar',
      protocolVersion: Math.min(options.protocolVersion ?? 21, command.protocolVersion ?? 0),
      maxMessageSize: options.maxMessageSize ?? MAX_MESSAGE_SIZE,
    });
    const interval = options.keepAliveInterval ?? 30_000;
    if (interval > 0) connection.keepAliveTimer = setInterval(() => this.ping(connection), interval).unref();
  }

  /** Asks for fresh credentials; without an answer in time the connection ends. */
  challenge(connection: PulsarBrokerConnection): void {
    const authMethodName = connection.connect?.authMethodName ?? 'none';
    // What the real broker sends: the method, and data that only SASL looks at.
    connection.answer('authChallenge', { challenge: { authMethodName, authData: Buffer.from('PulsarAuthRefresh') } });
    const timeout = this.host.options.authChallengeTimeout;
    if (timeout !== undefined) connection.challengeTimer = setTimeout(() => connection.end(), timeout);
  }

  async authResponse(command: PulsarCommands['authResponse'], connection: PulsarBrokerConnection): Promise<void> {
    clearTimeout(connection.challengeTimer);
    const { authMethodName = 'none', authData } = command.response ?? {};
    const known = await this.isKnown(authMethodName, authData, connection);
    if (!known && connection.open) this.refuse(connection, 'Failed to authenticate on auth refresh');
  }

  private async isKnown(
    method: string,
    data: Buffer | undefined,
    connection: PulsarBrokerConnection,
  ): Promise<boolean> {
    return (await this.host.options.authenticate?.(method, data ?? Buffer.alloc(0), connection)) ?? true;
  }

  private refuse(connection: PulsarBrokerConnection, message: string): void {
    answerError(connection, NO_REQUEST, 'AuthenticationError', message);
    connection.end();
  }

  private ping(connection: PulsarBrokerConnection): void {
    if (connection.unansweredPings >= 2) return connection.cut();
    connection.unansweredPings++;
    connection.answer('ping', {});
  }
}
