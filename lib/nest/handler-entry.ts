import { type MessageHandler } from '@nestjs/microservices';
import { OptionsError } from '../errors.js';
import { withoutShare } from '../mqtt/index.js';
import { describeValue, isPlainObject } from '../option-checks.js';
import { resolveHandlerOptions } from './handler-options.js';
import { type HandlerEntry } from './handler-registry.js';
import { type ResolvedMqttServerOptions } from './mqtt-server-options.js';
import { envelopeData } from './reply-opening.js';

/**
 * What is known about a handler method when Nest adds it: from its decorator, and where that says nothing, from the strategy.
 *
 * @throws OptionsError naming the handler and the option
 */
export function handlerEntry(
  subscribed: string,
  callback: MessageHandler,
  isEvent: boolean,
  extras: Readonly<Record<string, unknown>>,
  server: ResolvedMqttServerOptions,
): HandlerEntry {
  const { handlerName, capturesFailures, ...given } = extras;
  if (typeof subscribed !== 'string') throw new OptionsError('handlers', 'a topic filter', describeValue(subscribed));
  const path = `handlers['${subscribed}']`;
  if (isForeign(subscribed, server)) {
    throw new OptionsError(
      path,
      "a topic filter such as 'devices/+/telemetry' (objects: envelope: 'nest')",
      'an object',
    );
  }
  const options = resolveHandlerOptions(given, server, path, capturesFailures === true);
  if (options.failure.then === 'deadLetter' && server.deadLetter === undefined) {
    throw new OptionsError(
      `${path}.failure.then`,
      "a step other than 'deadLetter' where no target is given (set the strategy's `deadLetter`)",
      "'deadLetter'",
    );
  }
  if (options.batch !== undefined && !isEvent) {
    throw new OptionsError(
      `${path}.batch`,
      'nothing for a request handler: each request has an answer of its own',
      'a value',
    );
  }
  const filter = withoutShare(subscribed);
  if (filter !== subscribed && options.sharedGroup !== undefined) {
    throw new OptionsError(`${path}.sharedGroup`, 'nothing where the filter names its group', 'a value');
  }
  const group = options.sharedGroup ?? server.sharedGroup ?? false;
  const subscription = filter === subscribed && group !== false ? `$share/${group}/${filter}` : subscribed;
  if (options.subscription.noLocal === true && subscription !== filter) {
    throw new OptionsError(`${path}.noLocal`, 'false for a shared subscription [MQTT-3.8.3-4]', 'true');
  }
  // Nest's built-in client puts events in its envelope as well.
  const unwraps = isEvent && server.envelope === 'nest' && options.payload === undefined;
  return {
    filter,
    subscription,
    name: typeof handlerName === 'string' ? handlerName : `handler of '${subscribed}'`,
    isEvent,
    callback,
    options: unwraps ? { ...options, decode: envelopeData } : options,
    identifier: undefined,
    capturesFailures: capturesFailures === true,
    collector: undefined,
  };
}

/**
 * A pattern that is an object: no device publishes to the topic that Nest makes of it, only its own MQTT client does. Nest
 * gives every server the handlers that name no transport, so it may be meant for another one.
 */
export function isForeign(subscribed: string, server: ResolvedMqttServerOptions): boolean {
  return server.envelope !== 'nest' && subscribed.startsWith('{') && isPlainObject(tryJson(subscribed));
}

function tryJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
