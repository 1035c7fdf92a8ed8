import { Controller } from '@nestjs/common';
import { EventPattern } from '@nestjs/microservices';
import { type FailurePolicyOptions } from '../../lib/nest/failure-policy.js';
import { settled, startApp, until } from '../nest/support/app.js';

@Controller()
class Handlers {
  @EventPattern<string>('t')
  handle(): void {
    throw new Error('no');
  }
}

describe.each([
  [5, 1, 'puback', 0x83],
  [5, 2, 'pubrec', 0x83],
  [4, 1, 'puback', 0],
] as const)('C06: MQTT %i, QoS %i', (protocolVersion, qos, acknowledgement, rejectCode) => {
  const start = (failure?: FailurePolicyOptions) =>
    startApp([Handlers], { strategy: { protocolVersion, qos, ...(failure && { failure }) } });

  it('a handler that throws sends no acknowledgement of any code', async () => {
    const { broker, strategy, close } = await start();
    broker.publish('t', 'x', { qos });
    await until(() => strategy.stats.held === 1);
    await settled();
    expect(broker.log.received(acknowledgement)).toEqual([]);
    await close();
  });

  it('reject sends an error code where the version has one, and is counted', async () => {
    const { broker, strategy, close } = await start({ then: 'reject' });
    broker.publish('t', 'x', { qos });
    const [packet] = await broker.log.waitForReceived(acknowledgement);
    expect(packet.reasonCode ?? 0).toBe(rejectCode);
    expect(strategy.stats).toMatchObject({ rejected: 1, succeeded: 0 });
    await close();
  });

  it('discard sends 0x00, and is counted', async () => {
    const { broker, strategy, close } = await start({ then: 'discard' });
    broker.publish('t', 'x', { qos });
    const [packet] = await broker.log.waitForReceived(acknowledgement);
    expect(packet.reasonCode ?? 0).toBe(0);
    expect(strategy.stats).toMatchObject({ discarded: 1, succeeded: 0 });
    await close();
  });
});
