import { AuthenticationError, ConnectionError, type TransportError } from '../../errors.js';
import { reasonName } from '../codec/reason-codes.js';

/**
 * What follows when the server refuses or ends a connection.
 *
 * - `retry`: with the usual backoff. `longBackoff`: it will take longer to pass.
 * - `credentials`: `retry` where a credentials supplier can bring new ones, else `longBackoff`.
 * - `takeover`: another client uses our client id; long backoff, and an end after some in a row.
 * - `redirect`: to the Server Reference if that is allowed, else the next server with a long backoff.
 * - `version`: with the other protocol version where that is open, else `giveUp`.
 * - `giveUp`: the same CONNECT cannot succeed.
 */
export type ReasonAction = 'retry' | 'longBackoff' | 'credentials' | 'takeover' | 'redirect' | 'version' | 'giveUp';

/** CONNACK reason codes [MQTT5 3.2.2.2], those of 3.1.1 by their meaning; every other one is `retry`. */
export const connackActions: Readonly<Record<number, ReasonAction>> = {
  0x80: 'retry',
  0x81: 'giveUp',
  0x82: 'giveUp',
  0x83: 'longBackoff',
  0x84: 'version',
  0x85: 'giveUp',
  0x86: 'credentials',
  0x87: 'credentials',
  0x88: 'retry',
  0x89: 'longBackoff',
  0x8a: 'longBackoff',
  0x8c: 'giveUp',
  0x90: 'giveUp',
  0x95: 'giveUp',
  0x97: 'longBackoff',
  0x99: 'giveUp',
  0x9a: 'giveUp',
  0x9b: 'giveUp',
  0x9c: 'redirect',
  0x9d: 'redirect',
  0x9f: 'longBackoff',
};

/** DISCONNECT reason codes [MQTT5 3.14.2.1]; every other one is `retry`: what worked once can work again. */
export const disconnectActions: Readonly<Record<number, ReasonAction>> = {
  0x81: 'longBackoff',
  0x82: 'longBackoff',
  0x83: 'longBackoff',
  0x87: 'credentials',
  0x89: 'longBackoff',
  0x8c: 'giveUp',
  0x8e: 'takeover',
  0x8f: 'longBackoff',
  0x90: 'longBackoff',
  0x95: 'longBackoff',
  0x96: 'longBackoff',
  0x97: 'longBackoff',
  0x98: 'longBackoff',
  0x99: 'longBackoff',
  0x9a: 'longBackoff',
  0x9b: 'longBackoff',
  0x9c: 'redirect',
  0x9d: 'redirect',
  0x9e: 'longBackoff',
  0x9f: 'longBackoff',
  0xa1: 'longBackoff',
  0xa2: 'longBackoff',
};

const AUTHENTICATION_CODES = new Set([0x86, 0x87, 0x8a, 0x8c]);

export function refusedError(server: string, reasonCode: number, reasonString: string | undefined): TransportError {
  const text = `${server}: the server refused the connection: ${reasonName(reasonCode)}${suffix(reasonString)}`;
  if (AUTHENTICATION_CODES.has(reasonCode)) return new AuthenticationError(text, { reasonCode, retriable: true });
  return new ConnectionError(text, { reasonCode, retriable: connackActions[reasonCode] !== 'giveUp' });
}

export function serverDisconnectError(
  server: string,
  reasonCode: number,
  reasonString: string | undefined,
): TransportError {
  const text = `${server}: the server ended the connection: ${reasonName(reasonCode)}${suffix(reasonString)}`;
  if (AUTHENTICATION_CODES.has(reasonCode)) return new AuthenticationError(text, { reasonCode, retriable: true });
  return new ConnectionError(text, { reasonCode });
}

function suffix(reasonString: string | undefined): string {
  return reasonString === undefined ? '' : `: ${reasonString}`;
}
