import { errorText } from '../error-text.js';
import { OptionsError } from '../errors.js';
import { describeValue, isPlainObject } from '../option-checks.js';

/**
 * - `up`: working, or not used yet
 * - `degraded`: working, but somebody should look
 * - `down`: messages wait for something that is not there
 */
export type HealthStatus = 'up' | 'degraded' | 'down';

/** How one part is. `details` are plain values without secrets, for a health page. */
export interface ComponentHealth {
  readonly status: HealthStatus;
  /** Why it is not `up`. */
  readonly reason?: string;
  readonly details: Readonly<Record<string, unknown>>;
}

/** A strategy or a proxy of this package, or something of yours. */
export interface HealthSource {
  health(): ComponentHealth;
}

export interface HealthReport {
  /** The worst of the parts. */
  readonly status: HealthStatus;
  readonly parts: Readonly<Record<string, ComponentHealth>>;
}

/** What a Terminus health indicator gives. */
export type IndicatorResult<Key extends string = string> = {
  [K in Key]: { status: 'up' | 'down' } & Record<string, unknown>;
};

/** What is used of Terminus' `HealthIndicatorService`. */
export interface IndicatorService {
  check<Key extends string>(
    key: Key,
  ): {
    up(data: Record<string, unknown>): unknown;
    down(data: Record<string, unknown>): unknown;
  };
}

/**
 * The health of strategies and proxies, for a readiness probe (a liveness probe would restart a process that is only
 * waiting for its broker).
 *
 * ```ts
 * const health = new MqttPulsarHealth({ mqtt: strategy, pulsar: pulsarProxy });
 * health.check();                                        // never throws, never waits
 * terminus.check([() => health.isHealthy('messaging')]); // @nestjs/terminus, which is no dependency of this package
 * ```
 */
export class MqttPulsarHealth {
  private readonly sources: Readonly<Record<string, HealthSource>>;

  /**
   * @param sources strategies and proxies by the name they shall have in the report
   * @throws OptionsError if they are no such object
   */
  constructor(sources: Readonly<Record<string, HealthSource>>) {
    if (!isPlainObject(sources)) throw new OptionsError('health', EXPECTED, describeValue(sources));
    if (typeof (sources as { health?: unknown }).health === 'function') {
      throw new OptionsError('health', EXPECTED, 'a strategy or a proxy without a name');
    }
    for (const [name, source] of Object.entries<unknown>(sources)) {
      if (typeof source === 'object' && source !== null) continue;
      throw new OptionsError(
        `health.${name}`,
        'a strategy, a proxy or something else with health()',
        describeValue(source),
      );
    }
    this.sources = sources;
  }

  /** Never throws: a part that cannot be asked is `down`. */
  check(): HealthReport {
    const parts = Object.fromEntries(Object.entries(this.sources).map(([name, source]) => [name, ask(source)]));
    const statuses = Object.values(parts).map(({ status }) => status);
    const status = statuses.includes('down') ? 'down' : statuses.includes('degraded') ? 'degraded' : 'up';
    return { status, parts };
  }

  /**
   * A Terminus indicator: `degraded` counts as up.
   *
   * @param key the name in the result
   */
  isHealthy<Key extends string>(key: Key): IndicatorResult<Key> {
    const { status, parts } = this.check();
    const entry = { ...flatten(parts), status: status === 'down' ? 'down' : 'up' };
    return { [key]: entry } as unknown as IndicatorResult<Key>;
  }

  /** The same through Terminus' own service. */
  indicate<Service extends IndicatorService>(
    service: Service,
    key: string,
  ): ReturnType<ReturnType<Service['check']>['up' | 'down']> {
    const { status, parts } = this.check();
    const indicator = service.check(key);
    type Result = ReturnType<ReturnType<Service['check']>['up' | 'down']>;
    return (status === 'down' ? indicator.down(flatten(parts)) : indicator.up(flatten(parts))) as Result;
  }
}

const EXPECTED = 'an object of what to watch, such as { mqtt: strategy, pulsar: proxy }';

function ask(source: HealthSource): ComponentHealth {
  try {
    return source.health();
  } catch (error) {
    return { status: 'down', reason: errorText(error), details: {} };
  }
}

function flatten(parts: HealthReport['parts']): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(parts).map(([name, { status, reason, details }]) => [
      name,
      { status, ...(reason !== undefined && { reason }), ...details },
    ]),
  );
}
