import { idOf, type StoredMessage } from '../wire/index.js';
import { type SenderReport } from './sender-messages.js';

export interface ClusterFaults {
  readonly moves: number;
  readonly kills: number;
  readonly restarts: number;
  readonly seconds: number;
  /** What this cluster does with a moved topic: answers lookups elsewhere with a redirect, or names the next broker. */
  readonly evidence: 'redirects' | 'assigned';
}

/**
 * Compares what the producers were told with what the topics hold; prints violations and, in the last line, the figures as
 * JSON. False on any violation.
 */
export function verdict(
  outcome: Extract<SenderReport, { kind: 'stopped' }>,
  resolvedInPause: readonly number[],
  stored: readonly (readonly StoredMessage[])[],
  faults: ClusterFaults,
): boolean {
  const resolved = new Set(outcome.resolved);
  const names = new Map<number, Set<string>>();
  let copies = 0;
  let outOfOrder = 0;
  for (const topic of stored) {
    let highest = -1;
    for (const message of topic) {
      const id = idOf(message.payload);
      if (id < outcome.sent) copies++;
      const known = names.get(id);
      if (known !== undefined) {
        known.add(`${message.producerName}:${message.sequenceId}`);
        continue;
      }
      names.set(id, new Set([`${message.producerName}:${message.sequenceId}`]));
      // First copies must be in the order of the calls; what is sent again after a reconnect only adds copies.
      if (id < highest) outOfOrder++;
      highest = Math.max(highest, id);
    }
  }
  const distinct = [...names.keys()].filter((id) => id < outcome.sent).length;
  const lost = outcome.resolved.filter((id) => !names.has(id));
  const twice = [...names].filter(([, senders]) => senders.size > 1).map(([id]) => id);
  const unaccounted = outcome.sent - resolved.size - outcome.rejected.length - outcome.hung;
  const fewestMoves = Math.floor(faults.seconds / 6);
  const brokers = Object.keys(outcome.connections).length;
  const violations = [
    lost.length > 0 && `resolved and not stored: ${lost.slice(0, 20).join(', ')}`,
    outOfOrder > 0 && `${outOfOrder} first copies behind a higher number`,
    outcome.hung > 0 && `${outcome.hung} sends without an outcome`,
    outcome.rejected.length > 0 && `${outcome.rejected.length} sends rejected, although every fault passes`,
    resolvedInPause.length > 0 && `${resolvedInPause.length} sends resolved while no broker answered`,
    twice.length > 0 && `sent twice with different sequence ids: ${twice.slice(0, 20).join(', ')}`,
    unaccounted !== 0 && `${unaccounted} sends settled more or less than once`,
  ].filter((violation) => typeof violation === 'string');
  const missing = [
    faults.moves < fewestMoves && `only ${faults.moves} of at least ${fewestMoves} moves`,
    faults.kills + faults.restarts < 2 && 'no broker was killed and none restarted',
    outcome[faults.evidence] === 0 && `no ${faults.evidence} seen on the wire`,
    brokers < 2 && 'only one broker was used',
    outcome.sent === 0 && 'nothing was sent',
  ].filter((lack) => typeof lack === 'string');
  for (const lack of missing) console.log(`this run proves nothing: ${lack}`);
  for (const violation of violations) console.log(`VIOLATION ${violation}`);
  for (const reason of new Set(outcome.rejected.map(([, text]) => text))) console.log(`rejected with: ${reason}`);
  console.log(
    JSON.stringify({
      sent: outcome.sent,
      resolved: resolved.size,
      rejected: outcome.rejected.length,
      stored: distinct,
      lost: lost.length,
      duplicates: copies - distinct,
      outOfOrder,
      hung: outcome.hung,
      moves: faults.moves,
      kills: faults.kills,
      restarts: faults.restarts,
      redirects: outcome.redirects,
      closedProducers: outcome.closedProducers,
      assigned: outcome.assigned,
      connections: Object.values(outcome.connections).reduce((sum, count) => sum + count, 0),
    }),
  );
  return violations.length + missing.length === 0;
}
