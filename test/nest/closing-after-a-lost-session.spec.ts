import { Controller } from '@nestjs/common';
import { Payload } from '@nestjs/microservices';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { settled, startApp, until } from './support/app.js';

let started = 0;

@Controller()
class Handlers {
  @MqttEvent('t')
  t(@Payload() _payload: Buffer): Promise<void> {
    started += 1;
    return new Promise(() => undefined);
  }
}

it.each([
  ['kept its session', false, 'they are not acknowledged, the broker sends them again'],
  ['lost its session', true, '2 of them are LOST with this process'],
])('close() with unfinished messages after the broker has %s says what becomes of them', async (_what, lost, text) => {
  started = 0;
  const running = await startApp([Handlers], { strategy: { shutdownTimeout: 20, reconnect: { initial: 1, max: 5 } } });
  for (const payload of ['a', 'b']) running.broker.publish('t', payload);
  await until(() => started === 2);
  running.broker.cut();
  if (lost) running.broker.dropSession('app');
  await until(() => running.strategy.client.stats.connects === 2);
  if (lost) {
    // One that the new session holds.
    await running.broker.log.waitForReceived('subscribe', 2);
    running.broker.publish('t', 'c');
    await until(() => started === 3);
  }
  await settled();
  expect(running.strategy.client.stats.orphaned).toBe(lost ? 2 : 0);
  await running.app.close();
  const [line] = running.logged.filter((one) => one.startsWith('Closing with'));
  expect(line).toContain(`Closing with ${lost ? 3 : 2} unfinished deliveries`);
  expect(line).toContain(text);
  await running.close();
});
