import { Controller } from '@nestjs/common';
import { EventPattern } from '@nestjs/microservices';
import { concat, EMPTY, from, type Observable, of, tap } from 'rxjs';
import { gate, settled, startApp, until } from '../nest/support/app.js';

const work = gate();
const effects: string[] = [];

@Controller()
class Handlers {
  @EventPattern<string>('work')
  work(): Observable<unknown> {
    return concat(of(1), from(work.promise).pipe(tap(() => effects.push('done'))));
  }
  @EventPattern<string>('empty')
  empty(): Observable<never> {
    return EMPTY;
  }
}

it('C17: acknowledged at completion and not at the first value; an empty Observable is success', async () => {
  const { broker, strategy, close } = await startApp([Handlers]);
  broker.publish('work', 'x', { qos: 1 });
  broker.publish('empty', 'x', { qos: 1 });
  await until(() => strategy.stats.succeeded === 1);
  await settled();
  // The empty one is done; its PUBACK waits behind the first.
  expect(broker.log.received('puback')).toEqual([]);
  work.open();
  await broker.log.waitForReceived('puback', 2);
  expect(effects).toEqual(['done']);
  await close();
});
