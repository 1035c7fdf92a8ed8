import { AuthenticationError, RemoteProtocolError, type TransportError } from '../../errors.js';
import { encodePacket } from '../codec/control.js';
import { PROTOCOL_ERROR } from '../codec/malformed.js';
import { type AuthPacket, type ConnackPacket, type Properties } from '../codec/packets.js';
import { checkMethod } from './connect.js';
import { type ConnectionCause, type ConnectionState } from './connection-state.js';
import { type SessionCore } from './core.js';
import { type Intake } from './intake.js';

const CONTINUE_AUTHENTICATION = 0x18;
const RE_AUTHENTICATE = 0x19;

/** What the exchange needs of the connection it runs on. */
export interface AuthenticatedLink {
  readonly state: ConnectionState;
  readonly server: string;
  move(cause: ConnectionCause): void;
  accept(packet: ConnackPacket, now: number): void;
  settle(now: number): void;
  leave(how: 'longBackoff', cause: TransportError, now: number, disconnect: { readonly reasonCode: number }): void;
}

/** Enhanced authentication [MQTT5 4.12]: before CONNACK, or again on a connection that stands. */
export class AuthExchange {
  /** CONNACK came, the server's last data is being checked. */
  private connack: ConnackPacket | undefined = undefined;

  constructor(
    private readonly core: SessionCore,
    private readonly intake: Intake,
    private readonly link: AuthenticatedLink,
  ) {}

  challenged(packet: AuthPacket, now: number): void {
    const { state } = this.link;
    checkMethod(packet.properties?.authenticationMethod, this.core.config);
    if (this.core.config.authenticationMethod === undefined || state === 'connected') {
      throw new RemoteProtocolError('The server sent AUTH without an exchange of ours', PROTOCOL_ERROR);
    }
    const data = packet.properties?.authenticationData;
    if (packet.reasonCode === CONTINUE_AUTHENTICATION) {
      this.link.move('challenged');
      this.core.outbox.emit({ kind: 'authenticate', step: 'continue', data });
    } else if (packet.reasonCode === 0 && state === 'reauthenticating') {
      if (this.core.config.checksServer) this.core.outbox.emit({ kind: 'authenticate', step: 'finish', data });
      else this.reauthenticated(now);
    } else throw new RemoteProtocolError('The server sent an AUTH that does not fit the exchange', PROTOCOL_ERROR);
  }

  /** Nothing is taken from a server that has not proved itself. */
  check(packet: ConnackPacket): void {
    this.connack = packet;
    if (this.link.state === 'connecting') this.link.move('challenged');
    this.intake.checking = true;
    this.core.outbox.emit({ kind: 'authenticate', step: 'finish', data: packet.properties?.authenticationData });
  }

  /** The answer to `authenticate`: data for the next AUTH after `continue`, acceptance after `finish`. */
  answered(step: 'continue' | 'finish', data: Buffer | undefined, now: number): void {
    const { state } = this.link;
    if (step === 'finish') {
      const packet = this.connack;
      this.connack = undefined;
      this.intake.checking = false;
      if (state === 'reauthenticating') this.reauthenticated(now);
      else if (packet !== undefined && state === 'authenticating') {
        this.link.accept(packet, now);
        this.link.settle(now);
      }
    } else if (state === 'authenticating' || state === 'reauthenticating') this.write(CONTINUE_AUTHENTICATION, data);
  }

  /** Starts a re-authentication [MQTT5 4.12.1]; false if there is no connection to do it on, or one runs. */
  restart(data: Buffer | undefined): boolean {
    if (this.link.state !== 'connected' || this.core.version === 4) return false;
    this.link.move('reauthenticate');
    this.intake.authenticating = true;
    this.write(RE_AUTHENTICATE, data);
    return true;
  }

  private reauthenticated(now: number): void {
    this.link.move('reauthenticated');
    this.intake.authenticating = false;
    this.core.outbox.emit({ kind: 'reauthenticated' });
    this.link.settle(now);
  }

  private write(reasonCode: number, data: Buffer | undefined): void {
    const properties: Properties = {
      authenticationMethod: this.core.config.authenticationMethod,
      ...(data !== undefined && { authenticationData: data }),
    };
    this.core.outbox.write(encodePacket({ type: 'auth', reasonCode, properties }, this.core.version));
  }

  /** The user's side refused the server, or failed. */
  failed(cause: unknown, now: number): void {
    const text = `${this.link.server}: the authentication exchange failed`;
    this.link.leave('longBackoff', new AuthenticationError(text, { cause, retriable: true }), now, {
      reasonCode: 0x80,
    });
  }

  /** The connection is gone. */
  reset(): void {
    this.connack = undefined;
    this.intake.checking = false;
    this.intake.authenticating = false;
  }
}
