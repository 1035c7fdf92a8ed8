import { type ProtocolVersion, type UserProperty, type Will } from '../codec/packets.js';

/** The options that the session takes as they are, complete and checked. Times in ms unless said otherwise. */
export interface SessionSettings {
  readonly cleanStart: boolean;
  /** Seconds. */
  readonly sessionExpiry: number;
  /** A session that ends with the connection is what the user wants. */
  readonly ephemeral: boolean;
  readonly userProperties: readonly UserProperty[];
  readonly requestResponseInformation: boolean;
  readonly requestProblemInformation: boolean;

  readonly receiveMaximum: number;
  readonly maximumPacketSize: number;
  readonly topicAliasMaximum: number;
  readonly topicAliases: boolean;
  readonly strictResends: boolean;
  readonly strictReceiveMaximum: boolean;
  readonly overrunLimit: number;
  readonly bindWithoutDup: boolean;

  /** Seconds. */
  readonly keepAlive: number;
  readonly pingTimeout: number | undefined;
  readonly connectTimeout: number;
  readonly subscribeTimeout: number;
  readonly closeTimeout: number;
  readonly subscribeBatchSize: number;
  readonly maxTakeovers: number;

  readonly onSessionLost: 'republish' | 'reject';
  /** QoS 2 publishes under way at a time on a 3.1.1 connection. */
  readonly qos2InFlight: number;
  readonly publishQueue: {
    readonly maxMessages: number;
    readonly maxBytes: number;
    readonly overflow: 'reject' | 'dropOldest';
    readonly offlineQos0: boolean;
  };
}

/** Everything the session has to know; the driver makes it from the user's options. */
export interface SessionConfig extends SessionSettings {
  /** How the servers are called in errors; the index is what `dial` names. At least one. */
  readonly servers: readonly string[];
  readonly clientId: string;
  readonly protocolVersion: ProtocolVersion | 'auto';
  readonly will: Will | undefined;
  readonly authenticationMethod: string | undefined;
  /** The server's last authentication data must be checked by the driver before the connection counts. */
  readonly checksServer: boolean;
  /** Every attempt gets fresh credentials. */
  readonly renewsCredentials: boolean;

  /** Delay before try number `attempt` (0 = the first); `random` in [0, 1). */
  readonly reconnectDelay: (attempt: number, random: number) => number;
  readonly longDelay: (attempt: number, random: number) => number;

  /** Changes of the session are recorded for a store. */
  readonly persistent: boolean;
  /** The number of the first publish: above all that an earlier process gave. */
  readonly firstSequence: number;
  /** Added to `now` it gives milliseconds since the epoch. */
  readonly wallClockOffset: number;
}
