import { SERVER_ERRORS, serverErrorRule } from '../../../lib/pulsar/protocol/server-errors.js';
import { type ServerErrorName } from '../../../lib/testing/pulsar/index.js';
import { PulsarWorld, received, text } from './support/world.js';

// What each `ServerError` of PulsarApi.proto does: to an attempt to open a producer, and to a message. Written down here a
// second time, so that a changed table is noticed.
const TERMINAL: Readonly<Record<string, string>> = {
  AuthenticationError: 'ERR_AUTHENTICATION',
  AuthorizationError: 'ERR_AUTHORIZATION',
  UnsupportedVersionError: 'ERR_NOT_SUPPORTED',
  TopicNotFound: 'ERR_TOPIC',
  SubscriptionNotFound: 'ERR_BROKER',
  TopicTerminatedError: 'ERR_TERMINATED',
  InvalidTopicName: 'ERR_TOPIC',
  IncompatibleSchema: 'ERR_SCHEMA',
  InvalidTxnStatus: 'ERR_BROKER',
  NotAllowedError: 'ERR_BROKER',
  TransactionConflict: 'ERR_BROKER',
  TransactionNotFound: 'ERR_BROKER',
  ProducerFenced: 'ERR_FENCED',
};
const RETRIED = [
  'UnknownError',
  'MetadataError',
  'PersistenceError',
  'ConsumerBusy',
  'ServiceNotReady',
  'ProducerBlockedQuotaExceededError',
  'ProducerBlockedQuotaExceededException',
  'ChecksumError',
  'ConsumerNotFound',
  'TooManyRequests',
  'ProducerBusy',
  'ConsumerAssignError',
  'TransactionCoordinatorNotFound',
];
const SEND_TERMINAL = [
  'AuthenticationError',
  'AuthorizationError',
  'UnsupportedVersionError',
  'TopicTerminatedError',
  'InvalidTopicName',
  'ProducerFenced',
];
const SEND_ITEM = [
  'IncompatibleSchema',
  'TransactionCoordinatorNotFound',
  'InvalidTxnStatus',
  'NotAllowedError',
  'TransactionConflict',
  'TransactionNotFound',
];
const ALL: readonly string[] = Object.values(SERVER_ERRORS).map(({ name }) => name);
const SEND_RESTART = ALL.filter((name) => !SEND_TERMINAL.includes(name) && !SEND_ITEM.includes(name));

describe('ServerError', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it('is known with every code of the protocol, each in exactly one class', () => {
    expect(ALL).toHaveLength(26);
    expect([...Object.keys(TERMINAL), ...RETRIED].sort()).toEqual([...ALL].sort());
  });

  it('of a newer broker is retried', () => {
    expect(serverErrorRule(99)).toMatchObject({ request: 'retry', send: 'restart', name: 'server error 99' });
  });

  describe.each(Object.entries(TERMINAL))('%s', (name, code) => {
    it.each(['partitionMetadata', 'lookupTopic', 'producer'] as const)('ends createProducer at %s', async (command) => {
      const broker = await world.broker();
      broker.failNext(command, name as ServerErrorName, 'said the broker');
      await expect(world.client(broker).createProducer({ topic: 'unit' })).rejects.toMatchObject({
        code,
        retriable: false,
        message: expect.stringContaining(`the broker answered ${name}: said the broker`) as string,
      });
      expect(received(broker, command)).toBe(1);
    });

    it('ends a producer that wants to come back, with what is pending, and nothing is dialled again', async () => {
      const broker = await world.broker();
      const producer = await world.client(broker).createProducer({ topic: 'unit', batching: false });
      broker.silenceNext('send');
      const send = producer.send(text('pending'));
      await broker.waitFor(() => received(broker, 'send') === 1);
      broker.failNext('producer', name as ServerErrorName);
      broker.unload('unit');
      await expect(send).rejects.toMatchObject({ code, retriable: false, ambiguous: true });
      await expect(producer.send(text('late'))).rejects.toMatchObject({ code, ambiguous: false });
      expect(producer.state).toBe('terminated');
      expect(received(broker, 'producer')).toBe(2);
    });
  });

  it.each(RETRIED)('%s is tried again by createProducer and by a producer that wants to come back', async (name) => {
    const broker = await world.broker();
    const commands = ['partitionMetadata', 'lookupTopic', 'producer'] as const;
    for (const command of commands) broker.failNext(command, name as ServerErrorName);
    const producer = await world.client(broker).createProducer({ topic: 'unit', batching: false });
    expect(commands.map((command) => received(broker, command))).toEqual([2, 3, 2]);
    broker.silenceNext('send');
    const send = producer.send(text('pending'));
    await broker.waitFor(() => received(broker, 'send') === 1);
    // The one answer by which the broker asks not to hold what is pending.
    const fails = name === 'ProducerBlockedQuotaExceededException';
    if (!fails) broker.failNext('lookupTopic', name as ServerErrorName);
    broker.failNext('producer', name as ServerErrorName);
    broker.unload('unit');
    if (fails) await expect(send).rejects.toMatchObject({ code: 'ERR_BROKER', retriable: true, ambiguous: true });
    else await send;
    await producer.send(text('later'));
    expect(broker.topic('unit').texts).toEqual(fails ? ['later'] : ['pending', 'later']);
    // An error of a request is no error of its connection.
    expect(broker.allConnections).toHaveLength(1);
  });

  describe('in a SEND_ERROR', () => {
    const three = async (name: string) => {
      const broker = await world.broker();
      const producer = await world.client(broker).createProducer({ topic: 'unit', batching: false });
      await producer.send(text('before'));
      broker.failNext('send', name as ServerErrorName);
      const outcomes = await Promise.allSettled(['a', 'b', 'c'].map((value) => producer.send(text(value))));
      return { broker, producer, failed: outcomes.map(({ status }) => status === 'rejected'), outcomes };
    };

    it.each(SEND_ITEM)('%s fails that message alone', async (name) => {
      const { broker, producer, failed, outcomes } = await three(name);
      expect(failed).toEqual([true, false, false]);
      const code = name === 'IncompatibleSchema' ? 'ERR_SCHEMA' : 'ERR_BROKER';
      expect(outcomes[0]).toMatchObject({ reason: { code, message: expect.stringContaining(name) as string } });
      expect(broker.topic('unit').texts).toEqual(['before', 'b', 'c']);
      expect(producer.stats.connects).toBe(1);
    });

    it.each(SEND_RESTART)('%s opens the producer again and sends everything that is pending', async (name) => {
      const { broker, producer, failed } = await three(name);
      expect(failed).toEqual([false, false, false]);
      expect(producer.stats.connects).toBe(2);
      expect(new Set(broker.topic('unit').texts)).toEqual(new Set(['before', 'a', 'b', 'c']));
    });

    it.each(SEND_TERMINAL)('%s ends the producer', async (name) => {
      const { producer, failed, outcomes } = await three(name);
      expect(failed).toEqual([true, true, true]);
      expect(outcomes[0]).toMatchObject({ reason: { code: TERMINAL[name], retriable: false } });
      expect(producer.state).toBe('terminated');
    });
  });
});
