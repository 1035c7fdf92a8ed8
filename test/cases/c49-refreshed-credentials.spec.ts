import { tokenAuth } from '../../lib/pulsar/index.js';
import { PulsarBench, texts } from './support/pulsar.js';

// streamnative/pulsar-rs#423, #429, pulsar-client-dotnet#362, #233, apache/pulsar#10816.
describe('C49: AUTH_CHALLENGE with sends in flight', () => {
  const broker = { authenticate: (_method: string, data: Buffer): boolean => data.toString().startsWith('token-') };

  it('answers with a fresh token, on the same connection, and the sends do not notice', async () => {
    let issued = 0;
    const auth = tokenAuth(async () => `token-${++issued}`);
    const bench = await PulsarBench.start({}, { broker, client: { auth } });
    expect(bench.broker.log.received('connect')[0]?.featureFlags).toMatchObject({ supportsAuthRefresh: true });
    bench.broker.holdReceipts();
    const sent = bench.sendAll(texts(20));
    await bench.sends(20);
    bench.broker.authChallenge();
    const [response] = await bench.broker.log.waitForReceived('authResponse');
    expect(response?.response?.authData?.toString()).toBe('token-2');
    bench.broker.releaseReceipts();
    await sent;
    expect(bench.resolved).toEqual(texts(20));
    expect(bench.broker.allConnections).toHaveLength(1);
    await bench.stop();
  });

  it('tells of a supplier that fails, without the token in it', async () => {
    let failing = false;
    const auth = tokenAuth(async () => {
      if (failing) throw new Error('the vault is sealed');
      return 'token-secret';
    });
    const bench = await PulsarBench.start({}, { broker, client: { auth } });
    failing = true;
    bench.broker.authChallenge();
    await bench.broker.waitFor(() => bench.client.status.lastError !== undefined);
    const { lastError } = bench.client.status;
    expect(lastError).toMatchObject({ code: 'ERR_AUTHENTICATION' });
    expect(String(lastError)).not.toContain('secret');
    failing = false;
    await bench.send('still there');
    expect(bench.resolved).toEqual(['still there']);
    await bench.stop();
  });
});
