import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { scratchFolder } from '../brokers/paths.js';
import { type WiredBrokers, startWiredBrokers } from '../crash/brokers-with-wires.js';
import { ChildApp } from '../crash/child-app.js';
import { Devices } from '../crash/devices.js';
import { compare, readTopic } from '../wire/index.js';
import { describeWithBrokers, until } from './harness.js';

const TOPIC = 'persistent://public/default/outage';
const OVERRUN_LIMIT = 65_535;

// Case C45, shortened: Pulsar is away while devices go on publishing, and the app is killed once.
describeWithBrokers('C45 an outage of Pulsar end to end', () => {
  let brokers: WiredBrokers;
  beforeAll(async () => {
    brokers = await startWiredBrokers();
  });
  afterAll(async () => {
    await brokers.stop();
  });

  it('acknowledges nothing meanwhile, recovers alone, and everything published is in Pulsar', async () => {
    const { evidence, mqttWire, pulsar } = brokers;
    const folder = scratchFolder('c45');
    const start = (run: number): Promise<ChildApp> =>
      ChildApp.start({
        mqttUrl: mqttWire.url,
        pulsarUrl: brokers.pulsarWire.url,
        clientId: 'outage',
        topic: TOPIC,
        markers: join(folder, `markers-${run}`),
        workMs: 2,
        failRate: 0,
        concurrency: 64,
        receiveMaximum: 64,
        redeliverAfterMs: 1000,
      });
    let app = await start(1);
    const devices = await Devices.connect(brokers.mqtt.url);
    const publishing = devices.publish(0, 8000, 1000);
    await until('some messages stored', () => evidence.receipted.size > 500);

    await pulsar.kill();
    await sleep(500);
    const acknowledgedInOutage = evidence.acknowledged.size;
    await sleep(3000);
    expect(evidence.acknowledged.size).toBe(acknowledgedInOutage);
    expect(app.alive).toBe(true);
    await app.kill();
    app = await start(2);
    await sleep(1000);
    expect(evidence.acknowledged.size).toBe(acknowledgedInOutage);
    await pulsar.launch();

    await publishing;
    await devices.settled();
    const everything = (): boolean => devices.allIn(evidence.acknowledged);
    await until('everything acknowledged', everything, 60_000);
    await app.close();
    await devices.close();

    const stored = await readTopic(pulsar.directUrl, TOPIC, { stayAtUrl: true });
    const result = compare(devices.accepted, stored);
    expect(devices.accepted.size).toBe(8000);
    expect(result.lost).toEqual([]);
    expect([...evidence.acknowledgedWithoutReceipt]).toEqual([]);
    expect(evidence.emittedTooOften()).toEqual([]);
    expect(mqttWire.figures).toMatchObject({ outOfOrder: 0, unknown: 0, malformed: 0 });
    expect(app.maxHeld).toBeGreaterThan(0);
    expect(app.maxHeld).toBeLessThanOrEqual(OVERRUN_LIMIT);
  });
});
