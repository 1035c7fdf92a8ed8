import { type TransportError, isTransportError, ConnectionError } from '../errors.js';
import { type Endpoint } from '../net/dial.js';
import { parseBrokerUrl } from './broker-url.js';
import { PartitionMetadataResult } from './codec/constants.js';
import { type BrokerTarget, type Connection } from './connection.js';
import { type ConnectionPool } from './connection-pool.js';
import { LookupState } from './protocol/lookup-state.js';
import { BrokerError } from './protocol/server-errors.js';

export interface LookupSettings {
  readonly serviceUrls: readonly Endpoint[];
  readonly listenerName: string | undefined;
}

/** Asks the cluster who serves a topic and how many partitions it has. */
export class Lookup {
  /** The service address in use; the next one takes its place when it fails. */
  private current = 0;

  constructor(
    private readonly pool: ConnectionPool,
    private readonly settings: LookupSettings,
  ) {}

  get tls(): boolean {
    return this.settings.serviceUrls[0].scheme === 'tls';
  }

  /** A connection to the service; each address is tried once, those that failed lately last. */
  async service(serviceUrl?: Endpoint): Promise<Connection> {
    if (serviceUrl !== undefined) return this.pool.connect({ logical: serviceUrl, physical: serviceUrl }, 0);
    const { serviceUrls } = this.settings;
    const candidates = serviceUrls
      .map((_, index) => (this.current + index) % serviceUrls.length)
      .map((index) => ({ index, wait: this.pool.waitFor(direct(serviceUrls[index]), 0) }))
      .sort((a, b) => a.wait - b.wait);
    let failure: TransportError | undefined;
    for (const { index } of candidates) {
      try {
        const connection = await this.pool.connect(direct(serviceUrls[index]), 0);
        this.current = index;
        return connection;
      } catch (error) {
        if (!isTransportError(error) || error.code === 'ERR_CLOSED') throw error;
        failure = error;
      }
    }
    throw failure ?? new ConnectionError('No service URL');
  }

  /** Partitions of a topic; 0 = it is not partitioned. */
  async partitions(topic: string, serviceUrl?: Endpoint): Promise<number> {
    const connection = await this.service(serviceUrl);
    const answer = await connection.request(`Partitions of '${topic}'`, 'partitionMetadataResponse', (requestId) => ({
      type: 'partitionMetadata',
      topic,
      requestId,
      metadataAutoCreationEnabled: true,
    }));
    if (answer.response === PartitionMetadataResult.Failed || answer.error !== undefined) {
      throw new BrokerError(`Partitions of '${topic}'`, answer.error ?? 0, answer.message ?? 'no reason given');
    }
    return answer.partitions ?? 0;
  }

  /** The broker that serves a topic. */
  async broker(topic: string, serviceUrl?: Endpoint): Promise<BrokerTarget> {
    const state = new LookupState(topic, this.tls);
    let connection = await this.service(serviceUrl);
    for (let step = state.first(); ;) {
      if (step.kind === 'failed') throw step.error;
      if (step.kind === 'found') {
        const logical = parseBrokerUrl(step.brokerUrl);
        return { logical, physical: step.throughService ? connection.target.physical : logical };
      }
      if (step.brokerUrl !== undefined) connection = await this.pool.connect(direct(parseBrokerUrl(step.brokerUrl)), 0);
      const { authoritative } = step;
      const { listenerName } = this.settings;
      step = state.next(
        await connection.request(`Lookup of '${topic}'`, 'lookupTopicResponse', (requestId) => ({
          type: 'lookupTopic',
          topic,
          requestId,
          authoritative,
          ...(listenerName !== undefined && { advertisedListenerName: listenerName }),
        })),
      );
    }
  }
}

function direct(endpoint: Endpoint): BrokerTarget {
  return { logical: endpoint, physical: endpoint };
}
