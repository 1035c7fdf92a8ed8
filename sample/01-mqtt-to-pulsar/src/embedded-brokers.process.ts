/** The process of the embedded brokers: ends when the application that started it closes the channel. */
import { type AddressInfo, createServer } from 'node:net';
import { Aedes } from 'aedes';
import { InMemoryPulsarBroker } from '../../../lib/testing/index.js';
import { type BrokerAnswer, type BrokerRequest } from './embedded-brokers.js';

const aedes = await Aedes.createBroker();
const server = createServer(aedes.handle.bind(aedes));
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
const pulsar = await InMemoryPulsarBroker.start();
const answer = (message: BrokerAnswer): void => void process.send?.(message);

process.on('message', ({ read }: BrokerRequest) => {
  const payloads = pulsar.topic(read).messages.map(({ payload }) => (payload ?? Buffer.alloc(0)).toString('utf8'));
  answer({ payloads });
});
process.on('disconnect', () => process.exit(0));
answer({ mqttUrl: `mqtt://127.0.0.1:${(server.address() as AddressInfo).port}`, pulsarUrl: pulsar.url });
