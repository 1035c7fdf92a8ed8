import { type PulsarCommands } from './commands.js';
import { type PulsarBrokerConnection } from './connection.js';
import { type PulsarHost } from './host.js';
import { ServerError } from './proto.js';
import { registerSchema } from './schemas.js';

const LookupType = { Redirect: 0, Connect: 1, Failed: 2 } as const;
const MetadataType = { Success: 0, Failed: 1 } as const;

/** Where a topic is, how many partitions it has, which topics there are, and schemas. */
export class LookupHandler {
  constructor(private readonly host: PulsarHost) {}

  partitionMetadata(command: PulsarCommands['partitionMetadata'], connection: PulsarBrokerConnection): void {
    const { requestId, topic } = command;
    const { cluster, faults } = this.host;
    const failure = faults.takeFailure('partitionMetadata') ?? this.refusal(topic);
    if (failure !== undefined) {
      connection.answer('partitionMetadataResponse', { requestId, response: MetadataType.Failed, ...failure });
      return;
    }
    const partitions = cluster.partitionsOf(topic) ?? 0;
    const missing = partitions === 0 && cluster.find(topic) === undefined && !cluster.autoTopicCreation;
    if (missing) {
      const error = ServerError.TopicNotFound;
      const message = `Topic not found: ${topic}`;
      connection.answer('partitionMetadataResponse', { requestId, response: MetadataType.Failed, error, message });
      return;
    }
    connection.answer('partitionMetadataResponse', { requestId, response: MetadataType.Success, partitions });
  }

  lookupTopic(command: PulsarCommands['lookupTopic'], connection: PulsarBrokerConnection): void {
    const { requestId, topic } = command;
    const { cluster, faults, broker, options } = this.host;
    const scripted = faults.takeLookup();
    if (scripted !== undefined) {
      connection.answer('lookupTopicResponse', { requestId, ...scripted });
      return;
    }
    const failure = faults.takeFailure('lookupTopic') ?? this.refusal(topic);
    if (failure !== undefined) {
      connection.answer('lookupTopicResponse', { requestId, response: LookupType.Failed, ...failure });
      return;
    }
    const owner = cluster.acquire(topic, broker);
    connection.answer('lookupTopicResponse', {
      requestId,
      response: owner === broker ? LookupType.Connect : LookupType.Redirect,
      ...urlField(owner.url),
      authoritative: true,
      proxyThroughServiceUrl: owner === broker && (options.proxyThroughServiceUrl ?? cluster.brokers.length === 1),
    });
  }

  getTopicsOfNamespace(command: PulsarCommands['getTopicsOfNamespace'], connection: PulsarBrokerConnection): void {
    const prefix = `persistent://${command.namespace}/`;
    const pattern = command.topicsPattern === undefined ? undefined : new RegExp(command.topicsPattern);
    const topics = this.host.cluster.topicNames.filter(
      (name) => name.startsWith(prefix) && (pattern === undefined || pattern.test(name)),
    );
    connection.answer('getTopicsOfNamespaceResponse', { requestId: command.requestId, topics });
  }

  getSchema(command: PulsarCommands['getSchema'], connection: PulsarBrokerConnection): void {
    const { requestId, topic, schemaVersion } = command;
    const failure = this.host.faults.takeFailure('getSchema');
    if (failure !== undefined) {
      connection.answer('getSchemaResponse', { requestId, errorCode: failure.error, errorMessage: failure.message });
      return;
    }
    const schemas = this.host.cluster.find(topic)?.schemas ?? [];
    const version = schemaVersion === undefined ? schemas.length - 1 : Number(schemaVersion.readBigInt64BE(0));
    const schema = schemas[version];
    if (schema === undefined) {
      const errorMessage = 'Topic not found or no-schema';
      connection.answer('getSchemaResponse', { requestId, errorCode: ServerError.TopicNotFound, errorMessage });
      return;
    }
    const found = Buffer.alloc(8);
    found.writeBigInt64BE(BigInt(version));
    connection.answer('getSchemaResponse', { requestId, schema, schemaVersion: found });
  }

  getOrCreateSchema(command: PulsarCommands['getOrCreateSchema'], connection: PulsarBrokerConnection): void {
    const { requestId } = command;
    const fail = (errorCode: number, errorMessage: string): void =>
      connection.answer('getOrCreateSchemaResponse', { requestId, errorCode, errorMessage });
    const failure = this.host.faults.takeFailure('getOrCreateSchema');
    if (failure !== undefined) return fail(failure.error, failure.message);
    const topic = this.host.cluster.find(command.topic);
    if (topic === undefined) return fail(ServerError.TopicNotFound, 'Topic not found');
    const schemaVersion = registerSchema(topic, command.schema, this.host.options);
    if (schemaVersion === undefined) return fail(ServerError.IncompatibleSchema, 'Incompatible schema');
    connection.answer('getOrCreateSchemaResponse', { requestId, schemaVersion });
  }

  private refusal(topic: string): { readonly error: number; readonly message: string } | undefined {
    if (!/^(non-)?persistent:\/\/[^/]+\/[^/]+\/.+$/.test(topic)) {
      return { error: ServerError.InvalidTopicName, message: `Invalid topic name: ${topic}` };
    }
    const message = this.host.options.authorize?.(topic, 'lookup');
    return message === undefined ? undefined : { error: ServerError.AuthorizationError, message };
  }
}

/** The field of an answer that a broker's URL goes into. */
export function urlField(
  url: string,
): { readonly brokerServiceUrl: string } | { readonly brokerServiceUrlTls: string } {
  return url.startsWith('pulsar+ssl:') ? { brokerServiceUrlTls: url } : { brokerServiceUrl: url };
}
