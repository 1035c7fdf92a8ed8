import { MqttClient } from '../../../../lib/mqtt/index.js';
import { type TransportHandlers } from '../../../../lib/net/transport.js';
import { hex, random } from '../codec/support.js';

/** What a server says after CONNECT: CONNACK, messages of every QoS, unknown acknowledgements, more messages. */
const STREAMS = {
  5: hex(
    '2003000000 320700017400010061 340700017400020062 300500017400 63 40020009 50020009 62020002 70020009 d000' +
      '320700017400030064 340700017400040065',
  ),
  4: hex(
    '20020000 32060001740001 61 34060001740002 62 300400017463 40020009 50020009 62020002 70020009 d000' +
      '32060001740003 64 34060001740004 65',
  ),
};

/** A client whose transport is the test: nothing of it is asynchronous but the client. */
function startClient(protocolVersion: 4 | 5) {
  let handlers: TransportHandlers | undefined;
  const written: Uint8Array[] = [];
  const state = { ended: false };
  const end = (): void => void (state.ended = true);
  const client = new MqttClient({
    clientId: 'c',
    protocolVersion,
    maximumPacketSize: 5000,
    dialer: () => (given) => {
      handlers = given;
      const write = (chunk: Uint8Array): boolean => written.push(chunk) > 0;
      const ignore = (): void => undefined;
      return { description: 'test', bufferedBytes: 0, write, pause: ignore, resume: ignore, end, destroy: end };
    },
  });
  return { client, written, state, handlers: () => handlers! };
}

it('10,000 mutated servers: no crash, no unhandled rejection, no delivery from bytes after the first error', async () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown): void => void unhandled.push(reason);
  process.on('unhandledRejection', note);
  const next = random(4_242);
  let [ended, delivered] = [0, 0];
  for (let round = 0; round < 10_000; round += 1) {
    const version = round & 1 ? 5 : 4;
    const { client, written, state, handlers } = startClient(version);
    let afterTheEnd = 0;
    client.onDelivery = (delivery) => {
      delivered += 1;
      if (state.ended) afterTheEnd += 1;
      client.acknowledge(delivery);
    };
    client.connect().catch(() => undefined);
    handlers().onOpen();
    const bytes = mutate(STREAMS[version], next);
    const cut = Math.floor(next() * bytes.length);
    handlers().onData(bytes.subarray(0, cut));
    handlers().onData(bytes.subarray(cut));
    await new Promise((resolve) => setImmediate(resolve));
    if (state.ended) {
      ended += 1;
      const before = written.length;
      handlers().onData(STREAMS[version]);
      handlers().onData(STREAMS[version].subarray(version === 5 ? 5 : 4));
      await new Promise((resolve) => setImmediate(resolve));
      if (afterTheEnd > 0) throw new Error(`round ${round}: a delivery after the end: ${bytes.toString('hex')}`);
      if (written.length !== before) throw new Error(`round ${round}: written after the end: ${bytes.toString('hex')}`);
    }
    client.destroy();
  }
  process.off('unhandledRejection', note);
  expect(unhandled).toEqual([]);
  expect(ended).toBeGreaterThan(5_000);
  expect(delivered).toBeGreaterThan(10_000);
});

function mutate(source: Buffer, next: () => number): Buffer {
  let bytes = Buffer.from(source);
  for (let times = 1 + Math.floor(next() * 3); times > 0; times -= 1) {
    const at = Math.floor(next() * bytes.length);
    const kind = next();
    if (kind < 0.7) bytes[at] = Math.floor(next() * 256);
    else if (kind < 0.85) bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1)]);
    else bytes = Buffer.concat([bytes.subarray(0, at), Buffer.from([next() * 256]), bytes.subarray(at)]);
  }
  return bytes;
}
