import { type MessageHandler } from '@nestjs/microservices';
import { OptionsError } from '../errors.js';
import { type MqttMessage, type Qos, TopicRouter, validateTopicFilter } from '../mqtt/index.js';
import { type BatchCollector } from './batch-run.js';
import { type ResolvedHandlerOptions } from './handler-options.js';
import { OverlapFinder, subscriptionIdentifierFor } from './overlap.js';

/** One handler method with what was said about it. */
export interface HandlerEntry {
  /** The topic filter that messages are matched with, without `$share/group/`. */
  readonly filter: string;
  /** The topic filter of the SUBSCRIBE packet. */
  readonly subscription: string;
  /** Class and method where known, else the filter: for log lines and errors. */
  readonly name: string;
  readonly isEvent: boolean;
  readonly callback: MessageHandler;
  readonly options: ResolvedHandlerOptions;
  /** Its decorator notes what it throws: each run needs a scope. */
  readonly capturesFailures: boolean;
  /** For batch handlers. */
  collector: BatchCollector | undefined;
  /** Set when there are overlapping filters; copies for another subscription do not run this handler. */
  identifier: number | undefined;
}

export interface WantedSubscription {
  filter: string;
  qos: Qos;
  noLocal?: boolean;
  retainAsPublished?: boolean;
  retainHandling?: 0 | 1 | 2;
  subscriptionIdentifier?: number;
}

/** All handlers of one server: which of them a message runs, and what has to be subscribed for them. */
export class HandlerRegistry {
  private readonly entries: HandlerEntry[] = [];
  /** The first one of each filter; the others are events as it is. */
  private readonly firstOf = new Map<string, HandlerEntry>();
  private readonly router = new TopicRouter<HandlerEntry>();
  private readonly identifiers = new Set<number>();
  private skipsRetained = false;

  get size(): number {
    return this.entries.length;
  }

  [Symbol.iterator](): IterableIterator<HandlerEntry> {
    return this.entries[Symbol.iterator]();
  }

  /** @throws OptionsError for an invalid filter or two handlers that cannot share it */
  add(entry: HandlerEntry): void {
    try {
      validateTopicFilter(entry.subscription);
    } catch (error) {
      throw new OptionsError(`handlers['${entry.subscription}']`, 'a valid topic filter', (error as Error).message);
    }
    const other = this.firstOf.get(entry.filter);
    if (other === undefined) this.firstOf.set(entry.filter, entry);
    else if (!other.isEvent || !entry.isEvent) {
      throw new OptionsError(
        `handlers['${entry.filter}']`,
        'one request handler or any number of event handlers for one filter',
        `${describe(other)} and ${describe(entry)}`,
      );
    }
    this.entries.push(entry);
    this.router.add(entry.filter, entry);
    this.skipsRetained ||= entry.options.retained === 'skip';
  }

  /**
   * The handlers that run for a message: those of exact filters, then those with wildcards. Empty: nobody asked for this topic.
   * `undefined`: somebody did, but not for retained messages.
   */
  match(message: MqttMessage): readonly HandlerEntry[] | undefined {
    let matching: readonly HandlerEntry[] = this.router.match(message.topic);
    if (matching.length === 0) return matching;
    const identifiers = this.identifiers.size > 0 ? message.properties?.subscriptionIdentifiers : undefined;
    if (identifiers?.some((identifier) => this.identifiers.has(identifier)) === true) {
      // The broker sends a copy per overlapping subscription [MQTT5 3.3.4]: each runs the handlers it was sent for.
      const meant = matching.filter(({ identifier }) => identifier !== undefined && identifiers.includes(identifier));
      if (meant.length > 0) matching = meant;
    }
    if (message.retain && this.skipsRetained) {
      const wanting = matching.filter(({ options }) => options.retained !== 'skip');
      return wanting.length === 0 ? undefined : wanting;
    }
    return matching;
  }

  /** The filter of a handler that receives messages of this topic. */
  receiverOf(topic: string): string | undefined {
    return this.router.match(topic)[0]?.filter;
  }

  /** One subscription per filter, with the highest QoS that one of its handlers asks for. */
  subscriptions(): WantedSubscription[] {
    const wanted = new Map<string, WantedSubscription>();
    for (const { subscription, options } of this.entries) {
      const known = wanted.get(subscription);
      if (known === undefined) {
        wanted.set(subscription, { filter: subscription, qos: options.qos, ...options.subscription });
      } else if (options.qos > known.qos) {
        known.qos = options.qos;
      }
    }
    this.assignIdentifiers([...wanted.values()]);
    return [...wanted.values()];
  }

  /** Subscriptions that can match the same topic get an identifier, the same one in every process. */
  private assignIdentifiers(wanted: WantedSubscription[]): void {
    const finder = new OverlapFinder();
    for (const { filter } of wanted) finder.add(filter);
    const identifiers = new Map<string, number>();
    for (const subscription of wanted) {
      if (!finder.overlaps(subscription.filter)) continue;
      const identifier = subscriptionIdentifierFor(subscription.filter);
      subscription.subscriptionIdentifier = identifier;
      identifiers.set(subscription.filter, identifier);
      this.identifiers.add(identifier);
    }
    for (const entry of this.entries) entry.identifier = identifiers.get(entry.subscription);
  }
}

function describe(entry: HandlerEntry): string {
  return `${entry.isEvent ? 'event' : 'request'} handler ${entry.name}`;
}
