import { PulsarClientProxy } from '../../../lib/index.js';
import { lastValueFrom } from 'rxjs';
import { PulsarWorld, text } from './support/world.js';

const world = new PulsarWorld();
afterEach(() => world.close());

it('a command of an unknown type, or one that belongs to nobody, changes nothing and is told', async () => {
  const broker = await world.broker();
  const client = world.client(broker);
  const ignored: string[] = [];
  client.on('ignoredCommand', ({ command }) => {
    ignored.push(command);
    broker.log.changed();
  });
  const producer = await client.createProducer({ topic: 't' });
  const connection = broker.connection!;
  connection.sendUnknownCommand();
  connection.send('reachedEndOfTopic', { consumerId: 3 });
  connection.send('success', { requestId: 4711 });
  await broker.waitFor(() => ignored.length === 3);
  expect(ignored).toEqual(['type 1000', 'reachedEndOfTopic', 'success to no request']);
  await producer.send(text('after'));
  expect(broker.allConnections).toHaveLength(1);
});

it('the proxy says it in the log, once for each kind', async () => {
  const broker = await world.broker();
  const proxy = new PulsarClientProxy({ url: broker.url });
  const warned: string[] = [];
  proxy['logger'].localInstance.warn = (message: unknown) => void warned.push(String(message));
  await lastValueFrom(proxy.emit('t', 'x'));
  for (let times = 0; times < 3; times++) broker.connection!.sendUnknownCommand();
  await lastValueFrom(proxy.emit('t', 'y'));
  expect(warned).toEqual([`${broker.url} sent a command that means nothing here (type 1000): it is ignored`]);
  await proxy.close();
});
