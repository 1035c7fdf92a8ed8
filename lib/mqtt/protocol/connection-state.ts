/**
 * - `offline`: no transport. `dialing`: one is being opened. `connecting`: CONNECT is out. `authenticating`: an AUTH
 *   exchange runs before CONNACK, or the server's last data is being checked.
 * - `connected`; `reauthenticating`: connected, an AUTH exchange runs.
 * - `closing`: nothing is sent or read any more, the transport is ending. `ended`: by close() or destroy().
 */
export type ConnectionState =
  'offline' | 'dialing' | 'connecting' | 'authenticating' | 'connected' | 'reauthenticating' | 'closing' | 'ended';

export type ConnectionCause =
  'dial' | 'opened' | 'challenged' | 'accepted' | 'reauthenticate' | 'reauthenticated' | 'leave' | 'lost' | 'end';

/** Every change of a connection; a pair that is not here is a defect of this package. */
export const connectionTransitions = {
  offline: { dial: 'dialing', end: 'ended' },
  dialing: { opened: 'connecting', leave: 'closing', lost: 'offline' },
  connecting: { challenged: 'authenticating', accepted: 'connected', leave: 'closing', lost: 'offline' },
  authenticating: { challenged: 'authenticating', accepted: 'connected', leave: 'closing', lost: 'offline' },
  connected: { reauthenticate: 'reauthenticating', leave: 'closing', lost: 'offline' },
  reauthenticating: {
    challenged: 'reauthenticating',
    reauthenticated: 'connected',
    leave: 'closing',
    lost: 'offline',
  },
  closing: { lost: 'offline' },
  ended: {},
} as const satisfies Record<ConnectionState, Partial<Record<ConnectionCause, ConnectionState>>>;

/** The state after `cause`. */
export function nextConnectionState(state: ConnectionState, cause: ConnectionCause): ConnectionState {
  const row: Partial<Record<ConnectionCause, ConnectionState>> = connectionTransitions[state];
  const next = row[cause];
  if (next === undefined) throw new Error(`MQTT connection: '${cause}' cannot happen in state '${state}'`);
  return next;
}
