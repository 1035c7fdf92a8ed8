/**
 * Checks of user options, shared by the rooms: an unknown key, a wrong type or a value out of range throws an
 * {@link OptionsError} that names the path and what is allowed. Values are only described by type where they may be secret.
 */
import { OptionsError } from './errors.js';

/** Throws an `OptionsError` unless `value` is acceptable at `path`. Never called with `undefined`, except by `required`. */
export type OptionCheck = (path: string, value: unknown) => void;

/** One check per key of the options type, so that a new option cannot be forgotten here. */
export type OptionSchema<T extends object> = { readonly [K in keyof Required<T>]: OptionCheck };

/** The names that were known where an unknown one was found. */
const knownNames = new WeakMap<OptionsError, readonly string[]>();

/** Marks the checks that also see `undefined`. */
const REQUIRED = Symbol('required');

/**
 * Checks a whole options object. `undefined` values count as absent.
 *
 * @param path where the object stands, for example `mqtt`; prefixes every error
 */
export function checkOptions<T extends object>(
  path: string,
  input: unknown,
  schema: OptionSchema<T>,
): asserts input is T {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) {
    throw new OptionsError(path, 'an object', describeValue(input));
  }
  const names = Object.keys(schema);
  for (const key of Object.keys(input)) {
    if (!Object.hasOwn(schema, key)) throw unknownOption(path, key, names);
  }
  for (const key of names) {
    const check = schema[key as keyof OptionSchema<T>];
    const value = (input as Record<string, unknown>)[key];
    if (value !== undefined || REQUIRED in check) check(join(path, key), value);
  }
}

/** The value must be there. */
export function required(check: OptionCheck): OptionCheck {
  const wrapped = (path: string, value: unknown): void => {
    if (value === undefined) throw new OptionsError(path, expectation(path, check), 'nothing');
    check(path, value);
  };
  return Object.assign(wrapped, { [REQUIRED]: true });
}

/** What a check says that it wants. */
function expectation(path: string, check: OptionCheck): string {
  try {
    check(path, undefined);
  } catch (error) {
    if (error instanceof OptionsError) return error.expected;
  }
  return 'a value';
}

/**
 * Runs the parser of options beside which some of our own stand: where it finds an unknown name at `path`, the error lists
 * ours first and then the parser's, and the nearest one may be of either.
 */
export function withOwnNames<T>(parse: () => T, path: string, own: readonly string[]): T {
  try {
    return parse();
  } catch (error) {
    throw addNames(error, path, own);
  }
}

/** The same for an error that was caught. */
export function addNames(error: unknown, path: string, own: readonly string[]): unknown {
  const known = error instanceof OptionsError ? knownNames.get(error) : undefined;
  if (known === undefined) return error;
  const { path: where } = error as OptionsError;
  const key = where.slice(join(path, '').length);
  return where === join(path, key) && !key.includes('.') ? unknownOption(path, key, [...own, ...known]) : error;
}

function unknownOption(path: string, key: string, names: readonly string[]): OptionsError {
  const expected = names.length === 0 ? 'no options' : `one of ${names.join(', ')}`;
  const error = new OptionsError(join(path, key), expected, 'an unknown option', nearestName(key, names));
  knownNames.set(error, names);
  return error;
}

/**
 * A `url` that is there and `undefined` is a mistake: most often an environment variable that is not set, in whose place a
 * default would connect somewhere else.
 *
 * @throws OptionsError
 */
export function checkUrlIsSet(path: string, input: unknown, expected: string): void {
  if (typeof input !== 'object' || input === null || !Object.hasOwn(input, 'url')) return;
  if ((input as { url?: unknown }).url !== undefined) return;
  throw new OptionsError(join(path, 'url'), expected, 'undefined (is an environment variable missing?)');
}

/** Any value that passes `test`. `expected` completes "expected ...". */
export function satisfies(expected: string, test: (value: unknown) => boolean): OptionCheck {
  return (path, value) => {
    if (!test(value)) throw new OptionsError(path, expected, describeValue(value));
  };
}

/** Like {@link satisfies}, but an error never shows the value. */
export function secret(expected: string, test: (value: unknown) => boolean): OptionCheck {
  return (path, value) => {
    if (!test(value)) throw new OptionsError(path, expected, `a value of type ${typeName(value)}`);
  };
}

export function integer(min = 0, max = Number.MAX_SAFE_INTEGER, unit = ''): OptionCheck {
  const suffix = unit === '' ? '' : ` (${unit})`;
  const range = max === Number.MAX_SAFE_INTEGER ? `, ${min} or more` : ` from ${min} to ${max}`;
  return satisfies(
    `an integer${range}${suffix}`,
    (value) => Number.isInteger(value) && (value as number) >= min && (value as number) <= max,
  );
}

export function number(min: number, max: number, unit = ''): OptionCheck {
  const suffix = unit === '' ? '' : ` (${unit})`;
  return satisfies(
    `a number from ${min} to ${max}${suffix}`,
    (value) => typeof value === 'number' && value >= min && value <= max,
  );
}

/** A time in milliseconds; 0 is accepted unless `min` says otherwise. */
export function milliseconds(min = 0, max = 2 ** 31 - 1): OptionCheck {
  return integer(min, max, 'milliseconds');
}

export const boolean: OptionCheck = satisfies('true or false', (value) => typeof value === 'boolean');
export const text: OptionCheck = satisfies('a string', (value) => typeof value === 'string');
export const nonEmptyText: OptionCheck = satisfies(
  'a non-empty string',
  (value) => typeof value === 'string' && value !== '',
);
export const func: OptionCheck = satisfies('a function', (value) => typeof value === 'function');
export const bytes: OptionCheck = secret('a Buffer or Uint8Array', (value) => value instanceof Uint8Array);

/** An object whose own fields are not looked at (a class instance, a third party's options). */
export const anyObject: OptionCheck = satisfies('an object', (value) => typeof value === 'object' && value !== null);

/** An object with the named methods. */
export function objectWith(...methods: string[]): OptionCheck {
  return satisfies(
    `an object with ${methods.map((name) => `${name}()`).join(', ')}`,
    (value) =>
      typeof value === 'object' &&
      value !== null &&
      methods.every((name) => typeof (value as Record<string, unknown>)[name] === 'function'),
  );
}

export function oneOf(...allowed: readonly (string | number | boolean)[]): OptionCheck {
  return (path, value) => {
    if (allowed.includes(value as string)) return;
    const names = allowed.filter((name) => typeof name === 'string');
    throw new OptionsError(
      path,
      `one of ${allowed.map((name) => describeValue(name)).join(', ')}`,
      describeValue(value),
      typeof value === 'string' ? nearestName(value, names) : undefined,
    );
  };
}

/** A nested options object with its own schema. */
export function object<T extends object>(schema: OptionSchema<T>): OptionCheck {
  return (path, value) => checkOptions<T>(path, value, schema);
}

export function arrayOf(check: OptionCheck, minLength = 0): OptionCheck {
  return (path, value) => {
    if (!Array.isArray(value)) throw new OptionsError(path, 'an array', describeValue(value));
    if (value.length < minLength) throw new OptionsError(path, `at least ${minLength} entries`, `${value.length}`);
    value.forEach((entry, index) => check(`${path}[${index}]`, entry));
  };
}

/** A plain object with any keys and string values. */
export const textRecord: OptionCheck = secret(
  'an object with string values',
  (value) => isPlainObject(value) && Object.values(value).every((entry) => typeof entry === 'string'),
);

/**
 * The first check whose `when` accepts the value decides; so an object is checked as an object and its errors name the
 * inner path, instead of one vague error for all alternatives.
 */
export function either(
  expected: string,
  ...cases: readonly (readonly [when: (value: unknown) => boolean, check: OptionCheck])[]
): OptionCheck {
  return (path, value) => {
    const found = cases.find(([when]) => when(value));
    if (found === undefined) throw new OptionsError(path, expected, describeValue(value));
    found[1](path, value);
  };
}

export const isText = (value: unknown): value is string => typeof value === 'string';
export const isBoolean = (value: unknown): value is boolean => typeof value === 'boolean';
export const isFunction = (value: unknown): boolean => typeof value === 'function';
export const isArray = (value: unknown): value is unknown[] => Array.isArray(value);
export const isPlainObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);

/** How a value is called in an error: short, and of objects and functions the type only. */
export function describeValue(value: unknown): string {
  if (typeof value === 'string') return `'${value.length > 40 ? `${value.slice(0, 37)}...` : value}'`;
  if (typeof value === 'number' || typeof value === 'boolean' || value === null) return String(value);
  if (typeof value === 'bigint') return `${value}n`;
  return `a value of type ${typeName(value)}`;
}

function typeName(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'object') return value.constructor?.name ?? 'object';
  return typeof value;
}

function join(path: string, key: string): string {
  return path === '' ? key : `${path}.${key}`;
}

/**
 * The known name that was most likely meant: what another client calls so, else the nearest one for a typing error, else the
 * only one of which it is a part, or which is a part of it. Undefined if there is none.
 */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  const given = name.toLowerCase();
  const alias = Object.hasOwn(ELSEWHERE, given) ? ELSEWHERE[given].find((meant) => known.includes(meant)) : undefined;
  if (alias !== undefined) return alias;
  let best: string | undefined;
  // In a short name a second error leaves nothing to go by.
  let bestDistance = (given.length <= 4 ? 1 : Math.max(2, Math.floor(given.length / 3))) + 1;
  for (const candidate of known) {
    const distance = editDistance(given, candidate.toLowerCase());
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best ?? onlyOverlap(given, known);
}

/** Shorter parts say nothing: `to` is in `topic` and in `store`. */
const SHORTEST_PART = 4;

function onlyOverlap(given: string, known: readonly string[]): string | undefined {
  const overlapping = known.filter((candidate) => {
    const [short, long] = [given, candidate.toLowerCase()].sort((a, b) => a.length - b.length);
    return short.length >= SHORTEST_PART && long.includes(short);
  });
  return overlapping.length === 1 ? overlapping[0] : undefined;
}

/** Options of well-known clients (MQTT.js, the Pulsar clients, Nest's transports) in lower case, and what they are here. */
const ELSEWHERE: Readonly<Record<string, readonly string[]>> = {
  host: ['url'],
  hostname: ['url'],
  port: ['url'],
  protocol: ['url'],
  server: ['url', 'mqtt'],
  servers: ['url'],
  broker: ['url'],
  brokers: ['url'],
  brokerurl: ['url'],
  uri: ['url'],
  serviceurl: ['url'],
  user: ['username'],
  pass: ['password'],
  clean: ['cleanStart'],
  cleansession: ['cleanStart'],
  reconnectperiod: ['reconnect'],
  connectiontimeout: ['connectTimeout'],
  connectiontimeoutms: ['connectTimeout'],
  protocolid: ['protocolVersion'],
  version: ['protocolVersion'],
  queueqoszero: ['publishQueue'],
  wsoptions: ['websocket'],
  ca: ['tls'],
  cert: ['tls'],
  key: ['tls'],
  rejectunauthorized: ['tls'],
  tlstrustcertsfilepath: ['tls'],
  tlsallowinsecureconnection: ['tls'],
  token: ['auth'],
  authentication: ['auth'],
  producername: ['name'],
  compressiontype: ['compression'],
  messageroutingmode: ['routing'],
  blockifqueuefull: ['whenFull'],
  batchingmaxpublishdelayms: ['batching'],
  publickeypath: ['encryption'],
  cryptokeyreader: ['encryption'],
  prefetchcount: ['concurrency'],
  deadletterqueue: ['deadLetter'],
  dlq: ['deadLetter'],
  retries: ['retry', 'failure'],
  retry: ['failure'],
  group: ['sharedGroup'],
  strategy: ['mqtt'],
};

/** Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours cost one each. */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      let value = Math.min(row[j - 1] + 1, last[j] + 1, last[j - 1] + cost);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        value = Math.min(value, beforeLast[j - 2] + 1);
      row.push(value);
    }
    [beforeLast, last] = [last, row];
  }
  return last[b.length];
}
