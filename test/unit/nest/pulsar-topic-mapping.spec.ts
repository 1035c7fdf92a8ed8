import { fromPulsarTopic, toPulsarTopic } from '../../../lib/nest/pulsar-topic-mapping.js';

describe('toPulsarTopic', () => {
  it.each([
    ['temperature', 'persistent://public/default/temperature'],
    ['plant/7/temp', 'persistent://public/default/plant%2F7%2Ftemp'],
    ['/leading/', 'persistent://public/default/%2Fleading%2F'],
    ['$SYS/broker', 'persistent://public/default/%24SYS%2Fbroker'],
    ['a b+c#d', 'persistent://public/default/a%20b%2Bc%23d'],
    ['50%', 'persistent://public/default/50%25'],
    ['é/漢/🚀', 'persistent://public/default/%C3%A9%2F%E6%BC%A2%2F%F0%9F%9A%80'],
    ["it's(*)!", 'persistent://public/default/it%27s%28%2A%29%21'],
    ['-._~', 'persistent://public/default/-._~'],
    ['x-partition-3', 'persistent://public/default/x%2Dpartition-3'],
    ['x-partition-', 'persistent://public/default/x-partition-'],
    ['.', 'persistent://public/default/%2E'],
    ['..', 'persistent://public/default/%2E%2E'],
    ['tenant/ns/topic', 'persistent://public/default/tenant%2Fns%2Ftopic'],
    ['http://not/pulsar', 'persistent://public/default/http%3A%2F%2Fnot%2Fpulsar'],
  ])('%s', (pattern, topic) => {
    expect(toPulsarTopic(pattern)).toBe(topic);
    expect(fromPulsarTopic(topic)).toBe(pattern);
  });

  it.each(['persistent://t/n/topic', 'non-persistent://t/n/topic', 'persistent://t/cluster/n/topic'])(
    'leaves the full name %s as it is',
    (topic) => expect(toPulsarTopic(topic, { tenant: 'other' })).toBe(topic),
  );

  it('takes tenant, namespace and domain', () => {
    expect(toPulsarTopic('a/b', { tenant: 'iot', namespace: 'raw', persistent: false })).toBe(
      'non-persistent://iot/raw/a%2Fb',
    );
  });

  it('different patterns have different topics', () => {
    const patterns = ['a/b', 'a%2Fb', 'a%252Fb', 'a-partition-1', 'a%2Dpartition-1', '.', '%2E', 'A/b', 'a//b'];
    const topics = patterns.map((pattern) => toPulsarTopic(pattern));
    expect(new Set(topics).size).toBe(patterns.length);
    expect(topics.map(fromPulsarTopic)).toEqual(patterns);
  });

  it.each(['', 'persistent://', 'persistent://t/n', 'persistent://t/n/', 'non-persistent:///n/t', 'a\ud800b'])(
    'refuses %j',
    (pattern) => {
      expect(() => toPulsarTopic(pattern)).toThrow(expect.objectContaining({ code: 'ERR_TOPIC', retriable: false }));
    },
  );

  it('a topic of another origin gives its local name', () => {
    expect(fromPulsarTopic('persistent://t/n/100%')).toBe('100%');
    expect(fromPulsarTopic('just-a-name')).toBe('just-a-name');
  });
});
