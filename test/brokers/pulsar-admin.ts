import { request } from 'node:http';

export interface AdminResponse {
  readonly status: number;
  readonly text: string;
}

/** Pulsar's admin REST API, as far as tests need it. Topics are given by their full name (`persistent://t/n/topic`). */
export class PulsarAdmin {
  constructor(
    readonly url: string,
    private readonly token?: string,
  ) {}

  /** One request; resolves with any HTTP status, rejects only when there is no answer. */
  send(method: string, path: string, body?: unknown, timeoutMs = 15_000): Promise<AdminResponse> {
    return new Promise((resolve, reject) => {
      const headers: Record<string, string> = {};
      if (this.token !== undefined) headers['authorization'] = `Bearer ${this.token}`;
      if (body !== undefined) headers['content-type'] = 'application/json';
      const outgoing = request(this.url + path, { method, headers, agent: false, timeout: timeoutMs }, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', reject);
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString('utf8') }),
        );
      });
      outgoing.on('timeout', () => outgoing.destroy(new Error(`no answer to ${method} ${path} in ${timeoutMs} ms`)));
      outgoing.on('error', reject);
      outgoing.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  /** The same, and rejects on a status of 400 and above. */
  async call(method: string, path: string, body?: unknown, timeoutMs?: number): Promise<string> {
    const { status, text } = await this.send(method, path, body, timeoutMs);
    if (status >= 400) throw new Error(`${method} ${path}: HTTP ${status} ${text.slice(0, 300)}`);
    return text;
  }

  /** The broker tells every producer and consumer of the topic to close and look it up again. */
  async unload(topic: string): Promise<void> {
    await this.call('PUT', `${topicPath(topic)}/unload`, undefined, 30_000);
  }

  /** The same for every topic of a namespace: only for a namespace that nobody else uses. */
  async unloadNamespace(namespace: string): Promise<void> {
    await this.call('PUT', `/admin/v2/namespaces/${namespace}/unload`, undefined, 30_000);
  }

  async terminate(topic: string): Promise<void> {
    await this.call('POST', `${topicPath(topic)}/terminate`);
  }

  async delete(topic: string): Promise<void> {
    await this.call('DELETE', `${topicPath(topic)}?force=true`);
  }

  async createTopic(topic: string): Promise<void> {
    await this.call('PUT', topicPath(topic));
  }

  async createPartitionedTopic(topic: string, partitions: number): Promise<void> {
    await this.call('PUT', `${topicPath(topic)}/partitions`, partitions);
  }

  /** More partitions than before. */
  async growPartitions(topic: string, partitions: number): Promise<void> {
    await this.call('POST', `${topicPath(topic)}/partitions`, partitions);
  }

  async createNamespace(namespace: string): Promise<void> {
    await this.call('PUT', `/admin/v2/namespaces/${namespace}`, {});
  }

  async setNamespaceDeduplication(namespace: string, on: boolean): Promise<void> {
    await this.call('POST', `/admin/v2/namespaces/${namespace}/deduplication`, on);
  }

  async setAutoTopicCreation(namespace: string, allowed: boolean): Promise<void> {
    const body = { allowAutoTopicCreation: allowed, topicType: 'non-partitioned' };
    await this.call('POST', `/admin/v2/namespaces/${namespace}/autoTopicCreation`, body);
  }

  /** From the earliest message on. */
  async createSubscription(topic: string, name: string): Promise<void> {
    await this.call('PUT', `${topicPath(topic)}/subscription/${encodeURIComponent(name)}`, {
      ledgerId: -1,
      entryId: -1,
    });
  }

  /** What a subscription has not acknowledged is gone for it; that is the backlog a quota counts. */
  async skipBacklog(topic: string, subscription: string): Promise<void> {
    await this.call('POST', `${topicPath(topic)}/subscription/${encodeURIComponent(subscription)}/skip_all`);
  }

  async setMaxProducers(namespace: string, most: number): Promise<void> {
    await this.call('POST', `/admin/v2/namespaces/${namespace}/maxProducersPerTopic`, most);
  }

  /** Messages a second over all producers of each topic of the namespace; -1 lifts it. */
  async setPublishRate(namespace: string, messagesPerSecond: number): Promise<void> {
    const body = { publishThrottlingRateInMsg: messagesPerSecond, publishThrottlingRateInByte: -1 };
    await this.call('POST', `/admin/v2/namespaces/${namespace}/publishRate`, body);
  }

  async setBacklogQuota(
    namespace: string,
    limitSize: number,
    policy: 'producer_exception' | 'producer_request_hold' | 'consumer_backlog_eviction',
  ): Promise<void> {
    const path = `/admin/v2/namespaces/${namespace}/backlogQuota?backlogQuotaType=destination_storage`;
    await this.call('POST', path, { limitSize, limitTime: -1, policy });
  }

  async removeBacklogQuota(namespace: string): Promise<void> {
    await this.call('DELETE', `/admin/v2/namespaces/${namespace}/backlogQuota?backlogQuotaType=destination_storage`);
  }

  async topics(namespace = 'public/default'): Promise<string[]> {
    return JSON.parse(await this.call('GET', `/admin/v2/persistent/${namespace}`)) as string[];
  }

  async stats(topic: string): Promise<TopicStats> {
    return JSON.parse(await this.call('GET', `${topicPath(topic)}/stats`)) as TopicStats;
  }

  /** The broker's own count of stored entries (a batch is one entry). */
  async entries(topic: string): Promise<number> {
    return (await this.internalStats(topic)).numberOfEntries;
  }

  /** The ids of the ledgers that hold the topic. */
  async ledgers(topic: string): Promise<number[]> {
    return (await this.internalStats(topic)).ledgers.map(({ ledgerId }) => ledgerId);
  }

  /** The payload of one stored entry as text; of a batch, its messages with their framing. */
  entry(topic: string, ledgerId: number, entryId: number): Promise<string> {
    return this.call('GET', `${topicPath(topic)}/ledger/${ledgerId}/entry/${entryId}`);
  }

  private async internalStats(topic: string): Promise<InternalStats> {
    return JSON.parse(await this.call('GET', `${topicPath(topic)}/internalStats`)) as InternalStats;
  }
}

interface InternalStats {
  readonly numberOfEntries: number;
  readonly ledgers: readonly { readonly ledgerId: number }[];
}

export interface TopicStats {
  /** Messages received since the topic was last loaded. */
  readonly msgInCounter: number;
  readonly publishers: readonly { readonly producerName: string; readonly address: string }[];
  /** Producers that wait for exclusive access. */
  readonly waitingPublishers: number;
  /** `Enabled`, `Disabled`, or on the way from one to the other. */
  readonly deduplicationStatus: string;
  readonly subscriptions: Readonly<Record<string, { readonly msgBacklog: number }>>;
}

/** `persistent://tenant/namespace/name` as a path of the admin API. */
function topicPath(topic: string): string {
  const match = /^(persistent|non-persistent):\/\/([^/]+\/[^/]+)\/(.+)$/.exec(topic);
  if (match === null) throw new Error(`not a full topic name: ${topic}`);
  return `/admin/v2/${match[1]}/${match[2]}/${encodeURIComponent(match[3])}`;
}
