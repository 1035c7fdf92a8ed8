import { Controller } from '@nestjs/common';
import { Ctx, EventPattern, Payload } from '@nestjs/microservices';
import { type MqttMessageContext } from '../../lib/index.js';
import { InMemoryMqttBroker } from '../../lib/testing/index.js';
import { settled, startApp, until } from '../nest/support/app.js';

const seen: { payload: string; dup: boolean }[] = [];
let hangs = true;

@Controller()
class Handlers {
  @EventPattern<string>('t')
  handle(@Payload() payload: Buffer, @Ctx() context: MqttMessageContext): Promise<void> | void {
    seen.push({ payload: payload.toString(), dup: context.getPacket().dup });
    if (hangs) return new Promise(() => undefined);
  }
}

beforeEach(() => {
  seen.length = 0;
  hangs = true;
});

// paho.mqtt.python#348, shamblett/mqtt_client#154, emqx#9188. With SIGKILL and mosquitto: test/integration/c02.
describe.each([
  [5, 1],
  [5, 2],
  [4, 1],
  [4, 2],
] as const)('C02: MQTT %i, QoS %i', (protocolVersion, qos) => {
  it('the next process gets the same payload with DUP, a third one nothing', async () => {
    const broker = await InMemoryMqttBroker.start();
    const start = () => startApp([Handlers], { broker, strategy: { protocolVersion, qos } });
    const first = await start();
    broker.publish('t', 'x', { qos });
    await until(() => seen.length === 1);
    // Nothing is said any more: the connection is just gone, as when the process dies.
    first.strategy.client.destroy();
    await until(() => broker.connections.length === 0);
    expect(broker.log.received('disconnect')).toEqual([]);

    hangs = false;
    const second = await start();
    await broker.log.waitForReceived(qos === 1 ? 'puback' : 'pubrec');
    await until(() => broker.session('app')?.inFlight.size === 0);
    expect(seen).toEqual([
      { payload: 'x', dup: false },
      { payload: 'x', dup: true },
    ]);
    await second.close();

    const third = await start();
    broker.publish('t', 'later', { qos });
    await until(() => seen.length === 3);
    await settled();
    expect(seen.slice(2)).toEqual([{ payload: 'later', dup: false }]);
    expect(broker.violations).toEqual([]);
    await third.close();
    await first.close();
    await broker.close();
  });
});
