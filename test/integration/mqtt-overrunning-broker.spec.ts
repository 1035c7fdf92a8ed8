import { join } from 'node:path';
import { Mosquitto, scratchFolder } from '../brokers/index.js';
import { type AppConfig } from '../crash/app-config.js';
import { ChildApp } from '../crash/child-app.js';
import { Devices } from '../crash/devices.js';
import { compare, Evidence, MqttWire, PulsarWire, readTopic } from '../wire/index.js';
import { describeWithBrokers, integrationBrokers, unique, until } from './harness.js';

const BACKLOG = 6000;

// mosquitto 2.0.11 does not keep to the Receive Maximum: on a resumed session it sends the whole backlog, before the SUBACK.
// A client that closes such a link at a bound below the backlog never gets anywhere.
describeWithBrokers('a backlog larger than any window, from a broker that overruns it', () => {
  const evidence = new Evidence();
  let mosquitto: Mosquitto;
  let mqttWire: MqttWire;
  let pulsarWire: PulsarWire;
  beforeAll(async () => {
    mosquitto = await Mosquitto.start();
    mqttWire = await MqttWire.start({
      targetPort: mosquitto.port,
      onDelivery: (delivery) => evidence.delivery(delivery),
      onAcknowledgement: (delivery) => evidence.acknowledgement(delivery),
    });
    pulsarWire = await PulsarWire.start({
      targetPort: integrationBrokers().pulsarPort,
      onSend: (_topic, messages) => evidence.send(messages),
      onReceipt: (_topic, messages) => evidence.receipt(messages),
    });
  });
  afterAll(async () => {
    await mqttWire.proxy.close();
    await pulsarWire.proxy.close();
    await mosquitto.kill();
  });

  it('is taken in over one connection after the restart', async () => {
    const topic = `persistent://public/default/${unique('backlog')}`;
    const folder = scratchFolder('backlog');
    const config = (run: number): AppConfig => ({
      mqttUrl: mqttWire.url,
      pulsarUrl: pulsarWire.url,
      clientId: 'backlog',
      topic,
      markers: join(folder, `markers-${run}`),
      workMs: 4,
      failRate: 0,
      concurrency: 32,
      receiveMaximum: 64,
      redeliverAfterMs: 1000,
    });
    const first = await ChildApp.start(config(1));
    await first.close();
    const devices = await Devices.connect(mosquitto.url);
    await devices.publish(0, BACKLOG, 5000);
    await devices.settled();
    const connections = mqttWire.proxy.figures.connections;

    const second = await ChildApp.start(config(2));
    const everything = (): boolean => devices.allIn(evidence.acknowledged);
    await until('everything acknowledged', everything, 60_000);
    await second.close();
    await devices.close();

    expect(mqttWire.proxy.figures.connections - connections).toBe(1);
    // What the regression is about: the broker did overrun the window.
    expect(mqttWire.figures.maxUnacknowledged).toBeGreaterThan(64);
    const result = compare(devices.accepted, await readTopic(integrationBrokers().pulsarUrl, topic));
    expect(result).toEqual({ stored: BACKLOG, lost: [], duplicates: 0 });
    expect(mqttWire.figures).toMatchObject({ outOfOrder: 0, unknown: 0, malformed: 0 });
    expect([...evidence.acknowledgedWithoutReceipt]).toEqual([]);
  });
});
