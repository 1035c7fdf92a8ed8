import { filtersOverlap, stripShare, subscriptionIdentifierFor } from '../../../lib/nest/overlap.js';

it.each([
  ['a/b', 'a/b', true],
  ['a/b', 'a/c', false],
  ['a/+', 'a/b', true],
  ['a/+', '+/b', true],
  ['a/+', 'b/+', false],
  ['a/+', 'a/b/c', false],
  ['a/#', 'a', true],
  ['a/#', 'a/b/c', true],
  ['a/#', '+/b', true],
  ['#', 'x/y', true],
  ['#', '$SYS/x', false],
  ['+/x', '$SYS/x', false],
  ['$SYS/#', '$SYS/+', true],
  ['a/+/c', 'a//c', true],
  ['+', '/a', false],
])('%s and %s: %s', (a, b, expected) => {
  expect(filtersOverlap(a, b)).toBe(expected);
  expect(filtersOverlap(b, a)).toBe(expected);
});

it('strips $share/group/ and nothing else', () => {
  expect(stripShare('$share/g/a/+')).toBe('a/+');
  expect(stripShare('$SYS/a')).toBe('$SYS/a');
});

it('identifiers are stable, in range, and tell filters apart', () => {
  const filters = Array.from({ length: 1_000 }, (_, i) => `device/${i}/+`);
  const identifiers = filters.map(subscriptionIdentifierFor);
  expect(filters.map(subscriptionIdentifierFor)).toEqual(identifiers);
  expect(Math.min(...identifiers)).toBeGreaterThanOrEqual(1);
  expect(Math.max(...identifiers)).toBeLessThanOrEqual(0x0fffffff);
  expect(new Set(identifiers).size).toBe(1_000);
});
