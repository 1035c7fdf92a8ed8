import { isTopicFilter, isTopicName, TopicCache } from '../../../../lib/mqtt/codec/topics.js';
import { random } from './support.js';

it.each(['a', '/', 'a/b', '+', '#', '+/#', 'a/+/b', '/#', '$SYS/#', '$share/g/a', '$share/g/#', '$share/g//', ' '])(
  '%p is a topic filter',
  (filter) => expect(isTopicFilter(filter)).toBe(true),
);
it.each(['', 'a#', '#/a', 'a/#/b', 'a+', '+a', 'a/+b', '$share', '$share/g', '$share/g/', '$share//a', '$share/#/a'])(
  '%p is no topic filter',
  (filter) => expect(isTopicFilter(filter)).toBe(false),
);
it('a topic name is not empty and has no wildcard', () => {
  expect(['a', '/', '$share/g/a', ' '].every(isTopicName)).toBe(true);
  expect(['', 'a+', '#'].some(isTopicName)).toBe(false);
});

it('the cache gives the same string for the same bytes, and never another topic', () => {
  const cache = new TopicCache();
  const read = (topic: string) => {
    const bytes = Buffer.from(`xx${topic}yy`);
    return cache.read(bytes, 2, bytes.length - 2);
  };
  const next = random(11);
  for (let round = 0; round < 50_000; round += 1) {
    const length = 1 + Math.floor(next() * 12);
    const topic = Array.from({ length }, () => 'ab/'[Math.floor(next() * 3)]).join('');
    if (read(topic) !== topic) throw new Error(`${topic} was read as another`);
  }
  const long = 't'.repeat(5000);
  expect(read(long)).toBe(long);
  expect(read('größe')).toBe('größe');
});
