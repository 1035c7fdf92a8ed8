import { ClientMqtt } from '@nestjs/microservices';
import { LocalProtocolError } from '../errors.js';
import { type Endpoint, type MqttMessage } from '../mqtt/index.js';
import { type CarriesDeadLetters, DEAD_LETTER_ENDPOINTS } from './dead-letter-record.js';
import { type HandlerRegistry } from './handler-registry.js';
import { type DeadLetterOptions } from './mqtt-server-options.js';

/** Whether two clients talk to one broker, as far as their addresses tell. */
type Broker = 'same' | 'unknown' | 'other';

/**
 * Where the dead letters of one strategy go, and whether they would come back. A letter that does, and is to become a
 * letter again that comes back, would go round for ever, thousands of times a second: it is kept instead. Over MQTT 3.1.1
 * letters carry no properties, so they are known by the topics that letters were sent to.
 */
export class DeadLetterTarget {
  /** Of the broker that letters are published to and the one that the strategy receives from. */
  readonly broker: Broker;
  /** Topics that a function of the user's led letters to, the latest last. */
  private readonly used = new Set<string>();

  /**
   * @param own the servers of the strategy's client
   * @param handlers tell which of their filters receives a topic
   */
  constructor(
    private readonly options: DeadLetterOptions,
    own: readonly Endpoint[],
    private readonly handlers: Pick<HandlerRegistry, 'receiverOf'>,
  ) {
    this.broker = brokerOf(options.client, own);
  }

  get client(): DeadLetterOptions['client'] {
    return this.options.client;
  }

  /**
   * The pattern for the letter of a message.
   *
   * @param unmatched no handler wanted the message: which filters the session holds beside those of handlers is not known
   * @throws LocalProtocolError if the message is a letter itself and the next one would come back as well
   */
  patternFor(message: MqttMessage, unmatched: boolean): string {
    const { topic } = message;
    const next = this.leadTo(topic);
    if (this.broker !== 'same') return next;
    if (this.isLetter(message)) {
      const filter = this.handlers.receiverOf(next);
      if (filter !== undefined || unmatched || next === topic) throw inCircles(topic, next, filter);
    }
    if (typeof this.options.pattern === 'function') this.remember(next);
    return next;
  }

  /** The topic of letters and the filter of an own handler that receives it, as far as that can be told beforehand. */
  receiver(): { readonly topic: string; readonly filter: string } | undefined {
    const { pattern: topic } = this.options;
    if (this.broker === 'other' || typeof topic !== 'string') return undefined;
    const filter = this.handlers.receiverOf(topic);
    return filter === undefined ? undefined : { topic, filter };
  }

  private leadTo(topic: string): string {
    const { pattern } = this.options;
    return typeof pattern === 'function' ? pattern(topic) : pattern;
  }

  /** It came on a topic of letters; of one that another process has sent, its own properties tell (MQTT 5). */
  private isLetter({ topic, properties }: MqttMessage): boolean {
    if (this.options.pattern === topic) return true;
    if (this.used.has(topic)) {
      this.remember(topic);
      return true;
    }
    const origin = properties?.userProperties?.findLast(([name]) => name === 'dead-letter-topic')?.[1];
    if (origin === undefined || origin === topic) return false;
    try {
      return this.leadTo(origin) === topic;
    } catch {
      return false;
    }
  }

  private remember(topic: string): void {
    this.used.delete(topic);
    this.used.add(topic);
    if (this.used.size <= MAX_TOPICS) return;
    for (const oldest of this.used) {
      this.used.delete(oldest);
      return;
    }
  }
}

/** More than wait at a broker for one client: what is forgotten before it comes back goes one round further. */
const MAX_TOPICS = 10_000;

function inCircles(topic: string, next: string, filter: string | undefined): LocalProtocolError {
  const receiver = filter === undefined ? 'this session receives' : `the handler of '${filter}' receives`;
  return new LocalProtocolError(
    `'${topic}' is a topic of dead letters itself, and a further one would go to '${next}', which ${receiver} as well: ` +
      `it would go in circles for ever. Send dead letters where no handler receives them (deadLetter.pattern), or let ` +
      `what receives '${topic}' not dead-letter`,
  );
}

/** A Kafka or Pulsar topic of the same name is another one. Nest's own MQTT client does not say where it connects to. */
function brokerOf(client: object, own: readonly Endpoint[]): Broker {
  if (client instanceof ClientMqtt) return 'unknown';
  const theirs = (client as Partial<CarriesDeadLetters>)[DEAD_LETTER_ENDPOINTS] ?? [];
  const pairs = own.flatMap((one) => theirs.map((other) => compare(one, other)));
  return pairs.includes('same') ? 'same' : pairs.includes('unknown') ? 'unknown' : 'other';
}

function compare(one: Endpoint, other: Endpoint): Broker {
  if (one.scheme === 'unix' || other.scheme === 'unix') {
    if (one.scheme !== other.scheme) return 'unknown';
    return one.path === other.path ? 'same' : 'other';
  }
  const [host, otherHost] = [hostName(one), hostName(other)];
  // Another port can be the same broker with TLS or WebSocket, or another broker.
  if (host === otherHost) return one.port === other.port ? 'same' : 'unknown';
  // A name and an address can mean one machine.
  return isAddress(host) === isAddress(otherHost) ? 'other' : 'unknown';
}

function hostName({ host }: Endpoint): string {
  const name = host.toLowerCase();
  return name === '::1' || name.startsWith('127.') ? 'localhost' : name;
}

function isAddress(host: string): boolean {
  return host.includes(':') || /^[\d.]+$/.test(host);
}
