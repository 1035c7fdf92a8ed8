import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { connectionTransitions } from '../../lib/mqtt/protocol/connection-state.js';
import { deliveryTransitions } from '../../lib/mqtt/protocol/delivery.js';
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

  it('names only files that exist in its file map', () => {
    const [, map = ''] = readFileSync(DOCUMENT, 'utf8').split('<!-- file-map -->');
    const named = [...map.matchAll(/^\| `([^`]+)`/gm)].map(([, path]) => path);
    expect(named.length).toBeGreaterThan(100);
    expect(named.filter((path) => !existsSync(`lib/${path}`))).toEqual([]);
  });
});
