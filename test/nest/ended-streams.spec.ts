import { Controller } from '@nestjs/common';
import { concat, of, throwError, timer } from 'rxjs';
import { MqttRequest } from '../../lib/nest/decorators.js';
import { startApp, until } from './support/app.js';

@Controller()
class Handlers {
  @MqttRequest('completes', { acknowledge: 'onFirstReply' })
  completes() {
    return concat(of(1), timer(5));
  }
  @MqttRequest('errors', { acknowledge: 'onFirstReply' })
  errors() {
    return concat(
      of(1),
      timer(5),
      throwError(() => new Error('no')),
    );
  }
}

it.each(['completes', 'errors'])('a stream that %s after its request was acknowledged is not kept', async (topic) => {
  const running = await startApp([Handlers]);
  for (let i = 0; i < 3; i += 1) {
    running.broker.publish(topic, 'x', { properties: { responseTopic: 'replies' } });
  }
  await running.broker.log.waitForReceived('puback', 3);
  await until(() => running.broker.log.received('publish').length === (topic === 'completes' ? 6 : 9));
  await until(() => running.strategy.abortable.size === 0);
  await running.close();
});
