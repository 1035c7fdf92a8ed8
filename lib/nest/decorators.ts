import { EventPattern, MessagePattern } from '@nestjs/microservices';
import { OptionsError } from '../errors.js';
import { describeValue, isPlainObject, nonEmptyText } from '../option-checks.js';
import { peekAtFailures } from './failure-peek.filter.js';
import { type MqttHandlerOptions } from './handler-options.js';

/** Options of `@MqttEvent()` and `@MqttRequest()`. */
export interface MqttPatternOptions extends MqttHandlerOptions {
  /** `name` of the strategy that this handler belongs to. Default `default`. */
  readonly server?: string;
}

/** The transport id of the strategy called `name`: for the `transport` argument of Nest's own decorators. */
export function mqttTransportId(name = 'default'): symbol {
  return Symbol.for(`nestjs-mqtt-pulsar/mqtt:${name}`);
}

/**
 * Handles the messages of a topic filter (`+` and `#` allowed, or `$share/group/filter`). Writes Nest's own metadata, so
 * guards, pipes, interceptors and filters work as ever; acknowledged when the handler's result is complete.
 */
export function MqttEvent(filter: string, options: MqttPatternOptions = {}): MethodDecorator {
  const { server, ...extras } = checked(filter, options);
  return handles((name) => EventPattern<string>(filter, mqttTransportId(server), { ...extras, ...marks(name) }));
}

/**
 * Answers requests on a topic filter: the reply goes to the request's Response Topic with its Correlation Data (MQTT 5), or to
 * `<topic>/reply` where the strategy has `envelope: 'nest'`. Acknowledged when the broker has accepted the last reply.
 */
export function MqttRequest(filter: string, options: Omit<MqttPatternOptions, 'batch'> = {}): MethodDecorator {
  const { server, ...extras } = checked(filter, options);
  return handles((name) => MessagePattern<string>(filter, mqttTransportId(server), { ...extras, ...marks(name) }));
}

/** What can be told here; the strategy checks the rest before it connects. @throws OptionsError */
function checked(filter: string, options: MqttPatternOptions): MqttPatternOptions {
  const path = `handlers['${String(filter)}']`;
  if (!isPlainObject(options)) throw new OptionsError(path, 'an object of options', describeValue(options));
  const { server } = options as MqttPatternOptions;
  if (server !== undefined) nonEmptyText(`${path}.server`, server);
  return options;
}

/** What the strategy takes from our decorators besides the options. */
function marks(name: string): Record<string, unknown> {
  return { handlerName: name, capturesFailures: true };
}

function handles(pattern: (handlerName: string) => MethodDecorator): MethodDecorator {
  return (target, key, descriptor) => {
    const name = `${target.constructor.name}.${String(key)}`;
    pattern(name)(target, key, descriptor);
    peekAtFailures(target, key, descriptor);
  };
}
