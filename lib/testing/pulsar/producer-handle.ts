import { type PulsarCommands } from './commands.js';
import { type PulsarBrokerConnection } from './connection.js';
import { type PulsarTopic } from './topic.js';

/** A producer at the broker: made by PRODUCER, gone with CLOSE_PRODUCER or its connection. */
export interface ProducerHandle {
  readonly connection: PulsarBrokerConnection;
  readonly topic: PulsarTopic;
  readonly producerId: number;
  readonly requestId: number;
  readonly name: string;
  readonly epoch: number;
  readonly command: PulsarCommands['producer'];
  readonly schemaVersion: Buffer | undefined;
  /** False while it waits for exclusive access. */
  ready: boolean;
  topicEpoch: number | undefined;
  /** Another producer took exclusive access with fencing; its next SEND closes the connection. */
  fenced: boolean;
  /** A message larger than the broker's limit but not larger than a frame may be: nothing is answered any more. */
  wedged: boolean;
}
