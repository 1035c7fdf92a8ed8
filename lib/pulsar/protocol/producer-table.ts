import { LocalProtocolError } from '../../errors.js';

/**
 * The states of one partition's producer and what moves it. `terminated` and `closed` are ends: both reject everything, the
 * first because the broker gave a reason that no repetition cures, the second because the user asked.
 */
export const PRODUCER_TABLE = {
  idle: { start: 'connecting', close: 'closed', terminate: 'terminated' },
  connecting: {
    accepted: 'ready',
    queued: 'queued',
    failed: 'backoff',
    lost: 'backoff',
    terminate: 'terminated',
    close: 'closed',
  },
  queued: { accepted: 'ready', failed: 'backoff', lost: 'backoff', terminate: 'terminated', close: 'closed' },
  ready: { lost: 'backoff', restart: 'backoff', terminate: 'terminated', close: 'closed' },
  backoff: { elapsed: 'connecting', terminate: 'terminated', close: 'closed' },
  terminated: { close: 'closed' },
  closed: {},
} as const satisfies Readonly<Record<string, Readonly<Record<string, string>>>>;

export type ProducerPhase = keyof typeof PRODUCER_TABLE;
export type ProducerCause =
  'start' | 'accepted' | 'queued' | 'failed' | 'lost' | 'restart' | 'elapsed' | 'terminate' | 'close';

/** @throws LocalProtocolError for a pair that is not in the table: a fault of ours */
export function nextPhase(phase: ProducerPhase, cause: ProducerCause): ProducerPhase {
  const next = (PRODUCER_TABLE[phase] as Readonly<Partial<Record<ProducerCause, ProducerPhase>>>)[cause];
  if (next === undefined) throw new LocalProtocolError(`Pulsar producer: '${cause}' is not possible in '${phase}'`);
  return next;
}
