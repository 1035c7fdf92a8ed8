import { type InMemoryPulsarBroker } from './broker.js';
import { type InMemoryPulsarCluster } from './cluster.js';
import { type PulsarBrokerConnection } from './connection.js';
import { type PulsarFaults } from './faults.js';
import { type PulsarBrokerOptions } from './options.js';
import { ServerError, type ServerErrorName } from './proto.js';

/** What the command handlers need from the broker. */
export interface PulsarHost {
  readonly options: PulsarBrokerOptions;
  readonly cluster: InMemoryPulsarCluster;
  readonly broker: InMemoryPulsarBroker;
  readonly faults: PulsarFaults;
  violation(text: string, connection: PulsarBrokerConnection): void;
}

/** The answer ERROR to a request. */
export function answerError(
  connection: PulsarBrokerConnection,
  requestId: number,
  error: ServerErrorName,
  message: string,
): void {
  connection.answer('error', { requestId, error: ServerError[error], message });
}

/** True if this broker serves the topic; else the request has been answered as Pulsar does without a lookup before it. */
export function isServed(
  host: PulsarHost,
  connection: PulsarBrokerConnection,
  requestId: number,
  topic: string,
): boolean {
  if (host.cluster.ownerOf(topic) === host.broker) return true;
  answerError(
    connection,
    requestId,
    'ServiceNotReady',
    `Namespace bundle for topic (${topic}) not served by this instance. Please redo the lookup.`,
  );
  return false;
}
