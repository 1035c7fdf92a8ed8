import { backoffDelay } from '../net/backoff.js';
import { type Clock } from '../net/clock.js';
import { describeEndpoint } from '../net/dial.js';
import { type Will } from './codec/packets.js';
import { type ResolvedMqttClientOptions } from './option-types.js';
import { type SessionConfig } from './protocol/config.js';

/** What the session has to know of the options. */
export function sessionConfig(options: ResolvedMqttClientOptions, clientId: string): SessionConfig {
  const { reconnect, longBackoff, clock, authentication } = options;
  return {
    ...options.session,
    servers: options.endpoints.map(({ endpoint }) => describeEndpoint(endpoint)),
    clientId,
    // Falling back to 3.1.1 would leave the authentication out.
    protocolVersion: authentication === undefined ? options.protocolVersion : 5,
    will: toWill(options.will),
    authenticationMethod: authentication?.method,
    checksServer: authentication?.finish !== undefined,
    renewsCredentials: options.credentials !== undefined,
    reconnectDelay: (attempt, random) => backoffDelay(reconnect, attempt, random),
    longDelay: (attempt, random) => backoffDelay(longBackoff, attempt, random),
    persistent: options.store !== undefined,
    firstSequence: options.store === undefined ? 1 : Math.floor(clock.wallTime() * 1000),
    wallClockOffset: clock.wallTime() - clock.now(),
  };
}

function toWill(will: ResolvedMqttClientOptions['will']): Will | undefined {
  if (will === undefined) return undefined;
  return {
    topic: will.topic,
    payload: Buffer.from((will.payload ?? '') as string),
    qos: will.qos ?? 0,
    retain: will.retain ?? false,
    ...(will.properties !== undefined && { properties: will.properties }),
  };
}

/** For a client that needs no name of its own; 3.1.1 brokers need not accept an empty one. */
export function randomClientId(clock: Pick<Clock, 'random'>): string {
  const part = (): string => Math.floor(clock.random() * 2 ** 32).toString(36);
  return `nmp-${part()}${part()}`;
}
