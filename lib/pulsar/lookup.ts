import { type TransportError, isTransportError, ConnectionError, RemoteProtocolError } from '../errors.js';
import { type Endpoint } from '../net/dial.js';
import { parseBrokerUrl } from './broker-url.js';
import { PartitionMetadataResult } from './codec/constants.js';
import { type BrokerTarget, type Connection } from './connection.js';
import { type ConnectionPool } from './connection-pool.js';
import { LookupState } from './protocol/lookup-state.js';
import { type DialHint } from './protocol/producer-events.js';
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

  /**
   * A connection to the service; each address is tried once, those that failed lately last. A failure that no repetition
   * cures (a refused credential that stays the same) is not tried elsewhere.
   */
  async service(serviceUrl?: Endpoint): Promise<Connection> {
    if (serviceUrl !== undefined) return this.pool.connect(direct(serviceUrl), 0);
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
        if (!isTransportError(error) || !error.retriable) throw error;
        failure = error;
      }
    }
    throw failure ?? new ConnectionError('No service URL');
  }

  /** Partitions of a topic; 0 = it is not partitioned. */
  partitions(topic: string, serviceUrl?: Endpoint): Promise<number> {
    return this.atService(serviceUrl, async (connection) => {
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
    });
  }

  /** The broker that serves a topic. */
  broker(topic: string, serviceUrl?: Endpoint): Promise<BrokerTarget> {
    return this.atService(serviceUrl, async (service) => {
      const state = new LookupState(topic, this.tls);
      let connection = service;
      for (let step = state.first(); ;) {
        if (step.kind === 'failed') throw step.error;
        if (step.kind === 'found') {
          const logical = this.named(step.brokerUrl);
          return step.throughService
            ? { logical, physical: connection.target.physical, proxied: true }
            : direct(logical);
        }
        if (step.brokerUrl !== undefined) connection = await this.pool.connect(direct(this.named(step.brokerUrl)), 0);
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
    });
  }

  /** The address in a hint of the broker, if there is one of our kind. */
  hinted(hint: DialHint | undefined): Endpoint | undefined {
    const url = this.tls ? hint?.brokerServiceUrlTls : hint?.brokerServiceUrl;
    return url === undefined || url === '' ? undefined : this.named(url);
  }

  /** The broker at an address that the last one named: where that was reached through a proxy, so is this one. */
  assigned(logical: Endpoint, last: BrokerTarget | undefined): BrokerTarget {
    return last?.proxied === true ? { logical, physical: last.physical, proxied: true } : direct(logical);
  }

  /** Never less than what the user asked for: with TLS, credentials must not go over a plain connection. */
  private named(url: string): Endpoint {
    const endpoint = parseBrokerUrl(url);
    if (endpoint.scheme === this.settings.serviceUrls[0].scheme) return endpoint;
    const expected = this.tls ? 'pulsar+ssl://' : 'pulsar://';
    throw new RemoteProtocolError(`The broker named '${url}' where a ${expected} URL was expected`);
  }

  /** What fails at one service address is asked at the next one the next time. */
  private async atService<T>(serviceUrl: Endpoint | undefined, ask: (service: Connection) => Promise<T>): Promise<T> {
    const service = await this.service(serviceUrl);
    const { current } = this;
    try {
      return await ask(service);
    } catch (error) {
      if (serviceUrl === undefined && this.current === current) {
        this.current = (current + 1) % this.settings.serviceUrls.length;
      }
      throw error;
    }
  }
}

function direct(endpoint: Endpoint): BrokerTarget {
  return { logical: endpoint, physical: endpoint, proxied: false };
}
