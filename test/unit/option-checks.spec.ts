import { OptionsError } from '../../lib/errors.js';
import {
  arrayOf,
  boolean,
  checkOptions,
  describeValue,
  either,
  integer,
  isArray,
  isText,
  nearestName,
  nonEmptyText,
  object,
  oneOf,
  type OptionSchema,
  required,
  withOwnNames,
} from '../../lib/option-checks.js';

interface Options {
  name: string;
  size?: number;
  mode?: 'fast' | 'safe';
  inner?: { deep?: boolean };
  list?: string | string[];
}

const schema: OptionSchema<Options> = {
  name: required(nonEmptyText),
  size: integer(1, 9),
  mode: oneOf('fast', 'safe'),
  inner: object<{ deep?: boolean }>({ deep: boolean }),
  list: either('a string or a list of strings', [isText, nonEmptyText], [isArray, arrayOf(nonEmptyText, 1)]),
};

function failure(input: unknown): OptionsError {
  try {
    checkOptions<Options>('p', input, schema);
  } catch (error) {
    if (error instanceof OptionsError) return error;
    throw error;
  }
  throw new Error('no error');
}

it('accepts what fits; undefined counts as absent', () => {
  const accepted = [{ name: 'a' }, { name: 'a', size: undefined }, { name: 'a', mode: 'safe', inner: {}, list: ['x'] }];
  for (const input of accepted) expect(() => checkOptions<Options>('p', input, schema)).not.toThrow();
});

it.each<[unknown, string, string]>([
  [undefined, 'p', "Option 'p': expected an object, received a value of type undefined."],
  [[], 'p', "Option 'p': expected an object, received a value of type array."],
  [{}, 'p.name', "Option 'p.name': expected a non-empty string, received nothing."],
  [{ name: '' }, 'p.name', "Option 'p.name': expected a non-empty string, received ''."],
  [{ name: 'a', size: 10 }, 'p.size', "Option 'p.size': expected an integer from 1 to 9, received 10."],
  [
    { name: 'a', sise: 1 },
    'p.sise',
    "Option 'p.sise': expected one of name, size, mode, inner, list, received an unknown option. Did you mean 'size'?",
  ],
  [
    { name: 'a', mode: 'sfae' },
    'p.mode',
    "Option 'p.mode': expected one of 'fast', 'safe', received 'sfae'. Did you mean 'safe'?",
  ],
  [{ name: 'a', inner: { deep: 1 } }, 'p.inner.deep', "Option 'p.inner.deep': expected true or false, received 1."],
  [{ name: 'a', list: ['x', 3] }, 'p.list[1]', "Option 'p.list[1]': expected a non-empty string, received 3."],
  [{ name: 'a', list: 3 }, 'p.list', "Option 'p.list': expected a string or a list of strings, received 3."],
])('%j', (input, path, message) => {
  const error = failure(input);
  expect(error.path).toBe(path);
  expect(error.message).toBe(message);
});

it('does not take an inherited name for a known option', () => {
  expect(failure({ name: 'a', toString: 1 }).path).toBe('p.toString');
});

it('finds the nearest name, and none where none is near', () => {
  expect(nearestName('recieveMaximum', ['receiveMaximum', 'keepAlive'])).toBe('receiveMaximum');
  expect(nearestName('xyz', ['receiveMaximum', 'keepAlive'])).toBeUndefined();
});

it.each([
  ['host', ['qos', 'url'], 'url'],
  ['host', ['qos', 'store'], undefined],
  ['user', ['username', 'order'], 'username'],
  ['clean', ['cleanStart', 'tls'], 'cleanStart'],
  ['reconnectPeriod', ['reconnect', 'credentials'], 'reconnect'],
  ['keepalive', ['keepAlive'], 'keepAlive'],
  ['protocolId', ['protocolVersion', 'clientId'], 'protocolVersion'],
  ['serviceUrl', ['url', 'auth'], 'url'],
  ['token', ['topic', 'auth'], 'auth'],
  ['token', ['topic'], undefined],
  ['batch', ['batching', 'tenant'], 'batching'],
  ['operationTimeoutSeconds', ['operationTimeout', 'tls'], 'operationTimeout'],
  ['timeout', ['connectTimeout', 'closeTimeout'], undefined],
  ['to', ['topic', 'store'], undefined],
  ['qso', ['qos'], 'qos'],
  ['constructor', ['url'], undefined],
])('%s among %j: %s', (given, known, meant) => {
  expect(nearestName(given, known)).toBe(meant);
});

it('lists its own names before those of a parser, where the unknown one stands beside them', () => {
  const parse = (input: object) => () => checkOptions<Options>('p', input, schema);
  const refused = (input: object): OptionsError => {
    try {
      withOwnNames(parse(input), 'p', ['concurrency']);
    } catch (error) {
      return error as OptionsError;
    }
    throw new Error('no error');
  };
  expect(refused({ name: 'a', concurency: 1 }).message).toBe(
    "Option 'p.concurency': expected one of concurrency, name, size, mode, inner, list, received an unknown option. " +
      "Did you mean 'concurrency'?",
  );
  expect(refused({ name: 'a', inner: { deeep: true } })).toMatchObject({
    expected: 'one of deep',
    path: 'p.inner.deeep',
  });
  expect(refused({ name: '' }).expected).toBe('a non-empty string');
});

it('describes values briefly', () => {
  expect(describeValue('x'.repeat(100))).toHaveLength(42);
  expect(describeValue(Buffer.from('secret'))).toBe('a value of type Buffer');
  expect(describeValue(10n)).toBe('10n');
  expect(describeValue(null)).toBe('null');
});
