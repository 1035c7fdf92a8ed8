import { Logger } from '@nestjs/common';
import { lastValueFrom } from 'rxjs';
import { PulsarClientProxy, type PulsarClientProxyOptions, tokenAuth } from '../../lib/index.js';
import { systemClock } from '../../lib/net/clock.js';
import { InMemoryPulsarBroker } from '../../lib/testing/index.js';
import { until } from './support/app.js';

describe('what PulsarClientProxy says of its connection', () => {
  const lines: string[] = [];
  const ends: (() => unknown)[] = [];
  let later = 0;
  const clock = { ...systemClock, now: () => systemClock.now() + later };

  beforeEach(() => {
    later = 0;
    lines.length = 0;
    const keep = (level: string) => (message: unknown, context: unknown) => {
      if (context === 'PulsarClientProxy') lines.push(`${level} ${String(message)}`);
    };
    Logger.overrideLogger({ log: keep('LOG'), warn: keep('WARN'), error: keep('ERROR') });
  });
  afterEach(async () => {
    for (const end of ends.splice(0)) await end();
    Logger.overrideLogger(false);
  });

  const start = async (options = {}): Promise<InMemoryPulsarBroker> => {
    const broker = await InMemoryPulsarBroker.start(options);
    ends.push(() => broker.close());
    return broker;
  };
  const proxy = (url: string, options: Partial<PulsarClientProxyOptions> = {}): PulsarClientProxy => {
    const made = new PulsarClientProxy({ url, clock, backoff: { initial: 5, max: 20 }, ...options });
    ends.unshift(() => made.destroy());
    return made;
  };
  const failures = (client: PulsarClientProxy): { count: number } => {
    const seen = { count: 0 };
    client.on('connectFailed', () => (seen.count += 1));
    return seen;
  };
  const emit = (client: PulsarClientProxy): Promise<unknown> => lastValueFrom(client.emit('t', 'x'));
  const seconds = (line: string | undefined): string | undefined => line?.replace(/after \d+(\.\d)? m?s/, 'after N s');

  it('one line for the first connection, and none for emits and further connections', async () => {
    const broker = await start();
    const client = proxy(broker.url, { connectionsPerBroker: 2 });
    await Promise.all(['a', 'b', 'c'].map((topic) => lastValueFrom(client.emit(topic, 'x'))));
    await client.close();
    expect(lines).toEqual([`LOG Connected to ${broker.url}`]);
  });

  it('a broker that is not there at the start: one line a minute with what waits, and one when it is', async () => {
    const broker = await start();
    await broker.stopListening();
    const client = proxy(broker.url, { createTimeout: 3_600_000 });
    const failed = failures(client);
    const stored = [emit(client), emit(client), emit(client)];
    await until(() => failed.count >= 5);
    expect(lines).toEqual([expect.stringMatching(/^WARN Cannot connect to .*; trying again, 3 emits wait$/)]);
    expect(lines[0]).toContain(`${broker.url}: connect ECONNREFUSED`);
    expect(lines[0].split(broker.url)).toHaveLength(2);
    later = 61_000;
    const before = failed.count;
    await until(() => failed.count >= before + 5);
    expect(lines).toHaveLength(2);
    expect(lines[1]).toMatch(/^WARN No connection for 6\d s, to pulsar:.*ECONNREFUSED.*; trying again, 3 emits wait$/);
    await broker.listen();
    await Promise.all(stored);
    expect(lines).toHaveLength(3);
    expect(lines[2]).toMatch(new RegExp(`^LOG Connected to ${broker.url}, after 6\\d s without a connection$`));
  });

  it('a host name that does not exist', async () => {
    const client = proxy('pulsar://pulsar.invalid:6650', { createTimeout: 1 });
    const failed = failures(client);
    client.emit('t', 'x').subscribe({ error: () => undefined });
    await until(() => failed.count >= 1);
    expect(lines[0]).toMatch(/^WARN Cannot connect to pulsar:\/\/pulsar\.invalid:6650: getaddrinfo .*, 1 emit waits$/);
  });

  it('a connection that is lost while nothing waits, and comes back', async () => {
    const broker = await start();
    const client = proxy(broker.url);
    await emit(client);
    lines.length = 0;
    broker.refuse();
    broker.cut();
    const failed = failures(client);
    await until(() => failed.count >= 5);
    expect(lines).toEqual([
      expect.stringMatching(/^WARN Lost the connection to pulsar:.*; trying again, emits wait until then$/),
    ]);
    broker.refuse(false);
    await until(() => lines.length > 1);
    await emit(client);
    expect(lines.slice(1).map(seconds)).toEqual([`LOG Connected to ${broker.url}, after N s without a connection`]);
  });

  it('a connection that nobody needs at the moment', async () => {
    const broker = await start();
    const client = proxy(broker.url);
    await client.connect();
    lines.length = 0;
    broker.cut();
    await until(() => lines.length > 0);
    expect(lines).toEqual([expect.stringMatching(/^WARN Lost the connection to .*; the next emit connects again$/)]);
    await emit(client);
    expect(lines.slice(1).map(seconds)).toEqual([`LOG Connected to ${broker.url}, after N s without a connection`]);
  });

  it('a topic that goes on over a connection that was there', async () => {
    const broker = await start();
    const client = proxy(broker.url);
    await emit(client);
    lines.length = 0;
    client.unwrap()['events'].emit('disconnected', { broker: 'pulsar://gone:6650', cause: new Error('gone') as never });
    broker.unload('t');
    await until(() => lines.length > 1);
    expect(lines.slice(1).map(seconds)).toEqual([`LOG Connected to ${broker.url}, after N s without a connection`]);
  });

  it('credentials that are refused for good: emits fail, and the token is in no line', async () => {
    const broker = await start({ authenticate: () => false });
    const client = proxy(broker.url, { auth: tokenAuth('secret-token') });
    await expect(emit(client)).rejects.toMatchObject({ code: 'ERR_AUTHENTICATION' });
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(/^WARN Cannot connect to pulsar:.*; a further try cannot help, and emits fail$/);
    expect(lines[0]).not.toContain('secret');
  });
});
