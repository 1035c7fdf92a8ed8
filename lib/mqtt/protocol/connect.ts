/** CONNECT from the configuration, and what CONNACK makes of it. */
import { errorText } from '../../error-text.js';
import {
  isTransportError,
  LocalProtocolError,
  RemoteProtocolError,
  SessionError,
  type TransportError,
} from '../../errors.js';
import { PROTOCOL_ERROR } from '../codec/malformed.js';
import { type ConnackPacket, type ConnectPacket, type Properties, type ProtocolVersion } from '../codec/packets.js';
import { type SessionConfig } from './config.js';
import { PROTOCOL_LIMITS } from './core.js';
import { type ConnectResult, type ServerLimits } from './types.js';

/** What the driver fetches for every attempt. */
export interface ConnectCredentials {
  readonly username?: string | undefined;
  readonly password?: Buffer | undefined;
  /** Data of the enhanced authentication's start. */
  readonly authenticationData?: Buffer | undefined;
}

export function connectPacket(
  config: SessionConfig,
  version: ProtocolVersion,
  clientId: string,
  credentials: ConnectCredentials,
): ConnectPacket {
  const { username, password } = credentials;
  const will = config.will;
  return {
    type: 'connect',
    protocolVersion: version,
    clientId,
    // Without a client id there can be no session to resume.
    cleanStart: config.cleanStart || clientId === '',
    keepAlive: config.keepAlive,
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(will !== undefined && { will: version === 5 ? will : { ...will, properties: undefined } }),
    ...(version === 5 && { properties: connectProperties(config, credentials) }),
  };
}

function connectProperties(config: SessionConfig, credentials: ConnectCredentials): Properties {
  const { authenticationData } = credentials;
  return {
    ...(config.sessionExpiry > 0 && { sessionExpiryInterval: config.sessionExpiry }),
    ...(config.receiveMaximum !== 65_535 && { receiveMaximum: config.receiveMaximum }),
    ...(config.maximumPacketSize < PROTOCOL_LIMITS.maximumPacketSize && {
      maximumPacketSize: config.maximumPacketSize,
    }),
    ...(config.topicAliasMaximum > 0 && { topicAliasMaximum: config.topicAliasMaximum }),
    ...(config.requestResponseInformation && { requestResponseInformation: 1 }),
    ...(!config.requestProblemInformation && { requestProblemInformation: 0 }),
    ...(config.userProperties.length > 0 && { userProperties: [...config.userProperties] }),
    ...(config.authenticationMethod !== undefined && { authenticationMethod: config.authenticationMethod }),
    ...(authenticationData !== undefined && { authenticationData }),
  };
}

/** @throws RemoteProtocolError for a CONNACK that does not fit our CONNECT */
export function checkConnack(
  packet: ConnackPacket,
  config: SessionConfig,
  version: ProtocolVersion,
  clientId: string,
): void {
  const { properties = {} } = packet;
  if (packet.sessionPresent && config.cleanStart) {
    throw new RemoteProtocolError('The server resumed a session after Clean Start [MQTT-3.2.2-4]', PROTOCOL_ERROR);
  }
  checkMethod(properties.authenticationMethod, config);
  if (clientId === '' && version === 5 && properties.assignedClientIdentifier === undefined) {
    throw new RemoteProtocolError('The server assigned no client identifier [MQTT-3.2.2-16]', PROTOCOL_ERROR);
  }
}

/** The method of CONNACK and AUTH must be the one of CONNECT [MQTT-4.12.0-5]. */
export function checkMethod(method: string | undefined, config: SessionConfig): void {
  if (method === undefined || method === config.authenticationMethod) return;
  throw new RemoteProtocolError('The server used an authentication method we did not ask for', PROTOCOL_ERROR);
}

export function serverLimits(properties: Properties = {}): ServerLimits {
  return {
    receiveMaximum: properties.receiveMaximum ?? PROTOCOL_LIMITS.receiveMaximum,
    maximumQos: properties.maximumQos ?? PROTOCOL_LIMITS.maximumQos,
    retainAvailable: properties.retainAvailable !== 0,
    maximumPacketSize: properties.maximumPacketSize ?? PROTOCOL_LIMITS.maximumPacketSize,
    topicAliasMaximum: properties.topicAliasMaximum ?? 0,
    wildcardSubscriptions: properties.wildcardSubscriptionAvailable !== 0,
    subscriptionIdentifiers: properties.subscriptionIdentifiersAvailable !== 0,
    sharedSubscriptions: properties.sharedSubscriptionAvailable !== 0,
  };
}

/** What the owner of the session is told. */
export function connectResult(
  packet: ConnackPacket,
  config: SessionConfig,
  version: ProtocolVersion,
  server: string,
  clientId: string,
): ConnectResult {
  const { properties = {} } = packet;
  // 3.1.1 knows two kinds of session: one that ends with the connection and one that stays.
  const expiryOf4 = config.cleanStart ? 0 : 0xffffffff;
  return {
    sessionPresent: packet.sessionPresent,
    clientId: properties.assignedClientIdentifier ?? clientId,
    protocolVersion: version,
    server,
    sessionExpiry: version === 5 ? (properties.sessionExpiryInterval ?? config.sessionExpiry) : expiryOf4,
    keepAlive: properties.serverKeepAlive ?? config.keepAlive,
    limits: serverLimits(packet.properties),
    ...(properties.responseInformation !== undefined && { responseInformation: properties.responseInformation }),
    ...(properties.userProperties !== undefined && { userProperties: properties.userProperties }),
  };
}

/** The server takes away what we asked for: without a session nothing that is unacknowledged would come back. */
export function takesSessionAway(packet: ConnackPacket, config: SessionConfig): boolean {
  return packet.properties?.sessionExpiryInterval === 0 && config.sessionExpiry > 0 && !config.ephemeral;
}

export function sessionTakenAway(server: string, asked: number): SessionError {
  return new SessionError(
    `${server}: the server keeps no session (session expiry 0 instead of ${asked} s): what is not acknowledged would be lost at a disconnect`,
  );
}

export function toLocalError(error: unknown): TransportError {
  return isTransportError(error) ? error : new LocalProtocolError(errorText(error), { cause: error });
}
