import { type Logger } from '@nestjs/common';
import { type SubscriptionGrant, withoutShare } from '../mqtt/index.js';
import { type DeadLetterTarget } from './dead-letter-target.js';
import { type FailurePolicy } from './failure-policy.js';
import { type HandlerEntry } from './handler-registry.js';
import { type ResolvedMqttServerOptions } from './mqtt-server-options.js';
import { hasTwin } from './twins.js';

/** What is allowed and seldom meant, said before the first connection. */
export function warnBeforeStart(
  entries: Iterable<HandlerEntry>,
  options: Pick<ResolvedMqttServerOptions, 'failure' | 'name' | 'unmatched'>,
  deadLetter: DeadLetterTarget | undefined,
  logger: Pick<Logger, 'warn'>,
): void {
  const handlers = [...entries];
  if (hasTwin(options.name, handlers)) warnOfTwin(options.name, logger);
  if (deadLetter !== undefined) {
    warnOfCircle(deadLetter, logger);
    if (![options.failure, ...handlers.map((entry) => entry.options.failure)].some(mayDeadLetter)) {
      warnOfUnusedTarget(options.unmatched, logger);
    }
  }
  for (const { filter, name } of handlers) warnOfWildcard(filter, name, logger);
}

/** One line per filter, so that the log of a start shows who gets what; the handlers of many filters are not all named. */
export function reportSubscriptions(
  grants: readonly SubscriptionGrant[],
  entries: Iterable<HandlerEntry>,
  logger: Pick<Logger, 'log'>,
): void {
  const names = new Map<string, string[]>();
  for (const { subscription, name } of entries) {
    const known = names.get(subscription);
    if (known === undefined) names.set(subscription, [name]);
    else known.push(name);
  }
  for (const { filter, reasonCode } of grants.slice(0, MAX_LINES)) {
    logger.log(`Subscribed '${filter}' QoS ${reasonCode}: ${listed(names.get(filter) ?? [])}`);
  }
  if (grants.length > MAX_LINES)
    logger.log(`Subscribed ${grants.length} filters: these and ${grants.length - MAX_LINES} more`);
}

const MAX_LINES = 20;
const MAX_NAMES = 5;

function listed(names: readonly string[]): string {
  const more = names.length - MAX_NAMES;
  return more > 0 ? `${names.slice(0, MAX_NAMES).join(', ')} and ${more} more` : names.join(', ');
}

/** Said and not refused: one controller for two brokers can be meant. */
function warnOfTwin(name: string, logger: Pick<Logger, 'warn'>): void {
  logger.warn(
    `A second strategy with the name '${name}' has the same handlers: each of the two runs them for every message. ` +
      `If that is not meant, give it a 'name' of its own, and say it in the decorators: @MqttEvent(filter, { server: name })`,
  );
}

/** A function is asked for each failure: what it will say is not known. */
function mayDeadLetter({ then, decide }: FailurePolicy): boolean {
  return then === 'deadLetter' || decide !== undefined;
}

/** Said and not refused: a handler may ask for dead letters itself. */
function warnOfUnusedTarget(unmatched: ResolvedMqttServerOptions['unmatched'], logger: Pick<Logger, 'warn'>): void {
  const users =
    unmatched === 'deadLetter' ? 'messages without a handler and context.deadLetter()' : 'context.deadLetter()';
  logger.warn(
    `No failure policy uses the deadLetter target, it is for ${users} alone: for messages whose handler fails, ` +
      `write failure: { then: 'deadLetter' }`,
  );
}

/** Said and not refused: the handler may do anything else with letters. */
function warnOfCircle(target: DeadLetterTarget, logger: Pick<Logger, 'warn'>): void {
  const receiver = target.receiver();
  if (receiver === undefined) return;
  const { topic, filter } = receiver;
  const where = target.broker === 'same' ? '' : ' where they go to the same broker';
  const what = target.broker === 'same' ? 'is kept and stalls' : 'goes in circles for ever';
  logger.warn(
    `Dead letters go to '${topic}', which the handler of '${filter}' receives as well${where}: ` +
      `one that is dead-lettered there again ${what}`,
  );
}

/** Said and not refused: such a level is a valid name, which a device may use. */
function warnOfWildcard(filter: string, name: string, logger: Pick<Logger, 'warn'>): void {
  const level = withoutShare(filter)
    .split('/')
    .find((each) => FOREIGN_WILDCARD.test(each));
  if (level === undefined) return;
  logger.warn(
    `'${filter}' (${name}) has the level '${level}', which matches only itself: ` +
      `MQTT's wildcards are + (one level) and # (all that follow, at the end)`,
  );
}

/** NATS, Redis and AMQP (`*`, `**`, `>`), routes (`:id`), URI templates (`{id}`). */
const FOREIGN_WILDCARD = /^(?:\*{1,2}|>|:\w+|\{\w*\})$|(?:^|\.)\*(?:\.|$)/;
