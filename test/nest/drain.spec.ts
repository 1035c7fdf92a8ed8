import { Controller } from '@nestjs/common';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { gate, type RunningApp, settled, startApp, until } from './support/app.js';

let work = gate();
let begun = 0;

@Controller()
class Handlers {
  @MqttEvent('slow', { handlerTimeout: 0 })
  slow(): Promise<void> {
    begun += 1;
    return work.promise;
  }
}

describe('drain()', () => {
  let running: RunningApp;
  let drained: boolean;
  beforeEach(async () => {
    work = gate();
    begun = 0;
    running = await startApp([Handlers], { strategy: { shutdownTimeout: 50 } });
    running.broker.publish('slow', 'x');
    await until(() => begun === 1);
    drained = false;
    void running.strategy.drain().then(() => (drained = true));
    await settled();
    expect(drained).toBe(false);
  });
  afterEach(async () => {
    work.open();
    await running.close();
  });

  it('resolves when what ran has ended, and nothing new has started', async () => {
    running.broker.publish('slow', 'y');
    work.open();
    await until(() => drained);
    expect(begun).toBe(1);
    await running.broker.log.waitForReceived('puback', 1);
  });

  it('resolves when close() is over, although a handler still hangs', async () => {
    await running.app.close();
    await until(() => drained);
    expect(running.broker.log.received('puback')).toEqual([]);
  });

  it('resolves when destroy() has ended everything', async () => {
    running.strategy.destroy();
    await until(() => drained);
  });

  it.each(['close', 'destroy'] as const)('resolves at once after %s, although a handler still hangs', async (how) => {
    await running.strategy[how]();
    await running.strategy.drain();
  });

  it('resume() takes back no close(): it goes on waiting for what runs', async () => {
    await running.close();
    running = await startApp([Handlers], { strategy: { shutdownTimeout: 600_000 } });
    running.broker.publish('slow', 'x');
    await until(() => begun === 2);
    let closed = false;
    const closing = running.app.close().then(() => (closed = true));
    running.strategy.resume();
    await settled();
    expect(closed).toBe(false);
    work.open();
    await closing;
    expect(running.broker.log.received('puback')).toHaveLength(1);
  });

  it('resolves when resume() takes it back: what runs goes on', async () => {
    running.strategy.resume();
    await until(() => drained);
    running.broker.publish('slow', 'y');
    await until(() => begun === 2);
    work.open();
    await running.broker.log.waitForReceived('puback', 2);
  });
});
