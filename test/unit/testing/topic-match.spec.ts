import { filterFault, parseFilter, topicMatches } from '../../../lib/testing/mqtt/topic-match.js';

describe('topic filters of the in-memory broker', () => {
  it.each([
    ['a/b', 'a/b', true],
    ['a/b', 'a/B', false],
    ['a/+', 'a/b', true],
    ['a/+', 'a', false],
    ['a/+', 'a/', true],
    ['a/+', 'a/b/c', false],
    ['a/#', 'a', true],
    ['a/#', 'a/b/c', true],
    ['#', 'a', true],
    ['+', '', true],
    ['+/+', '/', true],
    ['/+', '/x', true],
    ['+', '/x', false],
    ['#', '$SYS/x', false],
    ['+/x', '$SYS/x', false],
    ['$SYS/#', '$SYS/x', true],
  ])('%s and %s: %s', (filter, topic, expected) => {
    expect(topicMatches(filter, topic)).toBe(expected);
  });

  it.each([
    ['a/+/c', undefined],
    ['#', undefined],
    ['$share/g/a/#', undefined],
    ['', 'empty filter'],
    ['a/#/b', "'#' is not the last level"],
    ['a+', 'a wildcard must stand alone in its level'],
    ['$share/g', 'invalid shared subscription'],
    ['$share/+/a', 'invalid shared subscription'],
    ['a\0', 'filter holds U+0000'],
  ])('fault of %j: %s', (filter, fault) => {
    expect(filterFault(filter)).toBe(fault);
  });

  it('takes shared subscriptions apart', () => {
    expect(parseFilter('$share/g/a/+')).toEqual({ group: 'g', filter: 'a/+' });
    expect(parseFilter('a')).toEqual({ group: undefined, filter: 'a' });
  });
});
