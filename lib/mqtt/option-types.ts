import { type BackoffOptions } from '../net/backoff.js';
import { type Clock } from '../net/clock.js';
import { type Endpoint } from '../net/dial.js';
import { type TlsOptions } from '../net/tls.js';
import { type Dialer } from '../net/transport.js';
import { type Properties, type ProtocolVersion, type Qos, type UserProperty } from './codec/packets.js';
import { type SessionSettings } from './protocol/config.js';
import { type SessionStore } from './session-store.js';

/** Options of {@link MqttClient}; every field may be left out unless a comment says otherwise. */
export interface MqttClientOptions {
  /**
   * `mqtt://host:1883`, `mqtts://host:8883`, `ws://host/mqtt`, `wss://...`, `unix:///path`; a list is tried in turn.
   * User name and password may stand in the URL. Default `mqtt://localhost:1883`.
   */
  url?: string | readonly string[];
  /** Required unless `allowEphemeralSession` is set: it names the session at the broker. */
  clientId?: string;
  /** Default `auto`: 5, and 3.1.1 where the server refuses 5. */
  protocolVersion?: ProtocolVersion | 'auto';
  username?: string;
  password?: string | Uint8Array;
  /** Called before every connection attempt, so that an expired token is renewed; wins over `username` and `password`. */
  credentials?: () => Credentials | Promise<Credentials>;
  /** Enhanced authentication of MQTT 5. */
  authentication?: EnhancedAuthentication;
  tls?: TlsOptions;
  websocket?: WebSocketOptions;
  /** Opens the connection in place of ours: for a proxy, a tunnel or a test. */
  dialer?: (endpoint: Endpoint) => Dialer;
  /** Time, timers and randomness; for tests. */
  clock?: Clock;

  /** Seconds the broker keeps the session while we are away; default 86,400 (24 h). 0xffffffff = for ever. */
  sessionExpiry?: number;
  /** Default false. True throws the session away on every connect and needs `allowEphemeralSession`. */
  cleanStart?: boolean;
  /**
   * Permits settings under which unacknowledged messages are lost at a disconnect: clean start, session expiry 0, no
   * client id. Meant for clients that only publish. Default false.
   */
  allowEphemeralSession?: boolean;
  /** Keeps outgoing publishes, received QoS 2 identifiers and filters beyond the process. Default: in memory only. */
  store?: SessionStore;
  /** What becomes of publishes under way when the broker has lost the session. Default `republish`. */
  onSessionLost?: 'republish' | 'reject';

  /** Unacknowledged QoS 1 and 2 messages the broker may send at a time (1 to 65,535). Default 128. */
  receiveMaximum?: number;
  /** Largest packet accepted, in bytes. Default 16 MiB. */
  maximumPacketSize?: number;
  /**
   * Topic aliases the server may use. Default 0: mochi 2.7.9 resends a message on a new connection with an alias of the old
   * one and no topic, so that nobody can tell any more where it belongs.
   */
  topicAliasMaximum?: number;
  /** Use topic aliases for publishes where the server allows them. Default true. */
  topicAliases?: boolean;
  /** Treat every message resent on the same connection as a protocol error (0x82). Default false: it is recognised. */
  strictResends?: boolean;
  /** Close with 0x93 at the first message over the Receive Maximum. Default false: tolerated up to `overrunLimit`. */
  strictReceiveMaximum?: boolean;
  /**
   * Unacknowledged messages held at which the link is closed with the session kept. Default 65,535: reading pauses long
   * before, unless an answer of the broker is awaited, and mosquitto 2.0.11 sends a whole backlog before a SUBACK. A smaller
   * one than the backlog keeps such a session from ever resuming.
   */
  overrunLimit?: number;
  /** Recognise redelivered copies without DUP on a resumed session, for brokers that do not set it (aedes). Default false. */
  bindWithoutDup?: boolean;

  /** Seconds; 0 = off. Default 30. */
  keepAlive?: number;
  /** Milliseconds after a PINGREQ without a packet, or the bytes of a large one, until the link counts as dead. Default: half the keep alive, 1 to 10 s. */
  pingTimeout?: number;
  /** Milliseconds for one connection attempt, CONNACK included. Default 10,000. */
  connectTimeout?: number;
  /** Milliseconds for a SUBACK or UNSUBACK. Default 30,000. */
  subscribeTimeout?: number;
  /** Milliseconds for `close()`. Default 5,000. */
  closeTimeout?: number;
  /** `connect()` keeps trying until a broker is there, instead of rejecting. Default false. */
  waitForBroker?: boolean;
  /** Delay between connection attempts. Default 100 ms to 30 s, doubling, full jitter. */
  reconnect?: Partial<BackoffOptions>;
  /** Connection refused for a reason that takes longer to pass (quota, ban, taken over). Default 10 s to 5 min. */
  longBackoff?: Partial<BackoffOptions>;
  /** Times in a row another client may take over our client id before we give up. Default 5. */
  maxTakeovers?: number;
  /** Follow a Server Reference (0x9C, 0x9D) to a host of this list (`host` or `host:port`). Default: never follow. */
  serverReferences?: readonly string[];

  /** Bounds publishes that wait for a connection or for the server's Receive Maximum. */
  publishQueue?: PublishQueueOptions;
  /** QoS 2 publishes under way at a time with MQTT 3.1.1, which has no Receive Maximum. Default 20, mosquitto's bound. */
  qos2InFlight?: number;
  will?: WillOptions;
  /** User properties of CONNECT. */
  userProperties?: readonly UserProperty[];
  /** Ask the server for Response Information. Default false. */
  requestResponseInformation?: boolean;
  /** Let the server send reason strings and user properties on every packet. Default true. */
  requestProblemInformation?: boolean;
  /** Filters in one SUBSCRIBE or UNSUBSCRIBE. Default 50. */
  subscribeBatchSize?: number;
}

export interface Credentials {
  readonly username?: string;
  readonly password?: string | Uint8Array;
}

/** The client's side of an AUTH exchange [MQTT5 4.12]. A rejected promise ends the attempt. */
export interface EnhancedAuthentication {
  /** Authentication Method, for example `SCRAM-SHA-256`. */
  readonly method: string;
  /** The data for CONNECT, or for the AUTH that starts a re-authentication. */
  start(): Uint8Array | undefined | Promise<Uint8Array | undefined>;
  /** The answer to an AUTH 0x18 of the server. */
  continue(data: Uint8Array | undefined): Uint8Array | undefined | Promise<Uint8Array | undefined>;
  /** Checks the server's last data (CONNACK or AUTH 0x00); throw to refuse the server. */
  finish?(data: Uint8Array | undefined): void | Promise<void>;
}

export interface WebSocketOptions {
  /** Subprotocol. Default `mqtt`. */
  readonly protocol?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface PublishQueueOptions {
  /** Default 10,000. */
  readonly maxMessages?: number;
  /** Payload and topic bytes. Default 64 MiB. */
  readonly maxBytes?: number;
  /** A full queue rejects the new publish (default), or the oldest one that was never written. Both with ERR_QUEUE_FULL. */
  readonly overflow?: 'reject' | 'dropOldest';
  /** Queue QoS 0 while there is no connection (default), or reject it with ERR_CONNECTION. */
  readonly offlineQos0?: boolean;
}

/** What the broker publishes in our name when we disappear. */
export interface WillOptions {
  readonly topic: string;
  readonly payload?: string | Uint8Array;
  readonly qos?: Qos;
  readonly retain?: boolean;
  /** Will Delay Interval and the PUBLISH properties that a will may carry; MQTT 5. */
  readonly properties?: Properties;
}

/** Complete and checked. */
export interface ResolvedMqttClientOptions {
  readonly endpoints: readonly ResolvedEndpoint[];
  readonly clientId: string;
  readonly protocolVersion: ProtocolVersion | 'auto';
  readonly username: string | undefined;
  readonly password: Buffer | undefined;
  readonly credentials: MqttClientOptions['credentials'];
  readonly authentication: EnhancedAuthentication | undefined;
  readonly tls: TlsOptions | undefined;
  readonly websocket: WebSocketOptions;
  readonly dialer: ((endpoint: Endpoint) => Dialer) | undefined;
  readonly clock: Clock;
  readonly session: SessionSettings;
  readonly store: SessionStore | undefined;
  readonly waitForBroker: boolean;
  readonly reconnect: BackoffOptions;
  readonly longBackoff: BackoffOptions;
  readonly serverReferences: readonly string[];
  readonly will: WillOptions | undefined;
}

/** One address with what its URL said. */
export interface ResolvedEndpoint {
  readonly endpoint: Endpoint;
  readonly username: string | undefined;
  readonly password: Buffer | undefined;
}
