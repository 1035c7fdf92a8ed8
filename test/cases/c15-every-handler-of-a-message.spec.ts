import { Controller } from '@nestjs/common';
import { EventPattern } from '@nestjs/microservices';
import { gate, settled, startApp, until } from '../nest/support/app.js';

let outcome = gate();
let ran: string[] = [];

@Controller()
class First {
  @EventPattern<string>('a/b')
  quick(): void {
    ran.push('quick');
  }
  @EventPattern<string>('a/b')
  async slow() {
    ran.push('slow');
    await outcome.promise;
  }
}
@Controller()
class Overlapping {
  @EventPattern<string>('a/+')
  plus(): void {
    ran.push('plus');
  }
  @EventPattern<string>('#')
  hash(): void {
    ran.push('hash');
  }
}

beforeEach(() => {
  outcome = gate();
  ran = [];
});

describe.each([5, 4] as const)('C15, MQTT %i', (protocolVersion) => {
  it('the acknowledgement waits for every handler that matches, and each runs once', async () => {
    const { broker, close } = await startApp([First, Overlapping], { strategy: { protocolVersion } });
    broker.publish('a/b', 'x', { qos: 1 });
    await until(() => ran.length >= 4);
    await settled();
    expect([...ran].sort()).toEqual(['hash', 'plus', 'quick', 'slow']);
    const held = broker.log.sent('publish').length - broker.log.received('puback').length;
    expect(held).toBeGreaterThanOrEqual(1);
    outcome.open();
    await until(() => broker.log.sent('publish').length === broker.log.received('puback').length);
    expect(ran).toHaveLength(4);
    await close();
  });

  it('one that fails keeps the message, though the others succeeded', async () => {
    const { broker, strategy, close } = await startApp([First], { strategy: { protocolVersion } });
    broker.publish('a/b', 'x', { qos: 1 });
    await until(() => ran.length === 2);
    outcome.fail(new Error('no'));
    await until(() => strategy.stats.held === 1);
    await settled();
    expect(broker.log.received('puback')).toEqual([]);
    await close();
  });
});
