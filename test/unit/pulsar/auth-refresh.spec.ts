import { tokenAuth } from '../../../lib/pulsar/index.js';
import { PulsarWorld, received, text } from './support/world.js';

/** AUTH_CHALLENGE is answered with a fresh token; connection and sends go on. */
describe('authentication refresh', () => {
  const world = new PulsarWorld();
  afterEach(() => world.close());

  it('announces the refresh and answers a challenge with twenty sends under way', async () => {
    const broker = await world.broker({ authenticate: (method, data) => method === 'token' && data.length > 0 });
    let calls = 0;
    const auth = tokenAuth(async () => `token-${++calls}`);
    const producer = await world.client(broker, { auth }).createProducer({ topic: 'unit', batching: false });
    broker.holdReceipts();
    const sends = Array.from({ length: 20 }, (_, n) => producer.send(text(`m${n}`)));
    await broker.waitFor(() => received(broker, 'send') === 20);
    broker.authChallenge();
    await broker.waitFor(() => received(broker, 'authResponse') === 1);
    broker.releaseReceipts();
    await Promise.all(sends);

    const packets = broker.log.entries.filter(({ direction }) => direction === 'in');
    const connect = packets.find(({ type }) => type === 'connect')!.packet as never as {
      featureFlags: { supportsAuthRefresh: boolean };
      authData: Buffer;
    };
    expect(connect.featureFlags.supportsAuthRefresh).toBe(true);
    expect(String(connect.authData)).toBe('token-1');
    const answer = packets.find(({ type }) => type === 'authResponse')!.packet as never as {
      response: { authData: Buffer };
    };
    expect(String(answer.response.authData)).toBe('token-2');
    expect(broker.allConnections.length).toBe(1);
    expect(producer.stats).toMatchObject({ connects: 1, succeeded: 20 });
  });

  it('shows a supplier that fails as an AuthenticationError without the token, and keeps the connection', async () => {
    const broker = await world.broker({ authenticate: () => true });
    let fail = false;
    const auth = tokenAuth(() => {
      if (fail) throw new Error('vault is sealed');
      return 'very-secret';
    });
    const client = world.client(broker, { auth });
    const producer = await client.createProducer({ topic: 'unit' });
    fail = true;
    const failure = new Promise<Error>((resolve) => client.on('connectFailed', ({ cause }) => resolve(cause)));
    broker.authChallenge();
    const error = await failure;
    expect(error).toMatchObject({ code: 'ERR_AUTHENTICATION', retriable: true });
    expect(error.message).not.toContain('very-secret');
    expect(client.status.lastError).toBe(error);
    await producer.send(text('still here'));
    expect(broker.allConnections.length).toBe(1);
  });

  it('fails createProducer at once when a fixed token is refused', async () => {
    const broker = await world.broker({ authenticate: () => false });
    const client = world.client(broker, { auth: tokenAuth('wrong-secret') });
    const error = await client.createProducer({ topic: 'unit' }).catch((reason: Error) => reason);
    expect(error).toMatchObject({ code: 'ERR_AUTHENTICATION' });
    expect((error as Error).message).not.toContain('wrong-secret');
  });
});
