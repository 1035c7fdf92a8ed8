import { Controller } from '@nestjs/common';
import { EventPattern } from '@nestjs/microservices';
import { createDialer, type Dialer, type Endpoint } from '../../lib/net/index.js';
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
  // What has happened when the acknowledgement is written to the socket.
  let timers = 0;
  const timersAtPuback: number[] = [];
  const dialer = (endpoint: Endpoint): Dialer => {
    const dial = createDialer(endpoint);
    return (handlers) => {
      const transport = dial(handlers);
      const write = transport.write.bind(transport);
      transport.write = (chunk) => {
        if (chunk[0] === 0x40) timersAtPuback.push(timers);
        return write(chunk);
      };
      return transport;
    };
  };
  const { broker, close } = await startApp([Handlers], { strategy: { dialer } });
  broker.publish('t', 'x', { qos: 1 });
  await until(() => broker.log.sent('publish').length === 1);
  await settled(50);
  expect(broker.log.received('puback')).toEqual([]);

  setTimeout(() => (timers += 1), 0);
  setImmediate(() => (timers += 1));
  work.open();
  await broker.log.waitForReceived('puback');
  await settled();
  expect(timersAtPuback).toEqual([0]);
  expect(timers).toBe(2);
  expect(broker.log.received('puback')).toHaveLength(1);
  expect(broker.violations).toEqual([]);
  await close();
});
