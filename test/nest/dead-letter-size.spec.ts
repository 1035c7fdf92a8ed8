import { Controller } from '@nestjs/common';
import { Ctx, type ReadPacket } from '@nestjs/microservices';
import { type DeadLetterOptions, MqttClientProxy, PulsarClientProxy, TransportError } from '../../lib/index.js';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { type MqttMessageContext } from '../../lib/nest/mqtt-message.context.js';
import { InMemoryMqttBroker, InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { startApp, until } from './support/app.js';
import { EventClient } from './support/event-client.js';

@Controller()
class Handlers {
  @MqttEvent('big', { failure: { then: 'deadLetter' } })
  big(): void {
    throw new Error('poison');
  }
  @MqttEvent('why')
  why(@Ctx() context: MqttMessageContext): void {
    context.deadLetter('w'.repeat(70_000));
  }
}

const LIMIT = 2_000;
let broker: InMemoryMqttBroker;
beforeEach(async () => {
  broker = await InMemoryMqttBroker.start({ limits: { maximumPacketSize: LIMIT } });
});
afterEach(() => broker.close());

const start = (client: DeadLetterOptions['client']) =>
  startApp([Handlers], { broker, strategy: { redeliverAfter: 20, deadLetter: { client, pattern: 'letters' } } });

describe("a dead letter at the limit of its target's broker leaves with less beside the payload", () => {
  it.each<[string, number, object, string[], string]>([
    [
      "without the message's own properties",
      1_000,
      { userProperties: { own: 'x'.repeat(900) } },
      ['at', 'attempt', 'error', 'left-out', 'qos', 'reason', 'received-at', 'run', 'topic'],
      "left without the message's own properties: Publish to 'letters': ",
    ],
    [
      'with topic and reason',
      1_900,
      {},
      ['left-out', 'reason', 'topic'],
      'left without properties besides topic and reason',
    ],
    ['alone', 1_980, {}, [], 'left without any property'],
  ])('MQTT: %s', async (_name, size, properties, about, said) => {
    const client = new MqttClientProxy({ url: broker.url });
    const running = await start(client);
    const payload = Buffer.alloc(size, 0xfe);
    broker.publish('big', payload, { properties });
    await broker.log.waitForReceived('puback', 1);
    const [letter] = broker.log.received('publish');
    expect(letter.payload).toEqual(payload);
    const carried = letter.properties?.userProperties ?? {};
    expect(Object.keys(carried).sort()).toEqual(about.map((name) => `dead-letter-${name}`));
    if (about.length > 0) expect(carried).toMatchObject({ 'dead-letter-topic': 'big' });
    expect(running.logged.filter((line) => line.includes(said) && line.includes(`is ${LIMIT}`))).toHaveLength(1);
    expect(running.strategy.stats).toMatchObject({ deadLettered: 1, deadLetterFailures: 0 });
    await running.close();
    await client.close();
  });

  it('MQTT: is kept where even the payload is too large, with the limit and what to do in the log', async () => {
    const client = new MqttClientProxy({ url: broker.url });
    const running = await start(client);
    broker.publish('big', Buffer.alloc(1_990));
    await until(() => running.strategy.stats.deadLetterFailures > 1);
    expect(running.strategy.state).toBe('stalled');
    expect(broker.log.received('puback')).toEqual([]);
    const line = running.logged.find((one) =>
      one.includes('payload of 1990 bytes does not fit even without properties'),
    );
    expect(line).toMatch(/Raise the target's limit.*Maximum Packet Size is 2000/);
    await running.close();
    await client.close();
  });

  it('Pulsar: properties count there too', async () => {
    const pulsar = await InMemoryPulsarBroker.start({ maxMessageSize: LIMIT });
    const client = new PulsarClientProxy({ url: pulsar.url });
    const running = await start(client);
    const payload = Buffer.alloc(1_000, 1);
    broker.publish('big', payload, { properties: { userProperties: { own: 'x'.repeat(900) } } });
    await broker.log.waitForReceived('puback', 1);
    const [letter] = pulsar.topic('letters').messages;
    expect(letter.payload).toEqual(payload);
    expect(letter.properties).toMatchObject({ 'dead-letter-topic': 'big', 'dead-letter-left-out': 'properties' });
    expect(letter.properties).not.toHaveProperty('own');
    await running.close();
    await client.close();
    await pulsar.close();
  });
});

it('a proxy that is not ours gets one letter, whatever it says', async () => {
  let tries = 0;
  class Target extends EventClient {
    protected dispatchEvent<T>(_packet: ReadPacket): Promise<T> {
      tries += 1;
      return Promise.reject(new TransportError('ERR_MESSAGE_TOO_LARGE', 'too large'));
    }
  }
  const running = await start(new Target());
  broker.publish('big', 'x');
  await until(() => running.strategy.stats.deadLetterFailures === 1);
  expect(tries).toBe(1);
  await running.close();
});

describe('what no user property can hold does not keep a letter', () => {
  let wide: InMemoryMqttBroker;
  let client: MqttClientProxy;
  beforeEach(async () => {
    wide = await InMemoryMqttBroker.start();
    client = new MqttClientProxy({ url: wide.url });
  });
  afterEach(async () => {
    await client.close();
    await wide.close();
  });

  it('a reason is cut at 1,000 characters, as the error is', async () => {
    const running = await start(client);
    broker.publish('why', 'x');
    await broker.log.waitForReceived('puback', 1);
    const [letter] = wide.log.received('publish');
    expect(letter.properties?.userProperties).toMatchObject({ 'dead-letter-reason': 'w'.repeat(1_000) });
    await running.close();
  });

  it('Correlation Data that is too long in base64 is left out, and named', async () => {
    const running = await startApp([Handlers], {
      broker: wide,
      strategy: { deadLetter: { client, pattern: 'letters' }, protocolVersion: 5 },
    });
    const correlationData = Buffer.alloc(60_000, 7);
    wide.publish('big', 'x', { properties: { correlationData, contentType: 'text/plain' } });
    await wide.log.waitForReceived('puback', 1);
    const [letter] = wide.log.received('publish');
    expect(letter.properties?.userProperties).toMatchObject({
      'mqtt.contentType': 'text/plain',
      'dead-letter-left-out': 'mqtt.correlationData',
    });
    await running.close();
  });
});
