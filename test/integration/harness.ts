import { setTimeout as sleep } from 'node:timers/promises';
import { PulsarAdmin } from '../brokers/pulsar-admin.js';

/** The brokers that `global-setup.mjs` started for all suites. A suite that breaks a broker starts one of its own. */
export interface IntegrationBrokers {
  readonly mqttUrl: string;
  readonly mqttPort: number;
  readonly pulsarUrl: string;
  readonly pulsarPort: number;
  readonly admin: PulsarAdmin;
}

/** `describe` for suites on mosquitto and Pulsar: where one is missing they are not run, unless REQUIRE_BROKERS=1. */
export const describeWithBrokers = describeIfThere('MOSQUITTO', 'PULSAR');

/** The same for suites of the MQTT client, which start mosquitto and mochi themselves. */
export const describeWithMqttBrokers = describeIfThere('MOSQUITTO', 'MOCHI');

function describeIfThere(...names: readonly string[]): typeof describe {
  return names.some((name) => process.env[`INTEGRATION_MISSING_${name}`] !== undefined) ? describe.skip : describe;
}

export function integrationBrokers(): IntegrationBrokers {
  const mqttUrl = required('INTEGRATION_MQTT_URL');
  const pulsarUrl = required('INTEGRATION_PULSAR_URL');
  return {
    mqttUrl,
    mqttPort: Number(new URL(mqttUrl).port),
    pulsarUrl,
    pulsarPort: Number(new URL(pulsarUrl).port),
    admin: new PulsarAdmin(required('INTEGRATION_PULSAR_ADMIN_URL')),
  };
}

/** A name that no other test and no earlier run used. */
export function unique(name: string): string {
  return `${name}-${process.pid}-${Date.now().toString(36)}-${counter++}`;
}

let counter = 0;

/** Until the condition holds; fails with `what` after `timeoutMs`. */
export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
  timeoutMs = 30_000,
): Promise<void> {
  for (const deadline = Date.now() + timeoutMs; !(await condition()); await sleep(20)) {
    if (Date.now() > deadline) throw new Error(`${what}: not within ${timeoutMs} ms`);
  }
}

function required(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set: these suites run with 'npm run test:integration'`);
  return value;
}
