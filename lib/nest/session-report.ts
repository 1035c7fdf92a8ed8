import { type ConnectResult } from '../mqtt/index.js';

/** What was agreed on with the broker, for the log: whether unacknowledged messages survive a disconnect stands here. */
export function describeSession(result: ConnectResult, receiveMaximum: number): string {
  const { server, clientId, protocolVersion, sessionPresent, sessionExpiry, keepAlive } = result;
  return (
    `Connected to ${server} as '${clientId}' with MQTT ${protocolVersion === 5 ? '5' : '3.1.1'}: ` +
    `session ${sessionPresent ? 'resumed' : 'new'}, ${kept(sessionExpiry)}, keep alive ${keepAlive} s, ` +
    `receive maximum ${receiveMaximum}`
  );
}

function kept(seconds: number): string {
  if (seconds === 0) return 'gone with the connection';
  return seconds === FOR_EVER ? 'kept without an end' : `kept ${seconds} s after a disconnect`;
}

const FOR_EVER = 0xffffffff;
