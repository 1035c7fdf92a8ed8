import { connectAsync } from 'mqtt';
import { setTimeout as sleep } from 'node:timers/promises';
import { InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { describeWithMqttBrokers, unique, until } from './harness.js';
import { killLiveApps, LiveApp } from './live-app-process.js';
import { LiveBroker, mqttBrokers } from './mqtt-live.js';

const COUNT = 80;
/** Published while one member is down, and again after one has left. */
const MORE = 20;
const brokers = mqttBrokers.filter(({ differences }) => !differences.includes('has no shared subscriptions'));

/** Until a count has not changed for a while: a broker decides for itself whom it sends what, and when. */
async function settled(count: () => number): Promise<void> {
  for (let last = -1; last !== count();) {
    last = count();
    await sleep(500);
  }
}

const sorted = (payloads: Iterable<string>): string[] => [...payloads].sort((a, b) => Number(a) - Number(b));

describeWithMqttBrokers('members of a shared subscription, as processes', () => {
  afterEach(killLiveApps);

  it.each(brokers)('$name: one is killed while its handlers run, and restarted: nothing is lost', async (about) => {
    const live = await LiveBroker.start(about);
    const pulsar = await InMemoryPulsarBroker.start();
    const topic = unique('shared');
    const join = (clientId: string, holding: boolean): Promise<LiveApp> =>
      LiveApp.start({
        pulsarUrl: pulsar.url,
        filter: topic,
        holding,
        strategy: {
          url: live.url,
          clientId,
          protocolVersion: about.version,
          sharedGroup: 'group',
          sessionExpiry: 3600,
        },
      });
    const clientId = unique('member');
    const first = await join(clientId, true);
    const second = await join(unique('member'), false);
    const device = await connectAsync(live.url, { protocolVersion: about.version });
    for (let i = 0; i < COUNT; i += 1) await device.publishAsync(topic, String(i), { qos: 1 });
    await until('both got some', () => first.started.length > 0 && second.ended.length > 0);
    await settled(() => first.started.length + second.ended.length);

    const running = sorted(first.started);
    const before = second.started.length;
    expect(first.ended).toEqual([]);
    await first.kill();
    await settled(() => second.started.length);
    const moved = second.started.length - before;
    for (let i = COUNT; i < COUNT + MORE; i += 1) await device.publishAsync(topic, String(i), { qos: 1 });
    await settled(() => second.started.length);
    const meanwhile = second.started.length - before - moved;

    const again = await join(clientId, false);
    const stored = (): string[] => sorted(new Set(pulsar.topic('out').texts));
    await until('every message is stored', () => stored().length === COUNT + MORE);
    console.log(
      `${about.name}: ${running.length} un-acknowledged at the kill, ${moved} moved to the other member; ` +
        `${meanwhile} of ${MORE} published meanwhile went to it at once`,
    );
    // What was handed to a member stays with it, however long it is away, and comes to it again.
    expect(moved).toBe(0);
    await until('all came again', () => running.every((payload) => again.ended.includes(payload)));
    // What is published meanwhile is shared out as if it were there: mosquitto goes round, mochi has no fixed share.
    if (about.name.startsWith('mosquitto')) expect(meanwhile).toBe(MORE / 2);
    else expect(meanwhile).toBeLessThan(MORE);
    // Nobody handled a message of the other one, and nobody anything twice.
    expect(sorted([...second.ended, ...again.ended])).toEqual(stored());
    expect(pulsar.topic('out').texts).toHaveLength(COUNT + MORE);

    // Who leaves for good unsubscribes before it closes: then everything goes to those who stay.
    again.tell('unsubscribe');
    await until('it has left', () => again.of('unsubscribed').length === 1);
    await again.close();
    for (let i = COUNT + MORE; i < COUNT + 2 * MORE; i += 1) await device.publishAsync(topic, String(i), { qos: 1 });
    await until('the other one has them all', () => stored().length === COUNT + 2 * MORE);
    await device.endAsync();
    await second.close();
    await pulsar.close();
    await live.stop();
  });
});
