import { BadRequestException, Catch, Controller, type ExceptionFilter, UseFilters } from '@nestjs/common';
import { EventPattern, RpcException } from '@nestjs/microservices';
import { throwError } from 'rxjs';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { type RunningApp, startApp, until } from './support/app.js';

@Catch()
class Mask implements ExceptionFilter {
  catch() {
    return throwError(() => ({ status: 'error', message: 'masked' }));
  }
}

@Controller()
class Handlers {
  @MqttEvent('error')
  error() {
    throw new Error('reason 4711');
  }
  @MqttEvent('later')
  async later() {
    await Promise.reject(new Error('reason 4711'));
  }
  @MqttEvent('observable')
  observable() {
    return throwError(() => new Error('reason 4711'));
  }
  @MqttEvent('rpc')
  rpc() {
    throw new RpcException('reason 4711');
  }
  @MqttEvent('http')
  http() {
    throw new BadRequestException('reason 4711');
  }
  @UseFilters(Mask)
  @MqttEvent('masked')
  masked() {
    throw new Error('reason 4711');
  }
  @EventPattern<string>('plain')
  plain() {
    throw new Error('reason 4711');
  }
  @MqttEvent('json', { payload: () => Promise.reject(new Error('reason 4711')) })
  json(): void {}
}

let running: RunningApp;
beforeAll(async () => {
  running = await startApp([Handlers]);
});
afterAll(() => running.close());

// Nest logs what no filter handled, with the stack; the strategy's line says to which message it happened.
it.each(['error', 'later', 'observable', 'rpc', 'http', 'masked', 'plain', 'json'])(
  '%s: the error is in the log once, and one line names topic and attempt',
  async (topic) => {
    running.logged.length = 0;
    const { held } = running.strategy.stats;
    running.broker.publish(topic, 'x', { qos: 1 });
    await until(() => running.strategy.stats.held > held);
    expect(running.logged.filter((line) => line.includes('reason 4711'))).toHaveLength(1);
    expect(
      running.logged.filter((line) => line.includes(' failed (') && line.includes(`'${topic}', attempt 1`)),
    ).toHaveLength(1);
    expect(running.logged.filter((line) => line.includes('Internal server error'))).toEqual([]);
  },
);
