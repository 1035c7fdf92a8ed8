import { type Dialer } from '../../../lib/net/transport.js';
import { createDialer } from '../../../lib/net/dial.js';
import { systemClock } from '../../../lib/net/clock.js';
import { FrameWriter } from '../../../lib/pulsar/frame-writer.js';
import { PulsarWorld, received, text } from './support/world.js';

describe('frames of one turn', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it('go out in one write, through the whole client', async () => {
    const broker = await world.broker();
    const writes: number[] = [];
    const client = world.client(broker, {
      dialer: (endpoint): Dialer => {
        const dial = createDialer(endpoint, { description: 'counted', connectTimeout: 10_000, clock: systemClock });
        return (handlers) => {
          const transport = dial(handlers);
          const write = transport.write.bind(transport);
          transport.write = (chunk): boolean => {
            writes.push(chunk.length);
            return write(chunk);
          };
          return transport;
        };
      },
    });
    const producer = await client.createProducer({ topic: 'unit', batching: false });
    writes.length = 0;
    await Promise.all(Array.from({ length: 200 }, (_, n) => producer.send(text(`m${n}`))));
    expect(received(broker, 'send')).toBe(200);
    expect(writes).toHaveLength(1);
  });

  it('are gathered in order up to 128 KiB, and a large one is handed over as it is', () => {
    const turns: (() => void)[] = [];
    const written: Uint8Array[] = [];
    const writer = new FrameWriter({ ...systemClock, endOfTurn: (callback) => turns.push(callback) });
    writer.transport = { write: (chunk: Uint8Array) => written.push(chunk) > 0 } as never;
    const frames = [10, 20, 40_000, 30, ...Array.from({ length: 20 }, () => 15_000)].map((size, n) =>
      Buffer.alloc(size, n + 1),
    );
    for (const frame of frames) writer.write(frame);
    expect(written).toEqual([]);
    expect(turns).toHaveLength(1);
    turns[0]();
    expect(written.map(({ length }) => length)).toEqual([30, 40_000, 120_030, 120_000, 60_000]);
    expect(written[1]).toBe(frames[2]);
    expect(Buffer.concat(written).equals(Buffer.concat(frames))).toBe(true);
    turns[0]();
    expect(written).toHaveLength(5);
  });
});
