import { readFileSync } from 'node:fs';
import { MqttServerStrategy, OptionsError, PulsarClientProxy } from '../../lib/index.js';
import { parseMqttClientOptions } from '../../lib/mqtt/options.js';
import { resolveMqttServerOptions } from '../../lib/nest/mqtt-server-options.js';
import { parseProducerOptions, parseClientOptions } from '../../lib/pulsar/options.js';

/** Option names and default of every row of the table under that heading. */
function rows(heading: string): { names: string[]; shown: string; text: string }[] {
  const [, section = ''] = readFileSync('README.md', 'utf8').split(`\n## ${heading}\n`);
  const lines = section.split(/\n#/)[0].match(/^\| `.*\|$/gm) ?? [];
  return lines.map((line) => {
    const [first, shown, text] = line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim());
    return { names: [...first.matchAll(/`(\w+)`/g)].map(([, name]) => name), shown, text };
  });
}

const time = (ms: number): string =>
  ms >= 86_400_000 ? `${ms / 3_600_000} h` : ms > 60_000 ? `${ms / 60_000} min` : `${ms / 1_000} s`;
const code = (value: unknown): string => `\`'${String(value)}'\``;
const backoff = ({ initial, max }: { initial: number; max: number }): string => `${initial / 1_000} to ${time(max)}`;

describe('Options of `MqttServerStrategy`', () => {
  const table = rows('Options of `MqttServerStrategy`');
  const { server } = resolveMqttServerOptions({});
  const { session, protocolVersion, reconnect, endpoints } = parseMqttClientOptions({ clientId: 'x' });
  const local = parseMqttClientOptions({ clientId: 'x', url: 'mqtt://localhost:1883' });

  it.each(table.flatMap(({ names }) => names))('%s is an option', (name) => {
    const given = (key: string) => () =>
      new MqttServerStrategy({
        clientId: 'x',
        // One that is given and undefined is refused.
        ...(key !== 'clientId' && { [key]: key === 'url' ? 'mqtt://localhost' : undefined }),
      });
    expect(given(name)).not.toThrow();
    expect(given(`${name}x`)).toThrow(OptionsError);
  });

  it('the defaults are those of the code', () => {
    expect(endpoints).toEqual(local.endpoints);
    expect(Object.fromEntries(table.map(({ names, shown }) => [names.join(), shown]))).toEqual({
      'url,clientId': '`mqtt://localhost:1883`, –',
      protocolVersion: code(protocolVersion),
      'sessionExpiry,cleanStart': `${time(session.sessionExpiry * 1_000)} / ${session.cleanStart}`,
      'receiveMaximum,concurrency': `${session.receiveMaximum} / ${server.concurrency}`,
      order: code(server.order),
      'qos,payload': `${server.qos}, ${code(server.payload)}`,
      'handlerTimeout,detachTimeout': `${time(server.handlerTimeout)}, ${time(server.detachTimeout)}`,
      failure: `\`${server.failure.then}\``,
      deadLetter: '–',
      redeliverAfter: `${time(server.redeliverAfter)}, doubling to 5 min`,
      unmatched: `\`deadLetter\` with a target, else \`${server.unmatched}\``,
      stalledAfter: time(server.stalledAfter),
      unsubscribe: '–',
      sharedGroup: '–',
      shutdownTimeout: time(server.shutdownTimeout),
      'keepAlive,connectTimeout,reconnect': `${session.keepAlive} s, ${time(session.connectTimeout)}, ${backoff(reconnect)} with full jitter`,
      qos2InFlight: `${session.qos2InFlight}, in 3.1.1 only`,
    });
  });
});

describe('Options of `PulsarClientProxy`', () => {
  const table = rows('Options of `PulsarClientProxy`');
  const client = parseClientOptions({ url: 'pulsar://localhost:6650' });
  const producer = parseProducerOptions({ topic: 'any' });

  it.each(table.flatMap(({ names }) => names))('%s is an option', (name) => {
    const given = (key: string) => () =>
      new PulsarClientProxy({ url: 'pulsar://localhost:6650', ...(key !== 'url' && { [key]: undefined }) });
    expect(given(name)).not.toThrow();
    expect(given(`${name}x`)).toThrow(OptionsError);
  });

  it('the defaults are those of the code', () => {
    const shown = Object.fromEntries(table.map((row) => [row.names.join(), row.shown]));
    expect(shown).toMatchObject({
      memoryLimit: `${client.memoryLimit / 2 ** 20} MiB`,
      connectionsPerBroker: String(client.connectionsPerBroker),
      keepAlive: time(client.keepAlive),
      connectTimeout: time(client.connectTimeout),
      operationTimeout: time(client.operationTimeout),
      backoff: backoff(client.backoff),
    });
    const { batching, maxPendingMessages, sendTimeout } = producer;
    if (batching === undefined) throw new Error('batching is off by default');
    const batches = `${batching.maxMessages.toLocaleString('en')} messages / ${batching.maxBytes / 1024} KiB / ${batching.maxDelay} ms`;
    expect(table.find(({ names }) => names[0] === 'producer')?.text).toContain(
      `\`batching\` ${batches}, \`maxPendingMessages\` ${maxPendingMessages.toLocaleString('en')}, \`sendTimeout\` ${sendTimeout} (none`,
    );
  });
});
