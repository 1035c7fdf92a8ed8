import { Controller } from '@nestjs/common';
import { Ctx, Payload } from '@nestjs/microservices';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { type RunningApp, startApp, until } from './support/app.js';

let runs: string[] = [];

@Controller()
class Handlers {
  @MqttEvent('q/+', { qos: 2 })
  handle(@Payload() payload: Buffer, @Ctx() context: MqttMessageContext): void {
    runs.push(`${context.getTopic()} ${payload.toString()}`);
  }
}

let running: RunningApp;
beforeEach(() => (runs = []));
afterEach(() => running.close());

// A broker may take an identifier for another message as soon as it has PUBCOMP [MQTT-4.3.3-12]. When that one is lost with
// the connection it comes as a copy (DUP), and a device that reports the same value twice gives it the same content: it
// cannot be told from a message that a broker sends again against [MQTT-4.3.3-6] although it had sent PUBREL. So it runs:
// one run too many is better than a message that is lost.
it.each([5, 4] as const)(
  'MQTT %i: once PUBREL has come the identifier is free: what comes with it next is a new message, also as a copy and with the same content',
  async (protocolVersion) => {
    running = await startApp([Handlers], { strategy: { protocolVersion, reconnect: { initial: 5, max: 10 } } });
    const { broker } = running;
    broker.publish('q/1', '21.5', { qos: 2 });
    const [pubcomp] = await broker.log.waitForReceived('pubcomp', 1);
    expect(runs).toEqual(['q/1 21.5']);
    broker.cut();
    await until(() => broker.log.received('connect').length === 2 && running.strategy.state === 'connected');
    broker.connection!.send({
      cmd: 'publish',
      topic: 'q/1',
      payload: '21.5',
      qos: 2,
      messageId: pubcomp.messageId,
      dup: true,
      retain: false,
    });
    await broker.log.waitForReceived('pubrec', 2);
    expect(runs).toEqual(['q/1 21.5', 'q/1 21.5']);
    expect(running.strategy.stats.succeeded).toBe(2);
  },
);
