import { ProducerAccessMode } from './codec/constants.js';
import { type Compression } from './codec/send-types.js';
import { loadCompression } from './compression/index.js';
import { ProducerEncryption } from './crypto/index.js';
import { SendFrameCodec } from './frame-codec.js';
import { loadNativeCrc32c } from './native-crc32c.js';
import { type ResolvedProducerOptions, type ResolvedPulsarClientOptions } from './options.js';
import { PartitionProducer, type PartitionHooks, type ProducerServices } from './partition-producer.js';
import { PulsarProducer } from './producer.js';
import { javaStringHash, murmur3Hash } from './protocol/hashes.js';
import { keyRouter, type MessageRouter, RoundRobin, singlePartition } from './protocol/partitioner.js';
import { partitionName } from './protocol/topic-name.js';

const ACCESS_MODES = {
  shared: ProducerAccessMode.Shared,
  exclusive: ProducerAccessMode.Exclusive,
  waitForExclusive: ProducerAccessMode.WaitForExclusive,
  exclusiveWithFencing: ProducerAccessMode.ExclusiveWithFencing,
} as const;

/** What the frames of a producer pass through. */
export interface FrameTools {
  readonly compression: Compression | undefined;
  readonly encryption: ProducerEncryption | undefined;
}

/** Makes producers out of resolved options. */
export class ProducerFactory {
  private nextProducerId = 0;

  constructor(
    private readonly services: ProducerServices,
    private readonly client: ResolvedPulsarClientOptions,
  ) {}

  /**
   * Everything that has to be loaded, before the first dial: what is not there would fail every message later on.
   *
   * @throws TransportError ERR_DEPENDENCY that names the package to install, ERR_ENCRYPTION that names the key
   */
  async load({ compression, encryption }: ResolvedProducerOptions): Promise<FrameTools> {
    await loadNativeCrc32c();
    return {
      compression: compression === 'none' ? undefined : await loadCompression(compression),
      encryption: encryption && (await ProducerEncryption.open(encryption, this.services.clock)),
    };
  }

  make(
    options: ResolvedProducerOptions,
    tools: FrameTools,
    partitions: number,
    released: (producer: PulsarProducer) => void,
  ): PulsarProducer {
    const { clock, lookup } = this.services;
    const topic = options.topic.full;
    const { router, roundRobin } = this.router(options);
    return new PulsarProducer(
      {
        topic,
        clock,
        sendTimeout: options.sendTimeout,
        closeTimeout: options.closeTimeout,
        schema: options.schema,
        encryption: tools.encryption,
        createTimeout: this.client.createTimeout,
        lazy: options.lazyPartitions,
        router,
        roundRobin,
        interceptors: options.interceptors,
        updateInterval: options.partitionsUpdateInterval,
        countPartitions: () => lookup.partitions(topic),
        makePartition: (index, hooks) => this.partition(options, tools, index, hooks),
        released,
      },
      partitions,
    );
  }

  private partition(
    options: ResolvedProducerOptions,
    { compression, encryption }: FrameTools,
    index: number,
    hooks: PartitionHooks,
  ): PartitionProducer {
    const topic = index < 0 ? options.topic.full : partitionName(options.topic.full, index);
    const { batching } = options;
    return new PartitionProducer(
      {
        topic,
        partition: index,
        name: options.name,
        accessMode: ACCESS_MODES[options.accessMode],
        properties: Object.entries(options.properties).map(([key, value]) => ({ key, value })),
        schema: options.schema?.info,
        encrypted: encryption?.always ?? false,
      },
      {
        topic,
        producerId: this.nextProducerId++,
        batching: batching && { ...batching, keyBased: batching.type === 'keyBased' },
        batchDelay: batching?.maxDelay ?? 0,
        initialSequenceId: options.initialSequenceId,
        chunkBytes: options.chunking ? (options.maxChunkBytes ?? 0) : undefined,
        get chunkOverhead() {
          return encryption?.current?.overhead ?? 0;
        },
        maxPendingMessages: options.maxPendingMessages,
        rejectWhenFull: options.whenFull === 'reject',
        sendTimeout: options.sendTimeout,
        backoff: this.client.backoff,
        exclusive: options.accessMode === 'exclusive',
      },
      new SendFrameCodec(compression, encryption, options.maxChunkBytes),
      this.services,
      hooks,
    );
  }

  private router(options: ResolvedProducerOptions): { router: MessageRouter; roundRobin: RoundRobin | undefined } {
    const { routing, hashing, batching } = options;
    if (typeof routing === 'function') return { router: routing, roundRobin: undefined };
    const hash = hashing === 'murmur3' ? murmur3Hash : javaStringHash;
    const start = Math.floor(this.services.clock.random() * 2 ** 31);
    if (routing === 'single') return { router: keyRouter(hash, singlePartition(start)), roundRobin: undefined };
    const roundRobin = new RoundRobin(
      start,
      batching?.maxMessages ?? 1,
      batching?.maxBytes ?? Infinity,
      Math.max(1, batching?.maxDelay ?? Infinity),
    );
    return { router: keyRouter(hash, roundRobin.route), roundRobin };
  }
}
