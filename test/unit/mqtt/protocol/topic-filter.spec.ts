import {
  matchParameters,
  topicMatches,
  TopicRouter,
  validateTopicFilter,
  validateTopicName,
} from '../../../../lib/mqtt/protocol/topic-filter.js';

// Examples of the specification [MQTT5 4.7] and the edges around them.
const matches: [filter: string, topic: string, expected: boolean][] = [
  ['sport/tennis/player1/#', 'sport/tennis/player1', true],
  ['sport/tennis/player1/#', 'sport/tennis/player1/ranking', true],
  ['sport/tennis/player1/#', 'sport/tennis/player1/score/wimbledon', true],
  ['sport/#', 'sport', true],
  ['sport/#', 'sports', false],
  ['#', 'a', true],
  ['#', '/', true],
  ['#', '$SYS/x', false],
  ['sport/tennis/+', 'sport/tennis/player1', true],
  ['sport/tennis/+', 'sport/tennis/player1/ranking', false],
  ['sport/+', 'sport', false],
  ['sport/+', 'sport/', true],
  ['+/+', '/finance', true],
  ['/+', '/finance', true],
  ['+', '/finance', false],
  ['+/monitor/Clients', '$SYS/monitor/Clients', false],
  ['$SYS/#', '$SYS/monitor', true],
  ['$SYS/monitor/+', '$SYS/monitor/Clients', true],
  ['a//b', 'a//b', true],
  ['a/+/b', 'a//b', true],
  ['a/b', 'a/b/', false],
  ['a/b', 'A/b', false],
  ['a/$b/+', 'a/$b/c', true],
  ['+/$b', 'a/$b', true],
  ['$share/group/a/+', 'a/b', true],
  ['$share/group/#', '$SYS/x', false],
  ['$share/group/a', '$share/group/a', false],
];

it.each(matches)("'%s' and '%s': %s", (filter, topic, expected) => {
  const router = new TopicRouter<string>();
  router.add(filter, 'value');
  expect(router.match(topic)).toEqual(expected ? ['value'] : []);
  expect(topicMatches(filter, topic)).toBe(expected);
});

it('gives every registration once, whichever kind of filter', () => {
  const router = new TopicRouter<number>();
  ['a/b', 'a/+', '#', 'a/b', '$share/g/a/#', 'x'].forEach((filter, i) => router.add(filter, i));
  expect([...router.match('a/b')].sort()).toEqual([0, 1, 2, 3, 4]);
  expect([...router.match('x')].sort()).toEqual([2, 5]);
});

it('agrees with the plain rule on many random filters and topics', () => {
  const names = ['a', 'b', '', '+', '#', '$x'];
  let seed = 7;
  const below = (n: number): number => (seed = (seed * 48_271) % 2_147_483_647) % n;
  const filters: string[] = [];
  while (filters.length < 300) {
    const filter = Array.from({ length: 1 + below(4) }, () => names[below(6)]).join('/');
    try {
      validateTopicFilter(filter);
      filters.push(filter);
    } catch {
      // `#` in the middle, or empty.
    }
  }
  const router = new TopicRouter<string>();
  for (const filter of filters) router.add(filter, filter);
  let found = 0;
  for (let i = 0; i < 2000; i++) {
    const topic = Array.from({ length: 1 + below(4) }, () => ['a', 'b', '', '$x'][below(4)]).join('/');
    const expected = filters.filter((filter) => topicMatches(filter, topic));
    expect([topic, ...[...router.match(topic)].sort()]).toEqual([topic, ...expected.sort()]);
    found += expected.length;
  }
  expect(found).toBeGreaterThan(1000);
  for (const filter of filters) expect(router.remove(filter, filter)).toBe(true);
  expect(router.match('a/b')).toEqual([]);
  expect(router.remove('a/b', 'a/b')).toBe(false);
});

it('does not visit the other filters: 100,000 of them make no difference to the visits of one topic', () => {
  const router = new TopicRouter<number>();
  for (let i = 0; i < 100_000; i++) router.add(`devices/${i}/+/state`, i);
  router.add('devices/+/engine/state', -1);
  expect([...router.match('devices/77/engine/state')].sort((a, b) => a - b)).toEqual([-1, 77]);
});

it.each([
  ['+/b/#', 'a/b/c/d', ['a', 'c/d']],
  ['a/#', 'a', ['']],
  ['a/+', 'a/', ['']],
  ['$share/g/+/x', 'y/x', ['y']],
  ['a/+', 'b/c', []],
  ['a', 'a', []],
])("the wildcards of '%s' in '%s'", (filter, topic, expected) => {
  expect(matchParameters(filter, topic)).toEqual(expected);
});

it.each([
  '',
  'a/#/b',
  'a#',
  '#a',
  'a+/b',
  'a/+b',
  '$share/',
  '$share//a',
  '$share/g',
  '$share/g/',
  '$share/+/a',
  'a\u0000b',
])("refuses the filter '%s'", (filter) => {
  expect(() => validateTopicFilter(filter)).toThrow(expect.objectContaining({ code: 'ERR_LOCAL_PROTOCOL' }));
});

it.each(['/', '//', '+', '#', '$share/g/#', 'a b', '$SYS/#', 'ü/日'])("accepts the filter '%s'", (filter) => {
  expect(() => validateTopicFilter(filter)).not.toThrow();
});

it.each(['', 'a/+', '#', 'a\u0000', '\ud800', 'x'.repeat(65_536), '日'.repeat(21_846)])(
  'refuses the topic %#',
  (topic) => {
    expect(() => validateTopicName(topic)).toThrow(expect.objectContaining({ code: 'ERR_LOCAL_PROTOCOL' }));
  },
);

it('accepts a topic of exactly 65,535 bytes', () => {
  expect(() => validateTopicName('x'.repeat(65_535))).not.toThrow();
  expect(() => validateTopicName('日'.repeat(21_845))).not.toThrow();
});
