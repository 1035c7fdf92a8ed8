import { Controller } from '@nestjs/common';
import { EventPattern, Payload } from '@nestjs/microservices';
import { startApp, until } from '../nest/support/app.js';

let failing = true;
const seen: string[] = [];

@Controller()
class Handlers {
  @EventPattern<string>('t')
  handle(@Payload() payload: Buffer): void {
    seen.push(payload.toString());
    if (failing) throw new Error('not yet');
  }
}

it('C07: failures fill the window, status says stalled, one controlled reconnect brings them again', async () => {
  const { broker, strategy, logged, close } = await startApp([Handlers], {
    strategy: { receiveMaximum: 3, redeliverAfter: 300 },
  });
  const states: string[] = [];
  strategy.status.subscribe((state) => states.push(state));
  for (const payload of ['1', '2', '3', '4']) broker.publish('t', payload, { qos: 1 });
  await until(() => strategy.stats.held === 3);
  expect(states.at(-1)).toBe('stalled');
  expect(strategy.health().status).toBe('down');
  expect(logged.some((line) => line.includes("'t'") && line.includes('attempt 1'))).toBe(true);
  expect(seen).toEqual(['1', '2', '3']);

  failing = false;
  await until(() => strategy.stats.succeeded === 4);
  await until(() => broker.log.received('puback').length === 4);
  expect(strategy.stats.reconnects).toBe(1);
  expect(broker.log.received('connect')).toHaveLength(2);
  expect(seen).toEqual(['1', '2', '3', '1', '2', '3', '4']);
  const again = broker.log.of('publish', { direction: 'out' }).slice(3);
  expect(again.slice(0, 3).map(({ packet }) => packet.dup)).toEqual([true, true, true]);
  expect(strategy.health().status).toBe('up');
  expect(states.at(-1)).toBe('connected');
  expect(broker.violations).toEqual([]);
  await close();
});
