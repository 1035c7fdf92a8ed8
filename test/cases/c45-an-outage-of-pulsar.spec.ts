import { setTimeout as sleep } from 'node:timers/promises';
import { Controller, Inject } from '@nestjs/common';
import { EventPattern, Payload } from '@nestjs/microservices';
import { PulsarClientProxy } from '../../lib/index.js';
import { InMemoryMqttBroker, InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { type RunningApp, startApp, until } from '../nest/support/app.js';

const RECEIVE_MAXIMUM = 16;
const MESSAGES = 1500;

@Controller()
class Handlers {
  constructor(@Inject(PulsarClientProxy) private readonly pulsar: PulsarClientProxy) {}
  @EventPattern<string>('devices/+')
  handle(@Payload() payload: Buffer): void {
    this.pulsar.emit('out', payload);
  }
}

interface Bridge extends RunningApp {
  readonly proxy: PulsarClientProxy;
}

// HSLdevcom/mqtt-pulsar-gateway#42, #64, transitdata#162, vector#21967, #25785, drogue-cloud#95, zilla#604. With mosquitto,
// Pulsar and SIGKILL: test/integration/c45.
it.each([5, 4] as const)(
  'C45: MQTT %i: Pulsar goes away and comes back, the app dies once: everything published is stored',
  async (protocolVersion) => {
    // MQTT 3.1.1 has no Receive Maximum: the broker's own bound stands for it.
    const broker = await InMemoryMqttBroker.start(protocolVersion === 4 ? { maxInFlight: RECEIVE_MAXIMUM } : {});
    const pulsar = await InMemoryPulsarBroker.start();
    const start = async (): Promise<Bridge> => {
      const proxy = new PulsarClientProxy({ url: pulsar.url, backoff: { initial: 10, max: 100 } });
      const app = await startApp([Handlers], {
        broker,
        providers: [{ provide: PulsarClientProxy, useValue: proxy }],
        strategy: {
          protocolVersion,
          receiveMaximum: RECEIVE_MAXIMUM,
          redeliverAfter: 200,
          reconnect: { initial: 5, max: 50 },
        },
      });
      return { ...app, proxy };
    };
    const stored = (): string[] => pulsar.topic('out').texts;
    const acknowledged = (): number => broker.log.received('puback').length;
    let mostInFlight = 0;
    const bridge = await start();
    const publishing = (async () => {
      for (let id = 0; id < MESSAGES; id++) {
        broker.publish(`devices/${id % 7}`, String(id), { qos: 1 });
        mostInFlight = Math.max(mostInFlight, broker.session('app')!.inFlight.size);
        if (id % 4 === 3) await sleep(1);
      }
    })();
    await until(() => acknowledged() > 100);

    await pulsar.stopListening();
    pulsar.cut();
    await sleep(50);
    const inOutage = acknowledged();
    await sleep(300);
    expect(acknowledged()).toBe(inOutage);
    expect(bridge.strategy.state).not.toBe('failed');

    // The process dies: nothing is said to anybody any more.
    bridge.strategy.client.destroy();
    bridge.proxy.destroy();
    const next = await start();
    await sleep(200);
    expect(acknowledged()).toBe(inOutage);

    await pulsar.listen();
    await publishing;
    await until(
      () => broker.session('app')!.inFlight.size === 0 && broker.session('app')!.queue.length === 0,
      'all',
      20_000,
    );
    expect(new Set(stored()).size).toBe(MESSAGES);
    expect(mostInFlight).toBeLessThanOrEqual(RECEIVE_MAXIMUM);
    // What is stored twice was sent twice by the broker, with DUP.
    const again = new Set(broker.log.sent('publish').flatMap(({ dup, payload }) => (dup ? [payload.toString()] : [])));
    const all = stored();
    const twice = all.filter((text, index) => all.indexOf(text) !== index);
    expect(twice.filter((text) => !again.has(text))).toEqual([]);
    expect(broker.violations).toEqual([]);
    await next.close();
    await next.proxy.close();
    await bridge.close();
    await broker.close();
    await pulsar.close();
  },
  60_000,
);
