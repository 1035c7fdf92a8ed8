import { TerminusModule, HealthCheckService, HealthIndicatorService } from '@nestjs/terminus';
import { ServiceUnavailableException } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { type ComponentHealth, type HealthSource, MqttPulsarHealth } from '../../../lib/nest/health.js';

const part = (health: ComponentHealth): HealthSource => ({ health: () => health });
const up = part({ status: 'up', details: { pending: 0 } });
const degraded = part({ status: 'degraded', reason: 'slow', details: {} });
const down = part({ status: 'down', reason: 'no connection', details: { pending: 3 } });
const broken: HealthSource = {
  health: () => {
    throw new Error('not asked');
  },
};

describe('MqttPulsarHealth', () => {
  it.each([
    [{ a: up }, 'up'],
    [{ a: up, b: degraded }, 'degraded'],
    [{ a: degraded, b: down, c: up }, 'down'],
    [{ a: up, b: broken }, 'down'],
    [{}, 'up'],
  ])('is as good as its worst part %#', (parts, status) => {
    expect(new MqttPulsarHealth(parts).check().status).toBe(status);
  });

  it('says how each part is, and why', () => {
    expect(new MqttPulsarHealth({ mqtt: up, pulsar: down, other: broken }).check().parts).toEqual({
      mqtt: { status: 'up', details: { pending: 0 } },
      pulsar: { status: 'down', reason: 'no connection', details: { pending: 3 } },
      other: { status: 'down', reason: 'not asked', details: {} },
    });
  });

  describe('with Terminus', () => {
    const terminus = async (): Promise<[HealthCheckService, HealthIndicatorService]> => {
      const module = await Test.createTestingModule({ imports: [TerminusModule.forRoot({ logger: false })] }).compile();
      return [await module.resolve(HealthCheckService), module.get(HealthIndicatorService)];
    };

    it.each([
      ['up', up],
      ['up', degraded],
    ])('%s is healthy', async (_status, source) => {
      const [checks, service] = await terminus();
      const health = new MqttPulsarHealth({ part: source });
      for (const check of [() => health.isHealthy('m'), () => health.indicate(service, 'm')]) {
        const { status, details } = await checks.check([check]);
        expect([status, details['m'].status]).toEqual(['ok', 'up']);
        expect(details['m']).toMatchObject({ part: { status: source.health().status } });
      }
    });

    it('down is not healthy', async () => {
      const [checks, service] = await terminus();
      const health = new MqttPulsarHealth({ pulsar: down, mqtt: up });
      for (const check of [() => health.isHealthy('m'), () => health.indicate(service, 'm')]) {
        const error = await checks.check([check]).then(
          () => undefined,
          (reason: unknown) => reason,
        );
        expect(error).toBeInstanceOf(ServiceUnavailableException);
        expect((error as ServiceUnavailableException).getResponse()).toMatchObject({
          status: 'error',
          error: { m: { status: 'down', pulsar: { status: 'down', reason: 'no connection', pending: 3 } } },
        });
      }
    });
  });
});
