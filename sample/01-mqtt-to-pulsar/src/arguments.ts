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

const USAGE = `usage: npm start -- [options]
  --messages N   publish N messages (default: until Ctrl-C)
  --exit         end when they are stored, with a last line of JSON; needs --messages
  --rate N       messages a second of all devices (default: 50 without --messages, else as fast as the broker takes them)
  --heap-at N    print the heap in use when N messages are acknowledged; needs node --expose-gc; can be repeated
  --help         this text
environment: MQTT_URL, PULSAR_URL (default: embedded brokers)`;

/** Reads the command line, and `MQTT_URL` and `PULSAR_URL` from the environment. Ends the process with 2 on a wrong one. */
export function sampleArguments(): SampleArguments {
  try {
    return parse();
  } catch (error) {
    console.error(`${(error as Error).message}\n${USAGE}`);
    process.exit(2);
  }
}

function parse(): SampleArguments {
  const { values } = parseArgs({
    options: {
      help: { type: 'boolean', default: false },
      messages: { type: 'string' },
      exit: { type: 'boolean', default: false },
      rate: { type: 'string' },
      'heap-at': { type: 'string', multiple: true, default: [] },
    },
  });
  if (values.help) {
    console.log(USAGE);
    process.exit(0);
  }
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
