import { readFileSync } from 'node:fs';
import { EXCEPTIONS, exceptionOf } from './exceptions.js';
import { play } from './play.js';
import { report, runSequences } from './run.js';
import { nameOf, parseSequences, type Sequence } from './sequence.js';

const own = parseSequences(readFileSync('test/sequences/own.ndjson', 'utf8'));

describe('our own sequences, with the reason code of each DISCONNECT', () => {
  it.each(own.map((sequence) => [nameOf(sequence), sequence] as const))('%s', async (_name, sequence) => {
    expect(await play(sequence, { exactDisconnect: true, patience: 10_000 })).toBeUndefined();
  });
});

const line = (change: Partial<Sequence>): Sequence => ({
  file: 'PUBLISH',
  group: 'g',
  name: 'n',
  version: 5,
  cleanStart: true,
  command: null,
  steps: [{ expect: 'CONNECT' }, { send: '2003000000' }],
  then: 'alive',
  ...change,
});

describe('the runner notices', () => {
  const connected = [{ expect: 'CONNECT' }, { send: '2003000000' }];
  it.each([
    ['a connection that stays', line({ then: 'closed' }), 'kept the connection open'],
    [
      'a connection that goes',
      line({ version: 4, steps: [connected[0], { send: '2003000000' }] }),
      'the client closed',
    ],
    ['a DISCONNECT', line({ steps: [...connected, { send: '0000' }] }), 'e0028200 came instead of the PUBACK'],
    ['a missing packet', line({ steps: [...connected, { expect: '40020001' }] }), 'did not come'],
    ['another packet', line({ steps: [...connected, { send: '50020001' }, { expect: '40020001' }] }), 'instead of'],
    ['another identifier', line({ steps: [...connected, { send: '50020001' }, { expect: '62020002' }] }), 'instead of'],
    ['an answer too many', line({ steps: [...connected, { send: '50020001' }] }), 'instead of the PUBACK'],
  ])('%s', async (_name, sequence, what) => {
    expect(await play(sequence, { patience: 500 })).toContain(what);
  });

  it('a DISCONNECT with another reason, where it is asked for', async () => {
    const sequence = line({ steps: [...connected, { send: '0000' }, { expect: 'e00195' }], then: 'closed' });
    expect(await play(sequence)).toBeUndefined();
    expect(await play(sequence, { exactDisconnect: true })).toBe('step 4: e0028200 came instead of e00195');
  });
});

it('counts, and names what leaves the total', async () => {
  const excepted = line({ name: '38 QoS 0 Dup 1', version: 4, steps: [{ expect: 'CONNECT' }, { send: '20020000' }] });
  const result = await runSequences(
    [line({}), line({ then: 'closed', name: 'wrong' }), line({ version: 3 }), excepted],
    {
      patience: 500,
    },
  );
  expect(report(result)).toEqual([
    'FAILED g: wrong: the client kept the connection open',
    expect.stringMatching(/^EXCEPTED g: 38 QoS 0 Dup 1: MQTT-3\.3\.1-2/),
    'NOT SUPPORTED 1 lines of MQTT 3.1 (version 3)',
    '1/2',
  ]);
});

it('every exception names its clause, and spares only lines that end as it says', () => {
  for (const { clause } of EXCEPTIONS) expect(clause).toMatch(/MQTT(-| 5 )\d\.\d+\.\d/);
  expect(exceptionOf(line({ name: '38 QoS 0 Dup 1', then: 'alive' }))).toBeDefined();
  expect(exceptionOf(line({ name: '38 QoS 0 Dup 1', then: 'closed' }))).toBeUndefined();
  expect(exceptionOf(line({ name: '30 [MQTT-3.1.0-1]', then: 'closed' }))).toBeUndefined();
});

it.each([
  ['{', 'line 1: not JSON'],
  [JSON.stringify(line({ version: 6 })), 'version must be'],
  [JSON.stringify(line({ steps: [{ send: 'xyz' }] })), 'a step must be'],
  [JSON.stringify(line({ then: 'open' as 'closed' })), 'then must be'],
  [JSON.stringify(line({ command: 'jump' as 'unsubscribe' })), 'unknown command'],
])('a line out of the format is refused: %s', (text, what) => {
  expect(() => parseSequences(text)).toThrow(what);
});
