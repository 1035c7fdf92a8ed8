import { type IConnackPacket } from 'mqtt-packet';

/** Limits the broker announces in CONNACK (MQTT 5) and holds clients to. An absent one is not announced. */
export interface MqttBrokerLimits {
  /** QoS 1 and 2 messages a client may have un-acknowledged towards the broker. */
  readonly receiveMaximum?: number;
  readonly maximumQos?: 0 | 1;
  readonly retainAvailable?: boolean;
  /** Bytes. */
  readonly maximumPacketSize?: number;
  readonly topicAliasMaximum?: number;
  /** Seconds; replaces the client's Keep Alive. */
  readonly serverKeepAlive?: number;
  /** Seconds; replaces what the client asked for, also 0. */
  readonly sessionExpiry?: number;
  readonly wildcardSubscriptionAvailable?: boolean;
  readonly subscriptionIdentifiersAvailable?: boolean;
  readonly sharedSubscriptionAvailable?: boolean;
}

/** Who wants to connect. */
export interface MqttCredentials {
  readonly clientId: string;
  readonly username: string | undefined;
  readonly password: Buffer | undefined;
}

/** What one step of an enhanced authentication answers. */
export type MqttAuthStep =
  { readonly continue: Buffer } | { readonly success: Buffer | undefined } | { readonly fail: number };

/** How the broker behaves; every field may be changed while it runs, through `broker.options`. */
export interface MqttBrokerOptions {
  /** Default 127.0.0.1. */
  host?: string;
  /** Default 0: any free port. */
  port?: number;
  /** MQTT versions that are accepted, 4 being 3.1.1. Default both. */
  versions?: readonly (4 | 5)[];
  /**
   * The answer to another version: a 3.1.1 CONNACK with return code 1 (mosquitto, aedes; default), an MQTT 5 CONNACK with
   * 0x84, or nothing but the end of the connection.
   */
  unsupportedVersion?: 'connack-4' | 'connack-5' | 'close';
  limits?: MqttBrokerLimits;
  /** Goes over the properties of every successful MQTT 5 CONNACK. */
  connackProperties?: IConnackPacket['properties'];
  /** True accepts; false refuses as "not authorized"; a number is the CONNACK code. */
  authenticate?: (credentials: MqttCredentials) => boolean | number | Promise<boolean | number>;
  /** Called with the data of CONNECT and of each AUTH packet of a client that names an authentication method. */
  enhancedAuth?: (data: Buffer | undefined, method: string, step: number) => MqttAuthStep;
  /** Code of SUBACK for one filter; undefined grants the requested QoS (or the maximum the broker supports). */
  subackCode?: (filter: string, qos: 0 | 1 | 2, clientId: string) => number | undefined;
  /** Bound of un-acknowledged messages to one client beside its Receive Maximum. mosquitto: 20. Default none. */
  maxInFlight?: number;
  /** Messages one session queues; over it the newest is dropped silently, as mosquitto does. Default none. */
  maxQueued?: number;
  /** How many more than the client's Receive Maximum are sent: mosquitto 2.0.11 and mochi do that. Default 0. */
  overrun?: number;
  /** False: redelivered copies come without DUP, as aedes sends them. Default true. */
  dupOnResend?: boolean;
  /** Order of redelivery after a resume. mochi's is arbitrary; `reversed` stands for that. Default `received`. */
  resendOrder?: 'received' | 'reversed';
  /** Overlapping filters of one client: one message, or one for each filter (mosquitto under MQTT 5). Default `one`. */
  overlapping?: 'one' | 'copies';
  /** Assign topic aliases to clients that accept them (MQTT 5). Default false. */
  useTopicAliases?: boolean;
  /** PUBACK/PUBREC 0x10 where nobody subscribed (MQTT 5). Default false. */
  reportNoSubscribers?: boolean;
  /** Close connections that are silent for one and a half times their Keep Alive. Default true. */
  enforceKeepAlive?: boolean;
  /** False: the broker answers nothing and keeps no session; the test sends every packet itself. Default true. */
  automatic?: boolean;
  /** Entries the wire log keeps. Default 100,000. */
  logLimit?: number;
}
