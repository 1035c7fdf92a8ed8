import { Controller, Module, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { type ClientProxy, EventPattern, type MicroserviceOptions, MessagePattern } from '@nestjs/microservices';
import { of } from 'rxjs';
import { MqttEvent } from '../../lib/nest/decorators.js';
import { type MqttServerOptions } from '../../lib/nest/mqtt-server-options.js';
import { MqttServerStrategy } from '../../lib/nest/mqtt-server.strategy.js';
import { InMemoryMqttBroker } from '../../lib/testing/index.js';

const target = { client: { emit: () => of(undefined) } as unknown as ClientProxy, pattern: 'dead' };
let broker: InMemoryMqttBroker;
let logged: string[] = [];
let warned: string[] = [];
beforeAll(async () => {
  broker = await InMemoryMqttBroker.start();
});
afterAll(() => broker.close());
beforeEach(() => {
  logged = [];
  warned = [];
});

function moduleOf(controllers: Type[]): Type {
  class AppModule {}
  Module({ controllers })(AppModule);
  return AppModule;
}

const logger = {
  log: (message: unknown) => logged.push(String(message)),
  warn: (message: unknown) => warned.push(String(message)),
  error: (message: unknown) => warned.push(String(message)),
};

async function startAndEnd(controllers: Type[], strategies: Partial<MqttServerOptions>[] = [{}]): Promise<void> {
  const app = await NestFactory.create(moduleOf(controllers), { logger, abortOnError: false });
  try {
    for (const [index, options] of strategies.entries()) {
      const strategy = new MqttServerStrategy({ url: broker.url, clientId: `app-${index}`, ...options });
      app.connectMicroservice<MicroserviceOptions>({ strategy });
    }
    await app.startAllMicroservices();
  } finally {
    await app.close();
  }
}

it('a broker without MQTT 5 is no warning', async () => {
  const old = await InMemoryMqttBroker.start({ versions: [4] });
  try {
    @Controller()
    class Devices {
      @MqttEvent('devices/+/telemetry')
      telemetry(): void {}
    }
    await startAndEnd([Devices], [{ url: old.url }]);
    expect(logged.filter((line) => line.startsWith('No MQTT 5 there, trying 3.1.1'))).toHaveLength(1);
    expect(logged.filter((line) => line.includes('with MQTT 3.1.1'))).toHaveLength(1);
    expect(warned).toEqual([]);
  } finally {
    await old.close();
  }
});

describe('what is subscribed', () => {
  it('one line per filter, with the granted QoS and the handlers', async () => {
    @Controller()
    class Devices {
      @MqttEvent('devices/+/telemetry')
      telemetry(): void {}
      @MqttEvent('devices/+/order', { qos: 2, sharedGroup: 'g' })
      order(): void {}
      @EventPattern<string>('devices/+/telemetry')
      copy(): void {}
    }
    await startAndEnd([Devices]);
    expect(logged.filter((line) => line.startsWith('Subscribed')).sort()).toEqual([
      "Subscribed '$share/g/devices/+/order' QoS 2: Devices.order",
      "Subscribed 'devices/+/telemetry' QoS 1: Devices.telemetry, handler of 'devices/+/telemetry'",
    ]);
    expect(warned).toEqual([]);
  });

  it('20 of 23 filters, then how many more', async () => {
    class Many {}
    for (let i = 0; i < 23; i += 1) {
      const descriptor = { value: () => undefined, configurable: true, writable: true };
      MqttEvent(`many/${i}`)(Many.prototype, `m${i}`, descriptor);
      Object.defineProperty(Many.prototype, `m${i}`, descriptor);
    }
    Controller()(Many);
    await startAndEnd([Many]);
    const lines = logged.filter((line) => line.startsWith('Subscribed'));
    expect(lines).toHaveLength(21);
    expect(lines.at(-1)).toBe('Subscribed 23 filters: these and 3 more');
  });
});

it.each(['a/*/b', '*', 'a/**', 'a/:id', 'a/{id}/b', 'a/>', 'orders.*', '$share/g/a/*'])(
  "the wildcard of another system in '%s' is named, with MQTT's",
  async (filter) => {
    @Controller()
    class Odd {
      @MqttEvent(filter)
      odd(): void {}
    }
    await startAndEnd([Odd]);
    expect(warned).toEqual([
      expect.stringMatching(/^'.*' \(Odd\.odd\) has the level '.+', .*wildcards are \+ .* and #/),
    ]);
  },
);

it.each(['a/+/#', 'a:b/c*d/1>2', 'a{b}', 'a/:', '$SYS/broker'])("'%s' is no reason to warn", async (filter) => {
  @Controller()
  class Usual {
    @MqttEvent(filter)
    usual(): void {}
  }
  await startAndEnd([Usual]);
  expect(warned).toEqual([]);
});

describe('a pattern that is an object', () => {
  @Controller()
  class Objects {
    @MessagePattern<object>({ cmd: 'sum' })
    sum(): number {
      return 1;
    }
  }

  it('is left to other transports, and said', async () => {
    await startAndEnd([Objects]);
    expect(warned).toContainEqual(
      expect.stringContaining('The pattern {"cmd":"sum"} is no topic filter: not subscribed'),
    );
    expect(logged.filter((line) => line.includes('Subscribed'))).toEqual([]);
  });

  it('is refused in our decorators, with what is allowed', async () => {
    class Ours {
      ours(): void {}
    }
    const descriptor = Object.getOwnPropertyDescriptor(Ours.prototype, 'ours')!;
    MqttEvent({ topic: 'x' } as unknown as string)(Ours.prototype, 'ours', descriptor);
    Controller()(Ours);
    await expect(startAndEnd([Ours])).rejects.toThrow(
      /handlers\['\{"topic":"x"\}'\]': expected a topic filter such as 'devices\/\+\/telemetry'.*envelope: 'nest'.*an object/,
    );
  });

  it("is one of Nest's own client where the envelope is", async () => {
    await startAndEnd([Objects], [{ envelope: 'nest' }]);
    expect(logged).toContainEqual(expect.stringContaining(`Subscribed '{"cmd":"sum"}' QoS 1`));
  });
});

describe('a deadLetter target', () => {
  @Controller()
  class Plain {
    @MqttEvent('plain')
    plain(): void {}
  }
  @Controller()
  class Own {
    @MqttEvent('own', { failure: { then: 'deadLetter' } })
    own(): void {}
  }
  @Controller()
  class Asked {
    @MqttEvent('asked', { failure: () => 'discard' })
    asked(): void {}
  }

  it.each([
    [undefined, 'messages without a handler and context.deadLetter() alone'],
    ['hold', 'for context.deadLetter() alone'],
  ] as const)('that no policy uses, with unmatched %s: one warning with the cure', async (unmatched, users) => {
    await startAndEnd([Plain], [{ deadLetter: target, ...(unmatched !== undefined && { unmatched }) }]);
    expect(warned).toEqual([expect.stringMatching(/^No failure policy uses the deadLetter target/)]);
    expect(warned[0]).toContain(users);
    expect(warned[0]).toContain("failure: { then: 'deadLetter' }");
  });

  it.each([
    ['the strategy', Plain, { failure: { then: 'deadLetter' } }],
    ['the function of the strategy', Plain, { failure: () => 'deadLetter' }],
    ['a handler', Own, {}],
    ['the function of a handler', Asked, {}],
  ] as const)('that %s may use: nothing to say', async (_who, controller, options) => {
    await startAndEnd([Plain, controller].slice(controller === Plain ? 1 : 0), [{ deadLetter: target, ...options }]);
    expect(warned).toEqual([]);
  });
});

describe('two strategies with one name', () => {
  @Controller()
  class Twice {
    @MqttEvent('twice')
    twice(): void {}
    @MqttEvent('plant', { server: 'plant' })
    plant(): void {}
  }

  it('in one application: the second one says that both run every message', async () => {
    await startAndEnd([Twice], [{}, {}]);
    expect(warned).toEqual([expect.stringMatching(/^A second strategy with the name 'default' has the same handlers/)]);
    expect(warned[0]).toContain('{ server: name }');
  });

  it('with two names, one after the other, or in two applications: nothing to say', async () => {
    await startAndEnd([Twice], [{}, { name: 'plant' }]);
    await Promise.all([
      startAndEnd([Twice]),
      NestFactory.createMicroservice(moduleOf([Twice]), {
        logger,
        strategy: new MqttServerStrategy({ url: broker.url, clientId: 'other' }),
      }).then(async (app) => {
        await app.listen();
        await app.close();
      }),
    ]);
    expect(warned).toEqual([]);
  });
});
