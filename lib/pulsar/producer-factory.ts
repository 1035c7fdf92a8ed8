import { type SchemaInfo } from './codec/command-types.js';
import { ProducerAccessMode } from './codec/constants.js';
import { SendFrameCodec } from './frame-codec.js';
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

/** Makes producers out of resolved options. Everything that has to be loaded is loaded here, before the first dial. */
export class ProducerFactory {
  private nextProducerId = 0;

  constructor(
    private readonly services: ProducerServices,
    private readonly client: ResolvedPulsarClientOptions,
  ) {}

  async make(
    options: ResolvedProducerOptions,
    partitions: number,
    released: (producer: PulsarProducer) => void,
  ): Promise<PulsarProducer> {
    const { clock, lookup } = this.services;
    const topic = options.topic.full;
    const { router, roundRobin } = this.router(options);
    return new PulsarProducer(
      {
        topic,
        clock,
        sendTimeout: options.sendTimeout,
        closeTimeout: options.closeTimeout,
        createTimeout: this.client.createTimeout,
        lazy: options.lazyPartitions,
        router,
        roundRobin,
        interceptors: options.interceptors,
        updateInterval: options.partitionsUpdateInterval,
        countPartitions: () => lookup.partitions(topic),
        makePartition: (index, hooks) => this.partition(options, index, hooks, undefined),
        released,
      },
      partitions,
    );
  }

  private partition(
    options: ResolvedProducerOptions,
    index: number,
    hooks: PartitionHooks,
    schema: SchemaInfo | undefined,
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
        schema,
        encrypted: false,
      },
      {
        topic,
        producerId: this.nextProducerId++,
        batching: batching && { ...batching, keyBased: batching.type === 'keyBased' },
        batchDelay: batching?.maxDelay ?? 0,
        initialSequenceId: options.initialSequenceId,
        chunkBytes: options.chunking ? (options.maxChunkBytes ?? 0) : undefined,
        maxPendingMessages: options.maxPendingMessages,
        rejectWhenFull: options.whenFull === 'reject',
        sendTimeout: options.sendTimeout,
        backoff: this.client.backoff,
      },
      new SendFrameCodec(undefined, undefined, options.maxChunkBytes),
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
    const roundRobin = new RoundRobin(start, batching?.maxMessages ?? 1, batching?.maxBytes ?? Infinity);
    return { router: keyRouter(hash, roundRobin.route), roundRobin };
  }
}
