import { type MqttServerStats } from './task-host.js';

export function newServerStats(): MqttServerStats {
  return {
    received: 0,
    succeeded: 0,
    failedRuns: 0,
    timedOut: 0,
    lateCompletions: 0,
    retries: 0,
    held: 0,
    reconnects: 0,
    discarded: 0,
    rejected: 0,
    deadLettered: 0,
    deadLetterFailures: 0,
    unmatched: 0,
    expired: 0,
    replies: 0,
    replyFailed: 0,
    dropped: 0,
  };
}
