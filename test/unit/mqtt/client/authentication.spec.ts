import { type InMemoryMqttBroker } from '../../../../lib/testing/index.js';
import { newClient, startBroker } from '../harness.js';

describe('user name and password', () => {
  it('come from the options, or from the URL', async () => {
    const broker = await startBroker();
    await newClient(broker, { username: 'u', password: 'p' }).connect();
    await newClient(broker, { clientId: 'b', url: broker.url.replace('//', '//user%40x:secret@') }).connect();
    const seen = broker.log.received('connect').map(({ username, password }) => [username, password?.toString()]);
    expect(seen).toEqual([
      ['u', 'p'],
      ['user@x', 'secret'],
    ]);
  });

  it('a supplier is asked on every attempt: an expired token is renewed', async () => {
    let token = 0;
    const broker = await startBroker({
      authenticate: ({ password }) => (password?.toString() === 'token-2' ? true : 0x86),
    });
    const client = newClient(broker, {
      protocolVersion: 5,
      waitForBroker: true,
      credentials: async () => ({ username: 'u', password: `token-${++token}` }),
    });
    await client.connect();
    expect(token).toBe(2);
    expect(client.status.lastError).toMatchObject({ code: 'ERR_AUTHENTICATION', reasonCode: 0x86 });
    expect(String(client.status.lastError)).not.toContain('token');
  });

  it('a refusal rejects connect() by name', async () => {
    const broker = await startBroker({ authenticate: () => false });
    await expect(newClient(broker, { protocolVersion: 4 }).connect()).rejects.toMatchObject({
      code: 'ERR_AUTHENTICATION',
      reasonCode: 0x87,
    });
  });

  it('a supplier that fails is an attempt that failed', async () => {
    const broker = await startBroker();
    const client = newClient(broker, { credentials: () => Promise.reject(new Error('vault is sealed')) });
    await expect(client.connect()).rejects.toMatchObject({
      code: 'ERR_AUTHENTICATION',
      cause: { message: 'vault is sealed' },
    });
  });
});

describe('enhanced authentication', () => {
  const answers = (step: number) =>
    step === 0 ? { continue: Buffer.from('challenge') } : { success: Buffer.from('server proof') };

  it('runs the exchange before CONNACK and checks the server', async () => {
    const seen: string[] = [];
    const broker = await startBroker({
      enhancedAuth: (data, method, step) => {
        seen.push(`${method} ${String(data)}`);
        return answers(step);
      },
    });
    const client = newClient(broker, {
      authentication: {
        method: 'TEST',
        start: () => Buffer.from('hello'),
        continue: async (data) => Buffer.from(`answer to ${String(data)}`),
        finish: (data) => {
          seen.push(`finish ${String(data)}`);
        },
      },
    });
    await client.connect();
    expect(seen).toEqual(['TEST hello', 'TEST answer to challenge', 'finish server proof']);
  });

  it('takes nothing from a server that fails its check', async () => {
    const broker = await startBroker({ enhancedAuth: (_data, _method, step) => answers(step) });
    const client = newClient(broker, {
      authentication: {
        method: 'TEST',
        start: () => undefined,
        continue: (data) => data,
        finish: () => {
          throw new Error('wrong proof');
        },
      },
    });
    await expect(client.connect()).rejects.toMatchObject({
      code: 'ERR_AUTHENTICATION',
      cause: { message: 'wrong proof' },
    });
    expect(client.stats.connects).toBe(0);
  });

  it('again on the same connection', async () => {
    const broker = await startBroker({ enhancedAuth: (_data, _method, step) => answers(step) });
    const client = newClient(broker, {
      authentication: { method: 'TEST', start: () => Buffer.from('x'), continue: (data) => data },
    });
    await client.connect();
    broker.options.enhancedAuth = () => ({ success: undefined });
    await client.reauthenticate();
    expect(broker.log.received('auth').at(-1)).toMatchObject({ reasonCode: 0x19 });
    expect(broker.log.received('connect')).toHaveLength(1);
  });

  it('an AUTH that was not asked for is a protocol error', async () => {
    const broker = await startBroker();
    await newClient(broker, { protocolVersion: 5 }).connect();
    broker.connection!.send({ cmd: 'auth', reasonCode: 0x18, properties: { authenticationMethod: 'X' } });
    const [{ reasonCode }] = await broker.log.waitForReceived('disconnect', 1);
    expect(reasonCode).toBe(0x82);
  });
});

describe('server references', () => {
  it('are followed only to allowed hosts', async () => {
    const [first, second] = [await startBroker(), await startBroker()];
    first.options.connackProperties = undefined;
    const reference = `nowhere.example:1 127.0.0.1:${second.port}`;
    const client = newClient(first, { protocolVersion: 5, serverReferences: [`127.0.0.1:${second.port}`] });
    await client.connect();
    first.connection!.disconnect(0x9c, { serverReference: reference });
    await second.log.waitForReceived('connect', 1);

    const strict = newClient(first, { clientId: 'strict', protocolVersion: 5, longBackoff: { initial: 1, max: 5 } });
    await strict.connect();
    const since = first.log.position;
    first.connection!.disconnect(0x9c, { serverReference: reference });
    await first.log.waitForReceived('connect', 1, { since });
    expect(second.log.received('connect')).toHaveLength(1);
  });

  /** Refuses every CONNECT and names `other`. */
  const sendAway = (broker: InMemoryMqttBroker, other: InMemoryMqttBroker): void => {
    broker.options.authenticate = () => 0x9c;
    broker.onSend((packet) =>
      packet.cmd === 'connack'
        ? { ...packet, properties: { serverReference: `127.0.0.1:${other.port}`, reasonString: 'go there' } }
        : undefined,
    );
  };

  it('are followed from CONNACK too, within one connect()', async () => {
    const [first, second] = [await startBroker(), await startBroker()];
    sendAway(first, second);
    const client = newClient(first, { protocolVersion: 5, serverReferences: ['127.0.0.1'] });
    const { server } = await client.connect();
    expect(server).toBe(`tcp://127.0.0.1:${second.port}`);
    const strict = newClient(first, { clientId: 'strict', protocolVersion: 5 });
    await expect(strict.connect()).rejects.toMatchObject({
      reasonCode: 0x9c,
      message: expect.stringContaining('go there'),
    });
  });

  it('of servers that name each other are not followed for ever', async () => {
    const [first, second] = [await startBroker(), await startBroker()];
    sendAway(first, second);
    sendAway(second, first);
    const client = newClient(first, { protocolVersion: 5, serverReferences: ['127.0.0.1'] });
    await expect(client.connect()).rejects.toMatchObject({ code: 'ERR_CONNECTION', reasonCode: 0x9c });
    expect([first, second].map((broker) => broker.log.received('connect').length)).toEqual([3, 3]);
    first.options.authenticate = undefined;
    expect((await client.connect()).server).toBe(`tcp://127.0.0.1:${first.port}`);
  });
});
