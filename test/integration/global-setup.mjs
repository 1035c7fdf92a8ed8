// Starts one mosquitto and one Pulsar for all integration suites, and builds mochi, which the suites of the MQTT client start
// themselves. What is there and where reaches the suites through the environment. With REQUIRE_BROKERS=1 a broker that cannot be
// started is a failure; without it the suites that need it are not run, and it is said which broker was missing.
import { mochiProgram, Mosquitto, mosquittoVersion, Pulsar } from '../../out/test/brokers/index.js';

export default async function setUp() {
  const brokers = [];
  globalThis.__integrationBrokers = brokers;
  const missing = [];
  const started = Date.now();
  await Promise.all([
    Mosquitto.start().then((mosquitto) => {
      brokers.push(mosquitto);
      process.env.INTEGRATION_MQTT_URL = mosquitto.url;
    }, note('mosquitto')),
    Pulsar.start().then((pulsar) => {
      brokers.push(pulsar);
      process.env.INTEGRATION_PULSAR_URL = pulsar.url;
      process.env.INTEGRATION_PULSAR_ADMIN_URL = pulsar.admin.url;
    }, note('Pulsar')),
    Promise.resolve().then(mochiProgram).catch(note('mochi')),
  ]);
  if (missing.length > 0 && process.env.REQUIRE_BROKERS === '1') {
    await Promise.all(brokers.map((broker) => broker.kill()));
    throw new Error(`brokers are required and missing:\n${missing.join('\n')}`);
  }
  const took = ((Date.now() - started) / 1000).toFixed(1);
  console.log(
    missing.length > 0
      ? `not all brokers: ${missing.join('; ')}`
      : `mosquitto ${mosquittoVersion()}, mochi and Pulsar after ${took} s`,
  );

  function note(name) {
    return (error) => {
      missing.push(`${name}: ${error.message}`);
      process.env[`INTEGRATION_MISSING_${name.toUpperCase()}`] = error.message;
    };
  }
}
