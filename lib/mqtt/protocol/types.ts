import { type Properties, type Qos, type SubscriptionRequest, type UserProperty } from '../codec/packets.js';

/** What `connect()` resolves to and every `connect` event carries. */
export interface ConnectResult {
  /** The broker still had this client's session. */
  readonly sessionPresent: boolean;
  readonly clientId: string;
  readonly protocolVersion: 4 | 5;
  /** Where we are connected to; never holds a secret. */
  readonly server: string;
  /** Seconds the broker keeps the session after a disconnect; 0xffffffff = for ever. */
  readonly sessionExpiry: number;
  /** Seconds, the server's value where it gave one. */
  readonly keepAlive: number;
  readonly limits: ServerLimits;
  /** CONNACK Response Information, if asked for and given. */
  readonly responseInformation?: string;
  readonly userProperties?: readonly UserProperty[];
}

/** What the server accepts, from CONNACK; the protocol's own limits for 3.1.1. */
export interface ServerLimits {
  readonly receiveMaximum: number;
  readonly maximumQos: Qos;
  readonly retainAvailable: boolean;
  /** Bytes. */
  readonly maximumPacketSize: number;
  readonly topicAliasMaximum: number;
  readonly wildcardSubscriptions: boolean;
  readonly subscriptionIdentifiers: boolean;
  readonly sharedSubscriptions: boolean;
}

/** One filter to subscribe to. */
export interface Subscription extends SubscriptionRequest {
  /** MQTT 5: comes back with every message this subscription matched (1 to 268,435,455). */
  readonly subscriptionIdentifier?: number;
}

/** The broker's answer for one filter. */
export interface SubscriptionGrant {
  readonly filter: string;
  readonly requestedQos: Qos;
  /** Granted QoS (0 to 2), or the error (0x80 and above). */
  readonly reasonCode: number;
  readonly reasonString?: string;
}

export interface PublishRequest {
  readonly topic: string;
  readonly payload: Buffer | Uint8Array | string;
  /** Default 0. */
  readonly qos?: Qos;
  readonly retain?: boolean;
  /** MQTT 5. Topic aliases are assigned by the client and not accepted here. */
  readonly properties?: Properties;
}

/** The message has reached the broker (QoS 1: PUBACK, QoS 2: PUBCOMP) or, with QoS 0, the socket. */
export interface PublishResult {
  /** 0, or 0x10 where nobody had subscribed. */
  readonly reasonCode: number;
  readonly reasonString?: string;
  readonly userProperties?: readonly UserProperty[];
}

/** The broker's answer to an UNSUBSCRIBE of one filter; 3.1.1 has no codes: 0. */
export interface UnsubscribeResult {
  readonly filter: string;
  /** 0, 0x11 where there was no such subscription, or the error (0x80 and above). */
  readonly reasonCode: number;
}
