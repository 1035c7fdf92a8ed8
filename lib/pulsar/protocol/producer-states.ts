/** The states of a producer on one partition, as a table: an unknown pair of state and cause is a mistake of ours. */
import { LocalProtocolError } from '../../errors.js';

export type ProducerStateName = 'connecting' | 'ready' | 'draining' | 'drainingOffline' | 'closed' | 'terminated';
export type ProducerCause = 'linkUp' | 'linkDown' | 'close' | 'drained' | 'terminate';

/** `draining` is a close that still has frames to settle, with (`draining`) or without (`drainingOffline`) a link. */
export const PRODUCER_TRANSITIONS = {
  connecting: { linkUp: 'ready', linkDown: 'connecting', close: 'drainingOffline', terminate: 'terminated' },
  ready: { linkDown: 'connecting', close: 'draining', terminate: 'terminated' },
  draining: { linkDown: 'drainingOffline', close: 'draining', drained: 'closed', terminate: 'terminated' },
  drainingOffline: {
    linkUp: 'draining',
    linkDown: 'drainingOffline',
    close: 'drainingOffline',
    drained: 'closed',
    terminate: 'terminated',
  },
  closed: { linkDown: 'closed', close: 'closed', terminate: 'closed' },
  terminated: { linkDown: 'terminated', close: 'terminated', terminate: 'terminated' },
} as const satisfies Record<ProducerStateName, Partial<Record<ProducerCause, ProducerStateName>>>;

export function nextProducerState(state: ProducerStateName, cause: ProducerCause): ProducerStateName {
  const next = (PRODUCER_TRANSITIONS[state] as Partial<Record<ProducerCause, ProducerStateName>>)[cause];
  if (next === undefined) throw new LocalProtocolError(`producer: '${cause}' cannot happen in state '${state}'`);
  return next;
}
