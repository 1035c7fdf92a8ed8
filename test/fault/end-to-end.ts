import { startWiredBrokers } from '../crash/brokers-with-wires.js';
import { type MqttBrokerName } from '../crash/mqtt-brokers.js';
import { type SabotageName } from '../crash/sabotage-names.js';
import { everyFaultRun } from './every-fault-run.js';
import { failingHandlersRun, silentPulsarRun } from './default-queue-runs.js';
import { receiveMaximumRun } from './receive-maximum-run.js';
import { resultOf, SEEN_AS, violationsOf } from './verdict.js';

export interface EndToEndOptions {
  readonly seconds: number;
  readonly rate: number;
  readonly seed: number;
  readonly broker: MqttBrokerName;
  readonly sabotage: SabotageName | undefined;
}

/**
 * Everything at once on one MQTT broker and Pulsar; then mosquitto's default queue, once with failing handlers and once
 * with a Pulsar that says nothing; then a broker that keeps to the Receive Maximum. Prints the figures of the first run as
 * JSON in the last line.
 *
 * @returns the exit code: 0, 1 on any violation, 3 if a sabotage is not among them
 */
export async function endToEndFault(options: EndToEndOptions): Promise<number> {
  const { sabotage } = options;
  const brokers = await startWiredBrokers(options.broker);
  try {
    const record = await everyFaultRun(brokers, options);
    const violations = violationsOf(record);
    if (sabotage === undefined) {
      violations.push(...(await orItsError(failingHandlersRun(brokers))));
      violations.push(...(await orItsError(silentPulsarRun(brokers, options.rate))));
      violations.push(...(await orItsError(receiveMaximumRun(brokers, options))));
    }
    for (const violation of violations) console.log(`VIOLATION ${violation}`);
    const seen = sabotage === undefined || violations.some((violation) => SEEN_AS[sabotage].test(violation));
    if (!seen) console.log(`nothing of this says that the product was sabotaged: ${sabotage}`);
    console.log(JSON.stringify(resultOf(record)));
    if (!seen) return 3;
    return violations.length > 0 ? 1 : 0;
  } finally {
    await brokers.stop();
  }
}

const orItsError = (run: Promise<string[]>): Promise<string[]> => run.catch((error: Error) => [error.message]);
