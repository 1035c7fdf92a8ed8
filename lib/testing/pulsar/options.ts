import { type TlsOptions } from 'node:tls';
import { type InMemoryPulsarCluster } from './cluster.js';
import { type SchemaData } from './commands.js';
import { type PulsarBrokerConnection } from './connection.js';
import { type CompressionName, type Decompress } from './stored-message.js';

/** How the broker behaves; every field may be changed while it runs, through `broker.options`. */
export interface PulsarBrokerOptions {
  /** Default 127.0.0.1. */
  host?: string;
  /** Default 0: any free port. */
  port?: number;
  /** Speaks TLS alone, with these settings of Node: `cert`, `key`, and `ca` with `requestCert` for client certificates. */
  tls?: TlsOptions;
  /** The host that clients are told to come to. Default: `host`. */
  advertisedHost?: string;
  /** Shares topics and ownership with the other brokers of the cluster. */
  cluster?: InMemoryPulsarCluster;
  /** Bytes of metadata and payload of one SEND. Default 5 MiB. */
  maxMessageSize?: number;
  /** What CONNECTED announces. Default 21. */
  protocolVersion?: number;
  /** The role for these credentials; undefined or false refuses. Default: everybody is let in. */
  authenticate?: (method: string, data: Buffer, connection: PulsarBrokerConnection) => boolean | Promise<boolean>;
  /** Why a client may not use a topic; undefined lets it. Answered with AuthorizationError. */
  authorize?: (topic: string, action: 'lookup' | 'produce' | 'consume') => string | undefined;
  /** In successful lookups: the client shall dial the service URL it knows, as standalone says. Default: true alone, false in a cluster. */
  proxyThroughServiceUrl?: boolean;
  /** Milliseconds between PINGs; two without any answer end the connection. Default 30,000; 0 for none. */
  keepAliveInterval?: number;
  /** Milliseconds in which the older connection must answer PING when a producer of the same name comes. Default 5,000. */
  livenessTimeout?: number;
  /** Milliseconds in which AUTH_CHALLENGE must be answered. Default: for ever. */
  authChallengeTimeout?: number;
  /** False refuses a schema with IncompatibleSchema. Default: every schema is accepted. */
  schemaCompatible?: (topic: string, existing: readonly SchemaData[], next: SchemaData) => boolean;
  /** To read compressed messages back; ZLIB needs none. */
  decompress?: Partial<Record<CompressionName, Decompress>>;
  /** Entries the wire log keeps. Default 100,000. */
  logLimit?: number;
}
