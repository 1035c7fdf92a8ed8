/** The bodies of the commands this broker knows, as plain objects (see `proto.ts` for how numbers read). */
import { type WireEvents } from '../connection.js';
import { type MalformedFrameError } from './frames.js';
import { type StoredMessage } from './stored-message.js';

export interface KeyValue {
  readonly key: string;
  readonly value: string;
}
export interface MessageIdData {
  readonly ledgerId: number;
  readonly entryId: number;
  readonly partition?: number;
  readonly batchIndex?: number;
  readonly batchSize?: number;
  /** Words of the set of batch indexes that are NOT acknowledged. */
  readonly ackSet?: readonly bigint[];
}
export interface SchemaData {
  readonly name: string;
  readonly schemaData: Buffer;
  readonly type: number;
  readonly properties?: readonly KeyValue[];
}
interface Failure {
  readonly error?: number;
  readonly message?: string;
}
interface Request {
  readonly requestId: number;
}

export interface PulsarCommands extends WireEvents {
  connect: {
    readonly clientVersion: string;
    readonly protocolVersion?: number;
    readonly authMethodName?: string;
    readonly authData?: Buffer;
    readonly proxyToBrokerUrl?: string;
    readonly featureFlags?: Readonly<Record<string, boolean>>;
  };
  connected: { readonly serverVersion: string; readonly protocolVersion?: number; readonly maxMessageSize?: number };
  authChallenge: { readonly challenge?: { readonly authMethodName?: string; readonly authData?: Buffer } };
  authResponse: { readonly response?: { readonly authMethodName?: string; readonly authData?: Buffer } };
  ping: object;
  pong: object;
  partitionMetadata: Request & { readonly topic: string };
  partitionMetadataResponse: Request & Failure & { readonly partitions?: number; readonly response?: number };
  lookupTopic: Request & {
    readonly topic: string;
    readonly authoritative?: boolean;
    readonly advertisedListenerName?: string;
  };
  lookupTopicResponse: Request &
    Failure & {
      readonly brokerServiceUrl?: string;
      readonly brokerServiceUrlTls?: string;
      /** 0 redirect, 1 connect, 2 failed. */
      readonly response?: number;
      readonly authoritative?: boolean;
      readonly proxyThroughServiceUrl?: boolean;
    };
  producer: Request & {
    readonly topic: string;
    readonly producerId: number;
    readonly producerName?: string;
    readonly encrypted?: boolean;
    readonly metadata?: readonly KeyValue[];
    readonly schema?: SchemaData;
    readonly epoch?: number;
    readonly userProvidedProducerName?: boolean;
    /** 0 Shared, 1 Exclusive, 2 WaitForExclusive, 3 ExclusiveWithFencing. */
    readonly producerAccessMode?: number;
    readonly topicEpoch?: number;
  };
  producerSuccess: Request & {
    readonly producerName: string;
    readonly lastSequenceId?: number;
    readonly schemaVersion?: Buffer;
    readonly topicEpoch?: number;
    readonly producerReady?: boolean;
  };
  send: {
    readonly producerId: number;
    readonly sequenceId: number;
    readonly numMessages?: number;
    readonly highestSequenceId?: number;
    readonly isChunk?: boolean;
    /** Added by this broker where the frame could be read: the messages in it. */
    readonly messages?: readonly StoredMessage[];
  };
  sendReceipt: {
    readonly producerId: number;
    readonly sequenceId: number;
    readonly messageId?: MessageIdData;
    readonly highestSequenceId?: number;
  };
  sendError: {
    readonly producerId: number;
    readonly sequenceId: number;
    readonly error: number;
    readonly message: string;
  };
  closeProducer: Request & {
    readonly producerId: number;
    readonly assignedBrokerServiceUrl?: string;
    readonly assignedBrokerServiceUrlTls?: string;
  };
  topicMigrated: {
    readonly resourceId: number;
    /** 0 producer, 1 consumer. */
    readonly resourceType: number;
    readonly brokerServiceUrl?: string;
    readonly brokerServiceUrlTls?: string;
  };
  success: Request;
  error: Request & { readonly error: number; readonly message: string };
  subscribe: Request & {
    readonly topic: string;
    readonly subscription: string;
    /** 0 Exclusive, 1 Shared, 2 Failover, 3 Key_Shared. */
    readonly subType: number;
    readonly consumerId: number;
    readonly consumerName?: string;
    readonly durable?: boolean;
    readonly startMessageId?: MessageIdData;
    /** 0 latest, 1 earliest. */
    readonly initialPosition?: number;
    readonly consumerEpoch?: number;
  };
  flow: { readonly consumerId: number; readonly messagePermits: number };
  message: {
    readonly consumerId: number;
    readonly messageId: MessageIdData;
    readonly redeliveryCount?: number;
    readonly ackSet?: readonly bigint[];
    readonly consumerEpoch?: number;
  };
  ack: {
    readonly consumerId: number;
    /** 0 individual, 1 cumulative. */
    readonly ackType: number;
    readonly messageId?: readonly MessageIdData[];
    readonly requestId?: number;
  };
  ackResponse: { readonly consumerId: number; readonly requestId?: number; readonly error?: number };
  redeliverUnacknowledgedMessages: {
    readonly consumerId: number;
    readonly messageIds?: readonly MessageIdData[];
    readonly consumerEpoch?: number;
  };
  unsubscribe: Request & { readonly consumerId: number };
  closeConsumer: Request & {
    readonly consumerId: number;
    readonly assignedBrokerServiceUrl?: string;
    readonly assignedBrokerServiceUrlTls?: string;
  };
  seek: Request & {
    readonly consumerId: number;
    readonly messageId?: MessageIdData;
    readonly messagePublishTime?: number;
  };
  getLastMessageId: Request & { readonly consumerId: number };
  getLastMessageIdResponse: Request & {
    readonly lastMessageId: MessageIdData;
    readonly consumerMarkDeletePosition?: MessageIdData;
  };
  reachedEndOfTopic: { readonly consumerId: number };
  activeConsumerChange: { readonly consumerId: number; readonly isActive?: boolean };
  getTopicsOfNamespace: Request & { readonly namespace: string; readonly topicsPattern?: string };
  getTopicsOfNamespaceResponse: Request & { readonly topics?: readonly string[] };
  getSchema: Request & { readonly topic: string; readonly schemaVersion?: Buffer };
  getSchemaResponse: Request & {
    readonly errorCode?: number;
    readonly errorMessage?: string;
    readonly schema?: SchemaData;
    readonly schemaVersion?: Buffer;
  };
  getOrCreateSchema: Request & { readonly topic: string; readonly schema: SchemaData };
  getOrCreateSchemaResponse: Request & {
    readonly errorCode?: number;
    readonly errorMessage?: string;
    readonly schemaVersion?: Buffer;
  };
  malformed: MalformedFrameError;
}

export type PulsarCommandName = Exclude<keyof PulsarCommands, keyof WireEvents>;
