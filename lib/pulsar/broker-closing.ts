import { ConnectionError, type TransportError } from '../errors.js';
import { type ServerCommand } from './codec/command-types.js';
import { ResourceType } from './codec/constants.js';
import { type DialHint } from './protocol/producer-events.js';

/** A producer that the broker has closed, and where its topic is now, if the broker says so. */
export interface BrokerClosing {
  readonly producerId: number;
  readonly error: TransportError;
  readonly hint: DialHint | undefined;
}

/** What CLOSE_PRODUCER or TOPIC_MIGRATED says; undefined for what concerns no producer. */
export function brokerClosing(command: ServerCommand, broker: string): BrokerClosing | undefined {
  if (command.type === 'closeProducer') {
    // Its request id means nothing: -1 from the broker, whatever a proxy makes of it.
    const { producerId, assignedBrokerServiceUrl: plain, assignedBrokerServiceUrlTls: tls } = command;
    const assigned = plain !== undefined || tls !== undefined;
    return {
      producerId,
      error: new ConnectionError(`${broker} closed the producer`),
      hint: assigned ? { brokerServiceUrl: plain, brokerServiceUrlTls: tls, migrated: false } : undefined,
    };
  }
  if (command.type === 'topicMigrated' && command.resourceType === ResourceType.Producer) {
    const { resourceId, brokerServiceUrl, brokerServiceUrlTls } = command;
    return {
      producerId: resourceId,
      error: new ConnectionError(`The topic has moved to another cluster (${broker})`),
      hint: { brokerServiceUrl, brokerServiceUrlTls, migrated: true },
    };
  }
  return undefined;
}
