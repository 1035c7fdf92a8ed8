import { OverlapFinder, subscriptionIdentifierFor } from '../../../lib/nest/overlap.js';

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
  const shared = `$share/g/${b}`;
  const finder = new OverlapFinder();
  for (const filter of [a, shared]) finder.add(filter);
  expect([a, shared].map((filter) => finder.overlaps(filter))).toEqual([expected, expected]);
  expect(filtersOverlap(a, b)).toBe(expected);
});

it('agrees with the comparison of every pair, on many random filters', () => {
  const names = ['a', 'b', '$x', '+', ''];
  let seed = 1;
  const below = (n: number): number => (seed = Math.imul(seed, 48_271) & 0x7fffffff) % n;
  let alone = 0;
  for (let round = 0; round < 3_000; round++) {
    const filters = new Set<string>();
    for (let i = 0; i < 2 + below(4); i++) {
      const levels = Array.from({ length: 1 + below(3) }, () => names[below(names.length)]);
      if (below(4) === 0) levels.push('#');
      filters.add(levels.join('/'));
    }
    const finder = new OverlapFinder();
    for (const filter of filters) finder.add(filter);
    for (const filter of filters) {
      const expected = [...filters].some((other) => other !== filter && filtersOverlap(filter, other));
      if (!expected) alone += 1;
      expect([filter, [...filters], finder.overlaps(filter)]).toEqual([filter, [...filters], expected]);
    }
  }
  expect(alone).toBeGreaterThan(100);
});

/** The rule for one pair: what the trie is compared with. */
function filtersOverlap(a: string, b: string): boolean {
  if (a === b) return true;
  const [left, right] = [a.split('/'), b.split('/')];
  const wildcard = (name: string): boolean => name === '+' || name === '#';
  if (wildcard(left[0]) && right[0].startsWith('$')) return false;
  if (wildcard(right[0]) && left[0].startsWith('$')) return false;
  for (let level = 0; ; level++) {
    const [l, r] = [left.at(level), right.at(level)];
    if (l === '#' || r === '#') return true;
    if (l === undefined || r === undefined) return l === r;
    if (l !== '+' && r !== '+' && l !== r) return false;
  }
}

it('identifiers are stable, in range, and tell filters apart', () => {
  const filters = Array.from({ length: 1_000 }, (_, i) => `device/${i}/+`);
  const identifiers = filters.map(subscriptionIdentifierFor);
  expect(filters.map(subscriptionIdentifierFor)).toEqual(identifiers);
  expect(Math.min(...identifiers)).toBeGreaterThanOrEqual(1);
  expect(Math.max(...identifiers)).toBeLessThanOrEqual(0x0fffffff);
  expect(new Set(identifiers).size).toBe(1_000);
});
