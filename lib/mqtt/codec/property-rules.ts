/** MQTT 5 properties as a table: identifier, type, which packets of which side carry it, which values [MQTT5 2.2.2]. */
import { type Properties } from './packets.js';
import { MAX_VARIABLE_INTEGER } from './strings.js';

/** Packets of a server with properties. */
export type ServerCarrier =
  'connack' | 'publish' | 'puback' | 'pubrec' | 'pubrel' | 'pubcomp' | 'suback' | 'unsuback' | 'disconnect' | 'auth';

/** Packets of a client with properties; `will` are those of the Will in CONNECT. */
export type ClientCarrier =
  | 'connect'
  | 'will'
  | 'publish'
  | 'puback'
  | 'pubrec'
  | 'pubrel'
  | 'pubcomp'
  | 'subscribe'
  | 'unsubscribe'
  | 'disconnect'
  | 'auth';

export type PropertyKind = 'byte' | 'u16' | 'u32' | 'variable' | 'string' | 'binary' | 'pair';

export interface PropertyRule {
  readonly id: number;
  readonly name: keyof Properties;
  readonly kind: PropertyKind;
  /** Packets of a server that may carry it. */
  readonly server: ReadonlySet<string>;
  /** Packets of a client that may carry it. */
  readonly client: ReadonlySet<string>;
  /** Smallest and largest value of a number. */
  readonly min: number;
  readonly max: number;
}

const LARGEST: Readonly<Record<PropertyKind, number>> = {
  byte: 1, // every byte property is 0 or 1
  u16: 0xffff,
  u32: 0xffff_ffff,
  variable: MAX_VARIABLE_INTEGER,
  string: 0,
  binary: 0,
  pair: 0,
};

const rule = (
  id: number,
  name: keyof Properties,
  kind: PropertyKind,
  server: string,
  client: string,
  min = 0,
): PropertyRule => ({
  id,
  name,
  kind,
  server: new Set(server.split(' ')),
  client: new Set(client.split(' ')),
  min,
  max: LARGEST[kind],
});

const ACKS = 'puback pubrec pubrel pubcomp';
const ANSWERS = `connack ${ACKS} suback unsuback disconnect auth`;

/**
 * One row a property [MQTT5 table 2-4]. Directions beyond that table: a server sends no Session Expiry Interval in
 * DISCONNECT [MQTT-3.14.2-2], a client no Subscription Identifier in PUBLISH [MQTT-3.3.4-6] and no Server Reference.
 */
export const PROPERTY_RULES: readonly PropertyRule[] = [
  rule(0x01, 'payloadFormatIndicator', 'byte', 'publish', 'publish will'),
  rule(0x02, 'messageExpiryInterval', 'u32', 'publish', 'publish will'),
  rule(0x03, 'contentType', 'string', 'publish', 'publish will'),
  rule(0x08, 'responseTopic', 'string', 'publish', 'publish will'),
  rule(0x09, 'correlationData', 'binary', 'publish', 'publish will'),
  rule(0x0b, 'subscriptionIdentifiers', 'variable', 'publish', 'subscribe', 1),
  rule(0x11, 'sessionExpiryInterval', 'u32', 'connack', 'connect disconnect'),
  rule(0x12, 'assignedClientIdentifier', 'string', 'connack', ''),
  rule(0x13, 'serverKeepAlive', 'u16', 'connack', ''),
  rule(0x15, 'authenticationMethod', 'string', 'connack auth', 'connect auth'),
  rule(0x16, 'authenticationData', 'binary', 'connack auth', 'connect auth'),
  rule(0x17, 'requestProblemInformation', 'byte', '', 'connect'),
  rule(0x18, 'willDelayInterval', 'u32', '', 'will'),
  rule(0x19, 'requestResponseInformation', 'byte', '', 'connect'),
  rule(0x1a, 'responseInformation', 'string', 'connack', ''),
  rule(0x1c, 'serverReference', 'string', 'connack disconnect', ''),
  rule(0x1f, 'reasonString', 'string', ANSWERS, `${ACKS} disconnect auth`),
  rule(0x21, 'receiveMaximum', 'u16', 'connack', 'connect', 1),
  rule(0x22, 'topicAliasMaximum', 'u16', 'connack', 'connect'),
  rule(0x23, 'topicAlias', 'u16', 'publish', 'publish', 1),
  rule(0x24, 'maximumQos', 'byte', 'connack', ''),
  rule(0x25, 'retainAvailable', 'byte', 'connack', ''),
  rule(
    0x26,
    'userProperties',
    'pair',
    `publish ${ANSWERS}`,
    `connect will publish ${ACKS} subscribe unsubscribe disconnect auth`,
  ),
  rule(0x27, 'maximumPacketSize', 'u32', 'connack', 'connect', 1),
  rule(0x28, 'wildcardSubscriptionAvailable', 'byte', 'connack', ''),
  rule(0x29, 'subscriptionIdentifiersAvailable', 'byte', 'connack', ''),
  rule(0x2a, 'sharedSubscriptionAvailable', 'byte', 'connack', ''),
];
