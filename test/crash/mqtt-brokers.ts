import { HiveMq, Mosquitto } from '../brokers/index.js';

/** What the tests need of an MQTT broker. */
export interface MqttBroker {
  readonly url: string;
  readonly port: number;
  kill(): Promise<void>;
}

/** How a broker is used, and whether it keeps to the Receive Maximum of MQTT 5. */
export interface MqttBrokerKind {
  start(): Promise<MqttBroker>;
  /** What the app asks for, and how many handlers it lets run. */
  readonly receiveMaximum: number;
  readonly concurrency: number;
  readonly keepsToReceiveMaximum: boolean;
}

// Not mochi 2.7.9: what it accepts while a client takes up its session again it may never deliver (84 of 15,000 messages
// with the link cut every few seconds).
export const MQTT_BROKERS = {
  // 2.0.11 sends a whole backlog on a resumed session, and more than a window with each acknowledgement.
  mosquitto: {
    start: () => Mosquitto.start(),
    receiveMaximum: 128,
    concurrency: 64,
    keepsToReceiveMaximum: false,
  },
  // Sends no more than 50 by itself: below that it is the client's word that counts.
  hivemq: {
    start: () => HiveMq.start(),
    receiveMaximum: 32,
    concurrency: 24,
    keepsToReceiveMaximum: true,
  },
} as const satisfies Record<string, MqttBrokerKind>;

export type MqttBrokerName = keyof typeof MQTT_BROKERS;

/** The name as given on the command line, or an error that lists the known ones. */
export function checkBroker(name: string): MqttBrokerName {
  if (Object.hasOwn(MQTT_BROKERS, name)) return name as MqttBrokerName;
  throw new Error(`--broker ${name}: expected one of ${Object.keys(MQTT_BROKERS).join(', ')}`);
}
