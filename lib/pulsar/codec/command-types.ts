/**
 * The commands this package sends and receives, as flat objects with the names of PulsarApi.proto. 64-bit numbers are plain
 * numbers; -1 stands for 2^64-1, which brokers use for "none". Optional fields are absent, never filled with a default.
 */

export interface KeyValue {
  readonly key: string;
  readonly value: string;
}

export interface FeatureFlags {
  readonly supportsAuthRefresh?: boolean;
  readonly supportsBrokerEntryMetadata?: boolean;
  readonly supportsPartialProducer?: boolean;
  readonly supportsTopicWatchers?: boolean;
  readonly supportsGetPartitionedMetadataWithoutAutoCreation?: boolean;
  readonly supportsReplDedupByLidAndEid?: boolean;
}

export interface AuthData {
  readonly authMethodName?: string;
  readonly authData?: Uint8Array;
}

export interface SchemaInfo {
  readonly name: string;
  readonly schemaData: Uint8Array;
  /** `SchemaType` */
  readonly type: number;
  readonly properties: readonly KeyValue[];
}

export interface MessageIdData {
  readonly ledgerId: number;
  readonly entryId: number;
  readonly partition?: number;
  readonly batchIndex?: number;
  /** Words of 64 bits: the indexes of the batch that are still to be acknowledged. */
  readonly ackSet?: readonly bigint[];
  readonly batchSize?: number;
  readonly firstChunkMessageId?: MessageIdData;
}

interface ByRequest {
  readonly requestId: number;
}
interface ByProducer {
  readonly producerId: number;
}
interface ByConsumer {
  readonly consumerId: number;
}
interface AssignedBroker {
  readonly assignedBrokerServiceUrl?: string;
  readonly assignedBrokerServiceUrlTls?: string;
}

/** What a client sends without a payload; SEND is made by `encodeSingle` and `BatchEncoder`. */
export type ClientCommand =
  | {
      readonly type: 'connect';
      readonly clientVersion: string;
      readonly protocolVersion: number;
      readonly authMethodName?: string;
      readonly authData?: Uint8Array;
      /** The broker that a proxy is to connect to, `host:port`. */
      readonly proxyToBrokerUrl?: string;
      readonly featureFlags?: FeatureFlags;
    }
  | {
      readonly type: 'authResponse';
      readonly clientVersion: string;
      readonly protocolVersion: number;
      readonly response: AuthData;
    }
  | { readonly type: 'ping' }
  | { readonly type: 'pong' }
  | ({
      readonly type: 'partitionMetadata';
      readonly topic: string;
      readonly metadataAutoCreationEnabled?: boolean;
    } & ByRequest)
  | ({
      readonly type: 'lookupTopic';
      readonly topic: string;
      readonly authoritative?: boolean;
      readonly advertisedListenerName?: string;
    } & ByRequest)
  | ({
      readonly type: 'producer';
      readonly topic: string;
      readonly producerName?: string;
      readonly encrypted?: boolean;
      readonly metadata?: readonly KeyValue[];
      readonly schema?: SchemaInfo;
      readonly epoch?: number;
      readonly userProvidedProducerName?: boolean;
      /** `ProducerAccessMode` */
      readonly producerAccessMode?: number;
      readonly topicEpoch?: number;
      readonly initialSubscriptionName?: string;
    } & ByRequest &
      ByProducer)
  | ({ readonly type: 'closeProducer' } & ByRequest & ByProducer)
  | ({ readonly type: 'getOrCreateSchema'; readonly topic: string; readonly schema: SchemaInfo } & ByRequest)
  | ({ readonly type: 'getSchema'; readonly topic: string; readonly schemaVersion?: Uint8Array } & ByRequest)
  | ({
      readonly type: 'getTopicsOfNamespace';
      readonly namespace: string;
      readonly mode?: number;
      readonly topicsPattern?: string;
    } & ByRequest)
  | ({
      readonly type: 'subscribe';
      readonly topic: string;
      readonly subscription: string;
      /** `SubType` */
      readonly subType: number;
      readonly consumerName?: string;
      readonly priorityLevel?: number;
      readonly durable?: boolean;
      readonly startMessageId?: MessageIdData;
      readonly metadata?: readonly KeyValue[];
      readonly readCompacted?: boolean;
      readonly schema?: SchemaInfo;
      /** `InitialPosition` */
      readonly initialPosition?: number;
      readonly replicateSubscriptionState?: boolean;
      readonly forceTopicCreation?: boolean;
      readonly startMessageRollbackDurationSec?: number;
      readonly keySharedMeta?: {
        /** `KeySharedMode` */
        readonly keySharedMode: number;
        readonly hashRanges?: readonly { readonly start: number; readonly end: number }[];
        readonly allowOutOfOrderDelivery?: boolean;
      };
      readonly subscriptionProperties?: readonly KeyValue[];
      readonly consumerEpoch?: number;
    } & ByRequest &
      ByConsumer)
  | ({ readonly type: 'flow'; readonly messagePermits: number } & ByConsumer)
  | ({
      readonly type: 'ack';
      /** `AckType` */
      readonly ackType: number;
      readonly messageId: readonly MessageIdData[];
      /** `AckValidationError` */
      readonly validationError?: number;
      /** Asks for an `ackResponse`. */
      readonly requestId?: number;
    } & ByConsumer)
  | ({
      readonly type: 'redeliverUnacknowledgedMessages';
      readonly messageIds?: readonly MessageIdData[];
      readonly consumerEpoch?: number;
    } & ByConsumer)
  | ({ readonly type: 'unsubscribe'; readonly force?: boolean } & ByRequest & ByConsumer)
  | ({
      readonly type: 'seek';
      readonly messageId?: MessageIdData;
      readonly messagePublishTime?: number;
    } & ByRequest &
      ByConsumer)
  | ({ readonly type: 'getLastMessageId' } & ByRequest & ByConsumer)
  | ({ readonly type: 'closeConsumer' } & ByRequest & ByConsumer);

/** `error` is a number of `ServerError`, possibly one that this package does not know. */
interface MaybeError {
  readonly error?: number;
  readonly message?: string;
}
interface MaybeSchemaError {
  readonly errorCode?: number;
  readonly errorMessage?: string;
  readonly schemaVersion?: Uint8Array;
}

/** What a broker sends. */
export type ServerCommand =
  | SendReceipt
  | MessageCommand
  | {
      readonly type: 'connected';
      readonly serverVersion: string;
      readonly protocolVersion?: number;
      readonly maxMessageSize?: number;
      readonly featureFlags?: FeatureFlags;
    }
  | { readonly type: 'authChallenge'; readonly serverVersion?: string; readonly challenge?: AuthData }
  | { readonly type: 'ping' }
  | { readonly type: 'pong' }
  | ({ readonly type: 'success'; readonly schema?: SchemaInfo } & ByRequest)
  | ({ readonly type: 'error'; readonly error: number; readonly message: string } & ByRequest)
  | ({
      readonly type: 'partitionMetadataResponse';
      readonly partitions?: number;
      /** `PartitionMetadataResult` */
      readonly response?: number;
    } & ByRequest &
      MaybeError)
  | ({
      readonly type: 'lookupTopicResponse';
      readonly brokerServiceUrl?: string;
      readonly brokerServiceUrlTls?: string;
      /** `LookupType` */
      readonly response?: number;
      readonly authoritative?: boolean;
      readonly proxyThroughServiceUrl?: boolean;
    } & ByRequest &
      MaybeError)
  | {
      readonly type: 'topicMigrated';
      readonly resourceId: number;
      /** `ResourceType` */
      readonly resourceType: number;
      readonly brokerServiceUrl?: string;
      readonly brokerServiceUrlTls?: string;
    }
  | ({
      readonly type: 'producerSuccess';
      readonly producerName: string;
      /** -1 or absent: none stored, or no deduplication. */
      readonly lastSequenceId?: number;
      readonly schemaVersion?: Uint8Array;
      readonly topicEpoch?: number;
      /** False: queued until the topic is free; the same request is answered again. Absent: ready. */
      readonly producerReady?: boolean;
    } & ByRequest)
  | ({
      readonly type: 'sendError';
      readonly sequenceId: number;
      readonly error: number;
      readonly message: string;
    } & ByProducer)
  /** Sent by the broker its request id is -1 and answers nothing. */
  | ({ readonly type: 'closeProducer' } & ByRequest & ByProducer & AssignedBroker)
  | ({ readonly type: 'closeConsumer' } & ByRequest & ByConsumer & AssignedBroker)
  | ({ readonly type: 'getOrCreateSchemaResponse' } & ByRequest & MaybeSchemaError)
  | ({ readonly type: 'getSchemaResponse'; readonly schema?: SchemaInfo } & ByRequest & MaybeSchemaError)
  | ({
      readonly type: 'getTopicsOfNamespaceResponse';
      readonly topics: readonly string[];
      readonly filtered?: boolean;
    } & ByRequest)
  | ({ readonly type: 'ackResponse'; readonly requestId?: number } & ByConsumer & MaybeError)
  | ({ readonly type: 'activeConsumerChange'; readonly isActive?: boolean } & ByConsumer)
  | ({ readonly type: 'reachedEndOfTopic' } & ByConsumer)
  | ({
      readonly type: 'getLastMessageIdResponse';
      readonly lastMessageId: MessageIdData;
      readonly consumerMarkDeletePosition?: MessageIdData;
    } & ByRequest)
  /** A command of a newer protocol, or one that only brokers receive: to be ignored and logged, never a reason to close. */
  | { readonly type: 'unknown'; readonly code: number };

/** Ledger and entry are -1 if the broker dropped the frame as a duplicate. */
export interface SendReceipt {
  readonly type: 'sendReceipt';
  readonly producerId: number;
  readonly sequenceId: number;
  /** -1 or 0 where the broker has none: brokers do not agree with themselves on that. */
  readonly highestSequenceId: number;
  readonly ledgerId: number;
  readonly entryId: number;
}

export interface MessageCommand extends ByConsumer {
  readonly type: 'message';
  readonly messageId: MessageIdData;
  readonly redeliveryCount: number;
  /** Words of 64 bits: the indexes of the batch that are still to be acknowledged. Absent: all. */
  readonly ackSet?: readonly bigint[];
  readonly consumerEpoch?: number;
  /** Broker entry metadata, checksum, message metadata and payload: see `decodeEntry`. A view of the input. */
  readonly headersAndPayload: Buffer;
}
