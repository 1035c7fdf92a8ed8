import { Controller } from '@nestjs/common';
import { EventPattern } from '@nestjs/microservices';
import { gate, settled, startApp, until } from '../nest/support/app.js';

const work = gate();

@Controller()
class Handlers {
  @EventPattern<string>('t')
  async handle() {
    await work.promise;
  }
}

it('C01: no PUBACK while the handler runs, exactly one in the turn in which it ends', async () => {
  const { broker, strategy, close } = await startApp([Handlers]);
  broker.publish('t', 'x', { qos: 1 });
  await until(() => broker.log.sent('publish').length === 1);
  await settled(50);
  expect(broker.log.received('puback')).toEqual([]);

  // The acknowledgement is released in the promise reactions of the handler's end: no timer has run when it is released.
  let timers = 0;
  setImmediate(() => (timers += 1));
  const released = new Promise<number>((resolve) => {
    const { acknowledge } = strategy.client;
    strategy.client.acknowledge = (...given) => {
      const answer = acknowledge.apply(strategy.client, given);
      process.nextTick(() => resolve(timers));
      return answer;
    };
  });
  work.open();
  expect(await released).toBe(0);
  await broker.log.waitForReceived('puback');
  await settled();
  expect(broker.log.received('puback')).toHaveLength(1);
  expect(broker.violations).toEqual([]);
  await close();
});
