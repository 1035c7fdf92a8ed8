import { LocalProtocolError } from '../../errors.js';
import { validateTopicFilter } from './topic-filter.js';
import { type ServerLimits, type Subscription } from './types.js';

/** What a server says to one filter. */
export interface Answer {
  readonly reasonCode: number;
  readonly reasonString?: string;
}

const SHARED_NOT_SUPPORTED = 0x9e;
const WILDCARDS_NOT_SUPPORTED = 0xa2;

/** @throws LocalProtocolError for what the protocol does not allow */
export function checkSubscription(request: Subscription): void {
  const { filter, qos, noLocal, retainHandling, subscriptionIdentifier: identifier } = request;
  validateTopicFilter(filter);
  if (!(qos === 0 || qos === 1 || qos === 2)) {
    throw new LocalProtocolError(`Subscription '${filter}': QoS must be 0, 1 or 2`);
  }
  if (retainHandling !== undefined && ![0, 1, 2].includes(retainHandling)) {
    throw new LocalProtocolError(`Subscription '${filter}': retainHandling must be 0, 1 or 2`);
  }
  if (noLocal === true && filter.startsWith('$share/')) {
    throw new LocalProtocolError(`Subscription '${filter}': a shared one must not set noLocal [MQTT-3.8.3-4]`);
  }
  if (identifier !== undefined && !(Number.isInteger(identifier) && identifier > 0 && identifier <= 268_435_455)) {
    throw new LocalProtocolError(`Subscription '${filter}': the identifier must be from 1 to 268,435,455`);
  }
}

/** The answer of a server that has said in CONNACK that it lacks what the filter needs [MQTT5 3.2.2.3.11, 3.2.2.3.13]. */
export function lackingOfServer(
  { filter }: Subscription,
  limits: Pick<ServerLimits, 'sharedSubscriptions' | 'wildcardSubscriptions'>,
): Required<Answer> | undefined {
  if (!limits.sharedSubscriptions && filter.startsWith('$share/')) {
    return { reasonCode: SHARED_NOT_SUPPORTED, reasonString: 'the server has no shared subscriptions' };
  }
  if (!limits.wildcardSubscriptions && /[+#]/.test(filter)) {
    return { reasonCode: WILDCARDS_NOT_SUPPORTED, reasonString: 'the server has no wildcard subscriptions' };
  }
  return undefined;
}
