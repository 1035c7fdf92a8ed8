import { RemoteProtocolError } from '../../errors.js';

/** Reason codes that a client gives back when the server's bytes are wrong [MQTT5 4.13]. */
export const MALFORMED_PACKET = 0x81;
export const PROTOCOL_ERROR = 0x82;
export const TOPIC_NAME_INVALID = 0x90;
export const TOPIC_ALIAS_INVALID = 0x94;
export const PACKET_TOO_LARGE = 0x95;

/** The bytes do not follow the packet's layout: DISCONNECT 0x81. */
export const malformed = (what: string): RemoteProtocolError =>
  new RemoteProtocolError(`Malformed packet from the server: ${what}`, MALFORMED_PACKET);

/** Well formed, but not allowed here: DISCONNECT 0x82. */
export const protocolError = (what: string): RemoteProtocolError =>
  new RemoteProtocolError(`Protocol error by the server: ${what}`, PROTOCOL_ERROR);

/**
 * 3.1.1 has no DISCONNECT from the server. mochi 2.7.9 sends it all the same when another client takes the client id, so it
 * counts as a connection that was closed without a reason.
 */
export class DisconnectIn311Error extends RemoteProtocolError {
  constructor() {
    super('Protocol error by the server: DISCONNECT in MQTT 3.1.1', PROTOCOL_ERROR);
  }
}
