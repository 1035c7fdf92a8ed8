import { type MqttBrokerOptions } from './options.js';
import { type BrokerMessage, type MqttSession, type MqttSubscription } from './session.js';
import { type SessionStore } from './session-store.js';
import { parseFilter, topicMatches } from './topic-match.js';

/** Brings a message to every session whose subscriptions match, and keeps retained messages. */
export class Router {
  readonly retained = new Map<string, BrokerMessage>();
  private readonly turns = new Map<string, number>();

  constructor(
    private readonly sessions: SessionStore,
    private readonly options: MqttBrokerOptions,
  ) {}

  /** Returns how many sessions got it. */
  publish(message: BrokerMessage): number {
    if (message.retain) {
      // A zero-length retained message removes what was there [MQTT-3.3.1-6].
      if (message.payload.length === 0) this.retained.delete(message.topic);
      else this.retained.set(message.topic, message);
    }
    let receivers = 0;
    for (const session of this.sessions.values()) {
      const matching = session
        .matching(message.topic)
        .filter((subscription) => !(subscription.noLocal && message.publisher === session.clientId));
      if (matching.length === 0) continue;
      receivers++;
      const copies = this.options.overlapping === 'copies' ? matching.map((one) => [one]) : [matching];
      for (const subscriptions of copies) session.deliver(forSubscriptions(message, subscriptions, false));
    }
    return receivers + this.publishShared(message);
  }

  /** What a new subscription gets at once [MQTT-3.3.1-9..-11]; shared ones get nothing. */
  sendRetained(session: MqttSession, subscription: MqttSubscription, isNew: boolean): void {
    const { group, filter } = parseFilter(subscription.filter);
    if (group !== undefined || subscription.retainHandling === 2) return;
    if (subscription.retainHandling === 1 && !isNew) return;
    for (const message of this.retained.values()) {
      if (topicMatches(filter, message.topic)) session.deliver(forSubscriptions(message, [subscription], true));
    }
  }

  private publishShared(message: BrokerMessage): number {
    const groups = new Map<string, { session: MqttSession; subscription: MqttSubscription }[]>();
    for (const session of this.sessions.values()) {
      for (const subscription of session.subscriptions.values()) {
        const { group, filter } = parseFilter(subscription.filter);
        if (group === undefined || !topicMatches(filter, message.topic)) continue;
        const members = groups.get(subscription.filter);
        if (members === undefined) groups.set(subscription.filter, [{ session, subscription }]);
        else members.push({ session, subscription });
      }
    }
    for (const [key, members] of groups) {
      const online = members.filter(({ session }) => session.connection !== undefined);
      const candidates = online.length > 0 ? online : members;
      const turn = (this.turns.get(key) ?? -1) + 1;
      this.turns.set(key, turn);
      const chosen = candidates[turn % candidates.length];
      chosen?.session.deliver(forSubscriptions(message, [chosen.subscription], false));
    }
    return groups.size;
  }
}

/** The message as one client gets it: lower of the QoS, RETAIN as asked, all matching identifiers. */
function forSubscriptions(
  message: BrokerMessage,
  subscriptions: readonly MqttSubscription[],
  fromStore: boolean,
): BrokerMessage {
  const granted = Math.max(...subscriptions.map(({ qos }) => qos));
  const identifiers = subscriptions.flatMap(({ identifier }) => (identifier === undefined ? [] : [identifier]));
  return {
    ...message,
    qos: Math.min(message.qos, granted) as 0 | 1 | 2,
    retain: fromStore || (message.retain && subscriptions.some((one) => one.retainAsPublished)),
    properties:
      identifiers.length === 0
        ? message.properties
        : {
            ...message.properties,
            subscriptionIdentifier: identifiers.length === 1 ? identifiers[0] : identifiers,
          },
  };
}
