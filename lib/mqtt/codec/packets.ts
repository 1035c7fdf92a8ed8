/** Every MQTT control packet as this package sees it, for 3.1.1 (protocol level 4) and 5. Names as in the specifications. */

export type Qos = 0 | 1 | 2;
export type ProtocolVersion = 4 | 5;

/** A user property: a name-value pair of UTF-8 strings; order and repetitions are kept [MQTT5 1.5.7]. */
export type UserProperty = readonly [name: string, value: string];

/** MQTT 5 properties by their specification names in camel case; which packet may carry which is in `properties.ts`. */
export interface Properties {
  payloadFormatIndicator?: 0 | 1;
  /** Seconds. */
  messageExpiryInterval?: number;
  contentType?: string;
  responseTopic?: string;
  correlationData?: Buffer;
  subscriptionIdentifiers?: number[];
  /** Seconds; 0xffffffff = never. */
  sessionExpiryInterval?: number;
  assignedClientIdentifier?: string;
  /** Seconds. */
  serverKeepAlive?: number;
  authenticationMethod?: string;
  authenticationData?: Buffer;
  requestProblemInformation?: 0 | 1;
  /** Seconds. */
  willDelayInterval?: number;
  requestResponseInformation?: 0 | 1;
  responseInformation?: string;
  serverReference?: string;
  reasonString?: string;
  receiveMaximum?: number;
  topicAliasMaximum?: number;
  topicAlias?: number;
  maximumQos?: 0 | 1;
  retainAvailable?: 0 | 1;
  userProperties?: UserProperty[];
  /** Bytes. */
  maximumPacketSize?: number;
  wildcardSubscriptionAvailable?: 0 | 1;
  subscriptionIdentifiersAvailable?: 0 | 1;
  sharedSubscriptionAvailable?: 0 | 1;
}

export interface Will {
  topic: string;
  payload: Buffer;
  qos: Qos;
  retain: boolean;
  properties?: Properties;
}

export interface ConnectPacket {
  type: 'connect';
  protocolVersion: ProtocolVersion;
  clientId: string;
  /** Clean Start (5) or Clean Session (3.1.1). */
  cleanStart: boolean;
  /** Seconds; 0 = off. */
  keepAlive: number;
  username?: string;
  password?: Buffer;
  will?: Will;
  properties?: Properties;
}
export interface ConnackPacket {
  type: 'connack';
  sessionPresent: boolean;
  /** Reason code (5) or return code (3.1.1). */
  reasonCode: number;
  properties?: Properties;
}
export interface PublishPacket {
  type: 'publish';
  /** Empty only where a topic alias stands for it. */
  topic: string;
  payload: Buffer;
  qos: Qos;
  retain: boolean;
  dup: boolean;
  /** 1 to 65,535; 0 where QoS is 0. */
  packetId: number;
  properties?: Properties;
}
/** PUBACK, PUBREC, PUBREL, PUBCOMP. `reasonCode` is 0 in 3.1.1. */
export interface AckPacket {
  type: 'puback' | 'pubrec' | 'pubrel' | 'pubcomp';
  packetId: number;
  reasonCode: number;
  properties?: Properties;
}
export interface SubscriptionRequest {
  filter: string;
  qos: Qos;
  /** MQTT 5. */
  noLocal?: boolean;
  /** MQTT 5. */
  retainAsPublished?: boolean;
  /** MQTT 5: 0 send retained messages, 1 only for a new subscription, 2 none. */
  retainHandling?: 0 | 1 | 2;
}
export interface SubscribePacket {
  type: 'subscribe';
  packetId: number;
  subscriptions: SubscriptionRequest[];
  properties?: Properties;
}
export interface SubackPacket {
  type: 'suback';
  packetId: number;
  reasonCodes: number[];
  properties?: Properties;
}
export interface UnsubscribePacket {
  type: 'unsubscribe';
  packetId: number;
  filters: string[];
  properties?: Properties;
}
export interface UnsubackPacket {
  type: 'unsuback';
  packetId: number;
  /** Empty in 3.1.1. */
  reasonCodes: number[];
  properties?: Properties;
}
export interface PingreqPacket {
  type: 'pingreq';
}
export interface PingrespPacket {
  type: 'pingresp';
}
export interface DisconnectPacket {
  type: 'disconnect';
  reasonCode: number;
  properties?: Properties;
}
export interface AuthPacket {
  type: 'auth';
  reasonCode: number;
  properties?: Properties;
}

/** What a client sends. */
export type ClientPacket =
  | ConnectPacket
  | PublishPacket
  | AckPacket
  | SubscribePacket
  | UnsubscribePacket
  | PingreqPacket
  | DisconnectPacket
  | AuthPacket;

/** What a client may receive. */
export type ServerPacket =
  | ConnackPacket
  | PublishPacket
  | AckPacket
  | SubackPacket
  | UnsubackPacket
  | PingrespPacket
  | DisconnectPacket
  | AuthPacket;
