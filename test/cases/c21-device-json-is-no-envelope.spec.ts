import { Controller } from '@nestjs/common';
import { EventPattern, Payload } from '@nestjs/microservices';
import { settled, startApp, until } from '../nest/support/app.js';

let seen: unknown[] = [];
@Controller()
class Handlers {
  @EventPattern<string>('json', { payload: 'json' })
  json(@Payload() data: unknown): void {
    seen.push(data);
  }
  @EventPattern<string>('raw')
  raw(@Payload() data: Buffer): void {
    seen.push(data);
  }
  @EventPattern<string>('123')
  number(@Payload() data: Buffer): void {
    seen.push(data.toString());
  }
}

beforeEach(() => (seen = []));

it('C21: keys named data and id stay, and nothing is answered', async () => {
  const { broker, close } = await startApp([Handlers]);
  const sent = [
    { data: 1, ts: 2 },
    { id: 'x', data: 1 },
    { pattern: 'p', id: 7, data: { a: 1 } },
  ];
  for (const value of sent) broker.publish('json', JSON.stringify(value), { qos: 1 });
  await until(() => broker.log.received('puback').length === 3);
  expect(seen).toEqual(sent);
  await settled();
  expect(broker.log.received('publish')).toEqual([]);
  await close();
});

it('C22: bytes arrive as bytes; a topic that looks like a number is a topic', async () => {
  const { broker, close } = await startApp([Handlers]);
  const bytes = Buffer.from([0x00, 0xff, 0xfe, 0x80]);
  broker.publish('raw', bytes, { qos: 1 });
  broker.publish('raw', Buffer.alloc(0), { qos: 1 });
  broker.publish('123', 'n', { qos: 1 });
  await until(() => seen.length === 3);
  expect((seen[0] as Buffer).equals(bytes)).toBe(true);
  expect((seen[1] as Buffer).length).toBe(0);
  expect(seen[2]).toBe('n');
  await close();
});

it('a payload that is not the JSON that was asked for is a failure, not a call', async () => {
  const { broker, strategy, close } = await startApp([Handlers]);
  broker.publish('json', '{', { qos: 1 });
  await until(() => strategy.stats.held === 1);
  await settled();
  expect(seen).toEqual([]);
  expect(broker.log.received('puback')).toEqual([]);
  await close();
});
