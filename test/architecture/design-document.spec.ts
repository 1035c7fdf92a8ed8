import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connectionTransitions } from '../../lib/mqtt/protocol/connection-state.js';
import { reasonName } from '../../lib/mqtt/codec/reason-codes.js';
import { deliveryTransitions } from '../../lib/mqtt/protocol/delivery.js';
import { connackActions, disconnectActions } from '../../lib/mqtt/protocol/reason-actions.js';
import { CONNECTION_TABLE } from '../../lib/pulsar/protocol/connection-state.js';
import { PRODUCER_TABLE } from '../../lib/pulsar/protocol/producer-table.js';

const DOCUMENT = 'lib/DESIGN.md';
type Table = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** A transition table as a mermaid state diagram. */
function diagram(table: Table): string {
  const [initial] = Object.keys(table);
  const lines = Object.entries(table).flatMap(([state, causes]) =>
    Object.keys(causes).length === 0
      ? [`  ${state} --> [*]`]
      : Object.entries(causes).map(([cause, next]) => `  ${state} --> ${next}: ${cause}`),
  );
  return ['```mermaid', 'stateDiagram-v2', `  [*] --> ${initial}`, ...lines, '```'].join('\n');
}

const TABLES: readonly (readonly [name: string, table: Table])[] = [
  ['mqtt-connection', connectionTransitions],
  ['mqtt-delivery', deliveryTransitions],
  ['pulsar-producer', PRODUCER_TABLE],
  ['pulsar-connection', CONNECTION_TABLE],
];

describe('lib/DESIGN.md', () => {
  it.each(TABLES)('shows the %s table as it is in the code (UPDATE_DESIGN=1 writes it)', (name, table) => {
    const text = readFileSync(DOCUMENT, 'utf8');
    const between = new RegExp(`(<!-- diagram:${name} -->)\\n+[\\s\\S]*?(<!-- /diagram:${name} -->)`);
    const expected = text.replace(between, `$1\n\n${diagram(table)}\n\n$2`);
    expect(text).toMatch(between);
    if (process.env['UPDATE_DESIGN'] === '1') writeFileSync(DOCUMENT, expected);
    else expect(text).toBe(expected);
  });

  it('has every file of lib in its file map, and no other', () => {
    const [, map = ''] = readFileSync(DOCUMENT, 'utf8').split('<!-- file-map -->');
    const named = [...map.matchAll(/^\| `([^`]+)`/gm)].map(([, path]) => path);
    const present = readdirSync('lib', { recursive: true, encoding: 'utf8' }).filter((path) => /\.c?ts$/.test(path));
    expect(present.length).toBeGreaterThan(100);
    expect([...named].sort()).toEqual(present.sort());
  });
});

const MEANINGS = {
  retry: 'retry with the usual backoff',
  longBackoff: 'retry with `longBackoff`, at the next server',
  credentials: '`retry` where a `credentials` supplier can bring new ones, else `longBackoff`',
  takeover: '`longBackoff`; after more than `maxTakeovers` (5) in a row give up: another client uses this client id',
  redirect: 'to the Server Reference if `serverReferences` allows it, else the next server with `longBackoff`',
  version: '`auto`: 3.1.1 at once; a fixed version gives up',
  giveUp: 'give up, status `failed`: the same CONNECT cannot succeed',
};

/** One row per action: the codes of CONNACK and of DISCONNECT that lead to it. */
function actionTable(): string {
  const codes = (actions: Readonly<Record<number, string>>, action: string): string =>
    Object.entries(actions)
      .filter(([, one]) => one === action)
      .map(([code]) => reasonName(Number(code)))
      .join(', ') || '–';
  const rows = Object.entries(MEANINGS).map(([action, meaning]) => {
    const rest =
      action === 'retry' ? ['every other one', 'every other one, and a connection that just ends'] : undefined;
    const [connack, disconnect] = [connackActions, disconnectActions].map((actions) => codes(actions, action));
    return `| ${meaning} | ${rest?.[0] ?? connack} | ${rest?.[1] ?? disconnect} |`;
  });
  return ['| what follows | CONNACK | DISCONNECT |', '| --- | --- | --- |', ...rows].join('\n');
}

it('README.md shows what follows which reason code as it is in the code (UPDATE_DESIGN=1 writes it)', () => {
  const text = readFileSync('README.md', 'utf8');
  const between = /(<!-- reason-codes -->)\n+[\s\S]*?(<!-- \/reason-codes -->)/;
  expect(text).toMatch(between);
  const expected = text.replace(between, `$1\n\n<!-- prettier-ignore -->\n${actionTable()}\n\n$2`);
  if (process.env['UPDATE_DESIGN'] === '1') writeFileSync('README.md', expected);
  else expect(text).toBe(expected);
});

it('test/cases/REPORTS.md names specs that exist', () => {
  const named = [...readFileSync('test/cases/REPORTS.md', 'utf8').matchAll(/`([^`]+\.spec\.ts)`/g)].map(
    ([, path]) => path,
  );
  expect(named.length).toBeGreaterThan(28);
  expect(named.filter((path) => !existsSync(`test/${path}`))).toEqual([]);
});
