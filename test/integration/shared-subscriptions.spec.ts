import { connectAsync } from 'mqtt';
import { setTimeout as sleep } from 'node:timers/promises';
import { type MqttClient, type MqttDelivery } from '../../lib/index.js';
import { describeWithMqttBrokers, unique, until } from './harness.js';
import { LiveBroker, mqttBrokers } from './mqtt-live.js';

const brokers = mqttBrokers.filter(({ differences }) => !differences.includes('has no shared subscriptions'));
const COUNT = 80;
/** Published while one member is down. */
const MORE = 20;

/** One member of a group, as a process of its own would be: it holds every message until it is told to go on. */
class Member {
  readonly got: string[] = [];
  readonly held: MqttDelivery[] = [];
  handles = false;

  constructor(readonly client: MqttClient) {
    client.onDelivery = (delivery) => {
      this.got.push(delivery.message.payload.toString());
      if (this.handles) client.acknowledge(delivery);
      else this.held.push(delivery);
    };
  }

  goOn(): void {
    this.handles = true;
    for (const delivery of this.held.splice(0)) this.client.acknowledge(delivery);
  }
}

/** Until a count has not changed for a second: a broker decides for itself whom it sends what, and when. */
async function settled(count: () => number): Promise<void> {
  for (let last = -1; last !== count();) {
    last = count();
    await sleep(1000);
  }
}

describeWithMqttBrokers('members of a shared subscription', () => {
  it.each(brokers)(
    '$name: a member killed with un-acknowledged messages and restarted under its client id loses none',
    async (about) => {
      const live = await LiveBroker.start(about);
      const topic = unique('shared');
      const filter = `$share/group/${topic}`;
      const join = async (clientId: string): Promise<Member> => {
        const member = new Member(live.client({ clientId, sessionExpiry: 3600, receiveMaximum: 100 }));
        await member.client.connect();
        await member.client.subscribe([{ filter, qos: 1 }]);
        return member;
      };
      const [firstId, secondId] = [unique('member'), unique('member')];
      let first = await join(firstId);
      const second = await join(secondId);
      second.handles = true;
      const device = await connectAsync(live.url, { protocolVersion: about.version });
      for (let i = 0; i < COUNT; i += 1) await device.publishAsync(topic, String(i), { qos: 1 });
      await until('both got some', () => first.got.length > 0 && second.got.length > 0);
      await settled(() => first.got.length + second.got.length);

      // Killed: no DISCONNECT, nothing acknowledged.
      const unacknowledged = [...first.got];
      const before = second.got.length;
      first.client.destroy();
      await settled(() => second.got.length);
      const moved = second.got.length - before;
      for (let i = COUNT; i < COUNT + MORE; i += 1) await device.publishAsync(topic, String(i), { qos: 1 });
      await settled(() => second.got.length);
      const meanwhile = second.got.length - before - moved;
      first = await join(firstId);
      first.goOn();
      const all = (): Set<string> => new Set([...first.got, ...second.got]);
      await until('every message was handled', () => all().size === COUNT + MORE);
      const again = first.got.filter((payload) => unacknowledged.includes(payload)).length;
      console.log(
        `${about.name}: ${unacknowledged.length} un-acknowledged at the kill, ${moved} moved to the other member, ${again} came again; ${meanwhile} of ${MORE} published meanwhile went to the other member at once`,
      );
      // What was handed to a member stays with it: a group needs client ids and sessions that outlive a restart.
      expect(moved).toBe(0);
      expect(again).toBe(unacknowledged.length);
      await device.endAsync();
      await first.client.close();
      await second.client.close();
      await live.stop();
    },
  );
});
