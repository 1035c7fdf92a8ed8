// Starts one mosquitto and one Pulsar for all integration suites. Their addresses reach the suites through the environment.
// With REQUIRE_BROKERS=1 a broker that cannot be started is a failure; without it the suites that need it are not run, and
// it is said which broker was missing.
import { Mosquitto, mosquittoVersion, Pulsar } from '../../out/test/brokers/index.js';

export default async function setUp() {
  const brokers = [];
  globalThis.__integrationBrokers = brokers;
  const missing = [];
  const started = Date.now();
  await Promise.all([
    Mosquitto.start({ websocket: true }).then((mosquitto) => {
      brokers.push(mosquitto);
      process.env.INTEGRATION_MQTT_URL = mosquitto.url;
      process.env.INTEGRATION_MQTT_WEBSOCKET_URL = mosquitto.websocketUrl;
    }, note('mosquitto')),
    Pulsar.start().then((pulsar) => {
      brokers.push(pulsar);
      process.env.INTEGRATION_PULSAR_URL = pulsar.url;
      process.env.INTEGRATION_PULSAR_ADMIN_URL = pulsar.admin.url;
    }, note('Pulsar')),
  ]);
  if (missing.length > 0 && process.env.REQUIRE_BROKERS === '1') {
    await Promise.all(brokers.map((broker) => broker.kill()));
    throw new Error(`brokers are required and missing:\n${missing.join('\n')}`);
  }
  process.env.INTEGRATION_MISSING = missing.join('; ');
  const took = ((Date.now() - started) / 1000).toFixed(1);
  console.log(
    missing.length > 0
      ? `not all brokers: ${missing.join('; ')}`
      : `mosquitto ${mosquittoVersion()} and Pulsar after ${took} s`,
  );

  function note(name) {
    return (error) => missing.push(`${name}: ${error.message}`);
  }
}
