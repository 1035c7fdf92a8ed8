import { parseArgs } from 'node:util';

export interface SampleArguments {
  /** How many messages the devices publish; without a number they go on until Ctrl-C. */
  readonly messages: number;
  /** End when all of them are stored, with a last line of JSON. */
  readonly exit: boolean;
  /** Messages a second of all devices together; 0 = as fast as the broker takes them. */
  readonly rate: number;
  readonly mqttUrl: string | undefined;
  readonly pulsarUrl: string | undefined;
  /** Print the heap in use, after a collection, when so many messages are acknowledged (needs `node --expose-gc`). */
  readonly heapAt: readonly number[];
}

/** Reads the command line, and `MQTT_URL` and `PULSAR_URL` from the environment. */
export function sampleArguments(): SampleArguments {
  const { values } = parseArgs({
    options: {
      messages: { type: 'string' },
      exit: { type: 'boolean', default: false },
      rate: { type: 'string' },
      'heap-at': { type: 'string', multiple: true, default: [] },
    },
  });
  const messages = values.messages === undefined ? Infinity : whole('messages', values.messages);
  if (values.exit && messages === Infinity) throw new Error('--exit needs --messages: without it there is no end');
  return {
    messages,
    exit: values.exit,
    rate: values.rate === undefined ? (messages === Infinity ? 50 : 0) : whole('rate', values.rate),
    mqttUrl: environment('MQTT_URL'),
    pulsarUrl: environment('PULSAR_URL'),
    heapAt: values['heap-at'].map((text) => whole('heap-at', text)),
  };
}

function whole(name: string, text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1) {
    throw new Error(`--${name}: expected a whole number of 1 or more, received '${text}'`);
  }
  return value;
}

function environment(name: string): string | undefined {
  const value = process.env[name];
  return value === undefined || value === '' ? undefined : value;
}
