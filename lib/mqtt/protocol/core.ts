import { type ProtocolVersion } from '../codec/packets.js';
import { type SessionConfig } from './config.js';
import { Outbox } from './outbox.js';
import { PacketIds } from './packet-ids.js';
import { type SessionStoreChange } from './stored-session.js';
import { type ServerLimits } from './types.js';

/** Counted things; names as in `MqttStats`. */
export interface SessionCounters {
  received: number;
  bound: number;
  redelivered: number;
  acknowledged: number;
  staleAcknowledgements: number;
  refusedTransitions: number;
  abandoned: number;
  superseded: number;
  sessionsLost: number;
  connects: number;
  unknownAcknowledgements: number;
  overruns: number;
  droppedQos0: number;
  published: number;
  republished: number;
  possibleDuplicates: number;
}

/** What the parts of a session share. */
export class SessionCore {
  // valid for the session
  readonly outbox = new Outbox();
  readonly ids = new PacketIds();
  readonly counters: SessionCounters = {
    received: 0,
    bound: 0,
    redelivered: 0,
    acknowledged: 0,
    staleAcknowledgements: 0,
    refusedTransitions: 0,
    abandoned: 0,
    superseded: 0,
    sessionsLost: 0,
    connects: 0,
    unknownAcknowledgements: 0,
    overruns: 0,
    droppedQos0: 0,
    published: 0,
    republished: 0,
    possibleDuplicates: 0,
  };
  private changes: SessionStoreChange[] = [];
  private readonly warned = new Set<string>();

  // valid for one connection
  version: ProtocolVersion = 5;
  limits: ServerLimits = PROTOCOL_LIMITS;

  constructor(readonly config: SessionConfig) {}

  /** Notes a change for the session store; the bytes written in the same turn wait for it. */
  record(change: SessionStoreChange): void {
    if (this.config.persistent) this.changes.push(change);
  }

  takeChanges(): SessionStoreChange[] {
    const taken = this.changes;
    this.changes = [];
    return taken;
  }

  get hasChanges(): boolean {
    return this.changes.length > 0;
  }

  warn(message: string): void {
    this.outbox.emit({ kind: 'warning', message });
  }

  /** Warns the first time only. */
  warnOnce(key: string, message: string): void {
    if (this.warned.has(key)) return;
    this.warned.add(key);
    this.warn(message);
  }
}

/** What holds where the server says nothing. */
export const PROTOCOL_LIMITS: ServerLimits = {
  receiveMaximum: 65_535,
  maximumQos: 2,
  retainAvailable: true,
  maximumPacketSize: 268_435_460,
  topicAliasMaximum: 0,
  wildcardSubscriptions: true,
  subscriptionIdentifiers: true,
  sharedSubscriptions: true,
};
