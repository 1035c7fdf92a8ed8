/** CONNECT from the configuration, and what CONNACK makes of it. */
import { RemoteProtocolError } from '../../errors.js';
import { PROTOCOL_ERROR } from '../codec/malformed.js';
import { type ConnackPacket, type ConnectPacket, type Properties, type ProtocolVersion } from '../codec/packets.js';
import { type SessionConfig } from './config.js';
import { PROTOCOL_LIMITS } from './core.js';
import { type ServerLimits } from './types.js';

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
    cleanStart: config.cleanStart,
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
